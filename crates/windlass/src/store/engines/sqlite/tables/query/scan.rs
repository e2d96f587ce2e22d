//! Lists of jobs by a filter. SQL narrows the candidates with the best available index and evaluates the conditions on
//! specs; the filter's own predicate decides everything in the job record, so the two cannot differ.

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params_from_iter};

use super::super::row::read_readable;
use super::super::{Holds, Tables, prepare, store_error};
use super::source::{
    EVERYTHING, Query, SELECT, Source, assemble, blob, continue_claim_order, narrow, narrow_by_spec, numbers,
};
use crate::clock::Timestamp;
use crate::job::{JobId, JobState, Seq};
use crate::limits;
use crate::store::engine::{ClaimOrder, EngineResult};
use crate::store::engines::sql::columns::{SET_ASIDE, code, limit};
use crate::store::engines::sql::page::{
    Page, claimable_lanes, codes, few_lanes, is_by_lane, scan_limits, state_of, submitted, total,
};
use crate::store::filter::{Filter, Order, Scan, SearchResult};

/// Number of jobs in a state up to which sorting all their numbers beats scanning the table in order.
const SORTED_MAX: u64 = 30_000;
/// A row lookup costs as much as scanning this many rows.
const LOOKUP_COST: usize = 4;
/// Number of lanes up to which each is read separately.
const LANES_APART_MAX: usize = 1_000;

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn search_jobs(
        &mut self,
        scan: &Scan,
        reach: usize,
    ) -> EngineResult<SearchResult> {
        // Counters can avoid a long scan; an unbounded scan does not use them.
        let is_bounded = reach < usize::MAX;
        let counts = if is_bounded { Some(self.load_counts()?) } else { None };
        let is_impossible = scan.filter.possible_states().is_some_and(|states| states.is_empty());
        if is_impossible || counts.as_ref().is_some_and(|counts| counts.at_most(&scan.filter) == 0) {
            return Ok(SearchResult::default());
        }
        let total = counts.and_then(|counts| total(scan, counts));
        let mut found = SearchResult::default();
        for reach in scan_limits(reach) {
            let mut page = Page::new(scan, total);
            let sources = match scan.order {
                Order::Claim => self.claim_sources(scan, reach)?,
                Order::Newest | Order::Oldest => self.sources(&scan.filter, reach)?,
            };
            let share = reach / sources.len().max(1);
            for source in sources {
                let end = match scan.order {
                    Order::Claim => self.end_of_lane(&source, scan, share)?,
                    Order::Newest | Order::Oldest => self.end_of(&source, scan, reach)?,
                };
                self.read_source(source, end, &mut page)?;
            }
            found = page.into_found();
            if found.stopped.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// The first candidate of a source beyond the scan limit, if there are more than `reach`.
    fn end_of(&mut self, source: &Source, scan: &Scan, reach: usize) -> EngineResult<Option<ClaimOrder>> {
        let Some(walk) = source.walk.filter(|_| reach < usize::MAX) else { return Ok(None) };
        let mut rest = scan.filter.clone();
        (walk.without)(&mut rest);
        if rest == Filter::default() {
            // All of them match: the page is full before the scan can be too long.
            return Ok(None);
        }
        let is_walked = walk.from == EVERYTHING && scan.filter.owner.is_none();
        let reach = if is_walked { reach } else { reach.div_ceil(LOOKUP_COST) };
        let mut query = numbers(source, walk.from, scan);
        query.sql.push_str(" LIMIT 1 OFFSET ?");
        query.parameters.push(limit(reach).into());
        let mut statement = prepare(self.connection.get(), &query.sql)?;
        let end = statement.query_row(params_from_iter(query.parameters), |row| row.get(0));
        Ok(end.optional().map_err(store_error)?.map(submitted))
    }

    /// Like [`end_of`](Self::end_of), for candidates in claim order, where this source may use a share of the scan
    /// limit.
    fn end_of_lane(
        &mut self,
        source: &Source,
        scan: &Scan,
        share: usize,
    ) -> EngineResult<Option<ClaimOrder>> {
        if !source.is_claim_order || is_by_lane(&scan.filter) || share >= usize::MAX / LANES_APART_MAX {
            return Ok(None);
        }
        let sql = format!("SELECT h.rank, h.at, h.seq FROM {} WHERE {}", source.from, source.condition);
        let mut query = Query { sql, parameters: source.parameters.clone() };
        continue_claim_order(&mut query, scan);
        query.sql.push_str(" LIMIT 1 OFFSET ?");
        query.parameters.push(limit(share.div_ceil(LOOKUP_COST)).into());
        let mut statement = prepare(self.connection.get(), &query.sql)?;
        let end = statement.query_row(params_from_iter(query.parameters), |row| {
            let (rank, eligible_at) = (row.get(0)?, Timestamp::from_millis(row.get(1)?));
            Ok(ClaimOrder { rank, eligible_at, seq: Seq(row.get(2)?) })
        });
        end.optional().map_err(store_error)
    }

    fn read_source(
        &mut self,
        source: Source,
        end: Option<ClaimOrder>,
        page: &mut Page<'_>,
    ) -> EngineResult<()> {
        if source.is_loose && page.scan.order != Order::Claim {
            return self.read_loose(&source, page);
        }
        let is_ordered = source.is_claim_order || page.scan.order != Order::Claim;
        let query = assemble(page.scan, source, end);
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut statement = prepare(connection, &query.sql)?;
        let mut rows = statement.query(params_from_iter(query.parameters)).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let Some(job) = read_readable(row, interned, connection)? else { continue };
            let has_room = page.offer(job);
            if is_ordered && !has_room {
                return Ok(());
            }
        }
        if let Some(end) = end {
            page.leave_out(end);
        }
        Ok(())
    }

    /// Sorts the numbers of the candidates first, so that rows are read only until the page is full.
    fn read_loose(&mut self, source: &Source, page: &mut Page<'_>) -> EngineResult<()> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let query = numbers(source, source.from, page.scan);
        let mut statement = prepare(connection, &query.sql)?;
        let seqs = statement.query_map(params_from_iter(query.parameters), |row| row.get(0));
        let seqs: Vec<i64> = seqs.and_then(|seqs| seqs.collect::<Result<_, _>>()).map_err(store_error)?;
        let mut one = Query { sql: format!("{SELECT} hot h WHERE h.seq = ?"), parameters: vec![Value::Null] };
        narrow(&mut one, &page.scan.filter);
        narrow_by_spec(&mut one, &page.scan.filter);
        let mut statement = prepare(connection, &one.sql)?;
        for seq in seqs {
            one.parameters[0] = seq.into();
            let mut rows = statement.query(params_from_iter(&one.parameters)).map_err(store_error)?;
            if let Some(row) = rows.next().map_err(store_error)?
                && let Some(job) = read_readable(row, interned, connection)?
                && !page.offer(job)
            {
                break;
            }
        }
        Ok(())
    }

    /// The sources of candidates for a filter.
    fn sources(&mut self, filter: &Filter, reach: usize) -> EngineResult<Vec<Source>> {
        if let Some(parent) = &filter.parent {
            let parameters = vec![parent.as_bytes().to_vec().into()];
            return Ok(vec![Source::new("hot h INDEXED BY hot_children", "h.parent = ?", parameters)]);
        }
        if let Some(id) = &filter.correlation_id {
            let from = "jobs d INDEXED BY jobs_correlation CROSS JOIN hot h ON h.seq = d.seq";
            let source = Source::joined(from, "d.correlation_id = ?", vec![id.clone().into()]);
            let walk = "jobs d INDEXED BY jobs_correlation";
            return Ok(vec![source.walked(walk, |filter| filter.correlation_id = None)]);
        }
        if let Some((name, value)) = &filter.tag {
            let parameters = vec![name.clone().into(), value.clone().into()];
            let from = "tags d CROSS JOIN hot h ON h.seq = d.seq";
            let source = Source::joined(from, "d.name = ? AND d.value = ?", parameters);
            return Ok(vec![source.walked("tags d", |filter| filter.tag = None)]);
        }
        if let Some((first, last)) = filter.few_ids()
            && self.has_few_ids(first, last, reach)?
        {
            let from = "hot h INDEXED BY hot_id";
            let source = Source::new(from, "h.id BETWEEN ? AND ?", [first, last].map(blob).into());
            return Ok(vec![Source { is_loose: true, ..source }]);
        }
        if !filter.workers.is_empty() {
            return Ok(vec![Source::leased(&filter.workers)]);
        }
        if let Some(sources) = concurrency_sources(filter) {
            return Ok(sources);
        }
        let sources = if filter.possible_states().is_none() { None } else { self.state_sources(filter)? };
        Ok(sources.unwrap_or_else(|| vec![Source::everything()]))
    }

    /// Whether so few jobs are in this id range that all of them can be read.
    fn has_few_ids(&self, first: JobId, last: JobId, reach: usize) -> EngineResult<bool> {
        if reach == usize::MAX {
            return Ok(true);
        }
        let sql = "SELECT 1 FROM hot INDEXED BY hot_id WHERE id BETWEEN ? AND ? LIMIT 1 OFFSET ?";
        let parameters = [blob(first), blob(last), limit(limits::LIST_SCAN_MAX / LOOKUP_COST).into()];
        let mut statement = prepare(self.connection.get(), sql)?;
        let beyond = statement.query_row(params_from_iter(parameters), |_| Ok(()));
        Ok(beyond.optional().map_err(store_error)?.is_none())
    }

    /// The states one by one, if that is cheaper than scanning the table.
    fn state_sources(&mut self, filter: &Filter) -> EngineResult<Option<Vec<Source>>> {
        let counts = self.load_counts()?;
        let few = few_lanes(filter, counts, LANES_APART_MAX, SORTED_MAX);
        let mut sources = Vec::new();
        let mut to_sort = 0;
        let mut is_aside = false;
        for state in codes(filter) {
            let counted = state_of(state);
            let own = counts.sum(counted, |lane| filter.fits_lane(lane));
            if own == 0 {
                continue;
            }
            if counted.is_final() {
                let both = filter.redriven_or_not().into_iter();
                sources.extend(both.map(|is_redriven| Source::ended(state, is_redriven)));
            } else if counted == JobState::Scheduled && few.is_some() {
                // Blocked jobs are not in the order of lanes.
                is_aside |= state == SET_ASIDE;
                to_sort += if state == SET_ASIDE { 0 } else { own };
            } else {
                // Both codes of scheduled jobs share one count.
                if state != SET_ASIDE || filter.is_blocked == Some(true) {
                    to_sort += counts.sum(counted, |_| true);
                }
                sources.push(Source::state(state));
            }
        }
        if to_sort > SORTED_MAX || is_aside && !self.has_few_aside(SORTED_MAX)? {
            return Ok(None);
        }
        if is_aside {
            sources.push(Source::state(SET_ASIDE));
        }
        if codes(filter).contains(&code(JobState::Scheduled)) {
            for lane in few.into_iter().flatten() {
                let lane = self.interned.find_lane(self.connection.get(), &lane)?;
                sources.extend(lane.map(Source::lane));
            }
        }
        Ok(Some(sources))
    }

    /// The sources of candidates in claim order: lane by lane, each already in that order, if only claimable jobs are
    /// requested.
    fn claim_sources(&mut self, scan: &Scan, reach: usize) -> EngineResult<Vec<Source>> {
        let filter = &scan.filter;
        if filter.states.is_empty() || filter.states.iter().any(|state| *state != JobState::Scheduled) {
            return self.sources(filter, reach);
        }
        let lanes = claimable_lanes(filter, self.load_counts()?);
        let is_many = lanes.len() > LANES_APART_MAX;
        if is_many && (scan.limit > LANES_APART_MAX || !is_by_lane(filter)) {
            return self.sources(filter, reach);
        }
        if is_many {
            let is_ready = codes(filter).contains(&code(JobState::Scheduled));
            let first = if is_ready { self.first_lanes(&lanes, scan)? } else { Vec::new() };
            let ready = first.into_iter().map(|lane| Source::pair(code(JobState::Scheduled), lane));
            let is_aside = codes(filter).contains(&SET_ASIDE);
            return Ok(ready.chain(is_aside.then(|| Source::state(SET_ASIDE))).collect());
        }
        let mut sources = Vec::new();
        for state in codes(filter) {
            match filter.concurrency {
                Some(key) if state == SET_ASIDE => sources.push(Source::pair(state, key.0)),
                None if state == SET_ASIDE => sources.push(Source::state(state)),
                _ => {
                    for lane in &lanes {
                        let lane = self.interned.find_lane(self.connection.get(), lane)?;
                        sources.extend(lane.map(|lane| Source::pair(state, lane)));
                    }
                }
            }
        }
        Ok(sources)
    }
}

/// Jobs of a concurrency key, if only indexed ones are requested: running and blocked ones.
fn concurrency_sources(filter: &Filter) -> Option<Vec<Source>> {
    let key = filter.concurrency?;
    let codes = codes(filter);
    let running = code(JobState::Running);
    if codes.is_empty() || codes.iter().any(|state| ![running, SET_ASIDE].contains(state)) {
        return None;
    }
    let source = |state| {
        if state == SET_ASIDE {
            return Source::pair(state, key.0);
        }
        let condition = "h.state = 4 AND h.concurrency = ?";
        Source::new("hot h INDEXED BY hot_holders", condition, vec![key.0.into()])
    };
    Some(codes.into_iter().map(source).collect())
}
