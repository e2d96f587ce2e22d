//! Lists of jobs by a filter. SQL narrows the candidates with the best available index and evaluates the conditions on
//! specs; the filter's own predicate decides everything in the job record, so the two cannot differ.

use super::super::Tables;
use super::source::{EVERYTHING, Query, Sequence, Source, assemble, copies, unsorted, with_jobs};
use crate::clock::Timestamp;
use crate::job::{JobId, JobState, JobType, QueueName, Seq, Tenant};
use crate::limits;
use crate::store::engine::{ClaimOrder, EngineResult};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::columns::{REDRIVEN, SET_ASIDE, code, limit};
use crate::store::engines::sql::page::{
    Page, claimable_lanes, codes, few_lanes, is_by_lane, scan_limits, state_of, submitted, total,
};
use crate::store::filter::{Filter, Order, Scan, SearchResult};

/// Number of jobs in a state up to which reading and sorting them all beats scanning the table in order.
const SORTED_MAX: u64 = 10_000;
/// Number of lanes up to which each is read separately.
const LANES_APART_MAX: usize = 1_000;
/// A row lookup costs as much as scanning this many rows.
const LOOKUP_COST: usize = 10;
/// Rows read at a time beyond the requested page.
const READ_AT_ONCE: usize = 500;

impl Tables {
    pub(in crate::store::engines::postgres) fn search_jobs(
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
        let lanes = self.lanes_of(&scan.filter)?;
        let mut found = SearchResult::default();
        for reach in scan_limits(reach) {
            let mut page = Page::new(scan, total);
            let sources = match scan.order {
                Order::Claim => self.claim_sources(scan, reach)?,
                Order::Newest | Order::Oldest => self.sources(&scan.filter, reach)?,
            };
            let share = reach / sources.len().max(1);
            for source in sources {
                if source.order == Sequence::Numbered {
                    self.read_numbered(source, lanes.as_deref(), reach, &mut page)?;
                    continue;
                }
                let end = match scan.order {
                    Order::Claim => self.end_of_lane(&source, scan, share)?,
                    Order::Newest | Order::Oldest => self.end_of(&source, scan, reach)?,
                };
                self.read_source(source, lanes.as_deref(), end, &mut page)?;
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
        let (Some(walk), Sequence::Submission(column)) = (source.walk, source.order) else { return Ok(None) };
        let mut rest = scan.filter.clone();
        (walk.without)(&mut rest);
        // Where all of them match, the page is full before the scan can be too long.
        if reach == usize::MAX || rest == Filter::default() {
            return Ok(None);
        }
        let sql = format!("SELECT {column} FROM {} WHERE {}", walk.from, source.condition);
        let mut query = Query { sql, parameters: copies(Some(&source.parameters)) };
        let (beyond, order) = if scan.order == Order::Newest { ("<", " DESC") } else { (">", "") };
        if let Some(after) = scan.after {
            query.and(&format!("{column} {beyond} ?"), after.seq.0);
        }
        let is_walked = walk.from == EVERYTHING && scan.filter.owner.is_none();
        let reach = if is_walked { reach } else { reach.div_ceil(LOOKUP_COST) };
        query.parameters.push(limit(reach).into());
        let offset = query.parameters.len().to_string();
        query.sql.extend([" ORDER BY ", column, order, " LIMIT 1 OFFSET $", &offset]);
        let rows = self.link.fetch(&query.sql, query.parameters)?;
        rows.first().map(|row| get(row, 0).map(submitted)).transpose()
    }

    /// Like [`end_of`](Self::end_of), for candidates in claim order, where this source may use a share of the scan
    /// limit.
    fn end_of_lane(
        &mut self,
        source: &Source,
        scan: &Scan,
        share: usize,
    ) -> EngineResult<Option<ClaimOrder>> {
        let is_bounded = share < usize::MAX / LANES_APART_MAX;
        if source.order != Sequence::Claim || is_by_lane(&scan.filter) || !is_bounded {
            return Ok(None);
        }
        let sql = format!("SELECT d.rank::bigint, d.at, d.seq FROM @.ready d WHERE {}", source.condition);
        let mut query = Query { sql, parameters: copies(Some(&source.parameters)) };
        if let Some(after) = scan.after {
            query.and_place(">", after);
        }
        query.parameters.push(limit(share.div_ceil(LOOKUP_COST)).into());
        let offset = query.parameters.len().to_string();
        query.sql.extend([" ORDER BY d.rank, d.at, d.seq LIMIT 1 OFFSET $", &offset]);
        let rows = self.link.fetch(&query.sql, query.parameters)?;
        let place = |row: &tokio_postgres::Row| {
            let rank = u8::try_from(get::<i64>(row, 0)?).unwrap_or(u8::MAX);
            let eligible_at = Timestamp::from_millis(get(row, 1)?);
            Ok(ClaimOrder { rank, eligible_at, seq: Seq(get(row, 2)?) })
        };
        rows.first().map(place).transpose()
    }

    /// Reads a source in chunks until the page is full or nothing is left.
    fn read_source(
        &mut self,
        source: Source,
        lanes: Option<&[i64]>,
        end: Option<ClaimOrder>,
        page: &mut Page<'_>,
    ) -> EngineResult<()> {
        let is_ordered = match source.order {
            Sequence::Submission(_) => page.scan.order != Order::Claim,
            Sequence::Claim => page.scan.order == Order::Claim,
            Sequence::Unsorted | Sequence::Numbered => false,
        };
        let mut at_once = if is_ordered { page.scan.limit.clamp(1, READ_AT_ONCE) } else { usize::MAX };
        let Source { from, condition, order, parameters, seqs: _, walk: _ } = source;
        let start = (from, condition, order, end);
        let mut after = page.scan.after;
        let mut parameters = Some(parameters);
        loop {
            // The last round needs no copy; a source that is read at once holds all its numbers.
            let own =
                if is_ordered { copies(parameters.as_ref()) } else { parameters.take().unwrap_or_default() };
            let query = assemble(page.scan, start, own, lanes, after, is_ordered.then_some(at_once));
            let rows = self.link.fetch(&query.sql, query.parameters)?;
            let (jobs, left_out) = self.read_readable(&rows)?;
            after = jobs.last().map(ClaimOrder::new).or(after);
            let mut has_room = true;
            for job in jobs {
                has_room = page.offer(job);
                if is_ordered && !has_room {
                    break;
                }
            }
            if is_ordered && !has_room {
                return Ok(());
            }
            if !is_ordered || rows.len() < at_once {
                break;
            }
            // Those after the last readable one are read again, so that there must be room for more.
            at_once += left_out.len();
        }
        if let Some(end) = end {
            page.leave_out(end);
        }
        Ok(())
    }

    /// Reads candidates whose numbers are known, until the page is full or the scan limit is reached.
    fn read_numbered(
        &mut self,
        source: Source,
        lanes: Option<&[i64]>,
        reach: usize,
        page: &mut Page<'_>,
    ) -> EngineResult<()> {
        let Source { from, condition, order, mut seqs, .. } = source;
        let is_sorted = page.scan.order != Order::Claim;
        let after = page.scan.after.filter(|_| is_sorted).map(|after| after.seq.0);
        if page.scan.order == Order::Newest {
            seqs.retain(|seq| after.is_none_or(|after| *seq < after));
            seqs.reverse();
        } else {
            seqs.retain(|seq| after.is_none_or(|after| *seq > after));
        }
        // An unbounded scan uses few queries.
        let at_once = if reach == usize::MAX { 20 * READ_AT_ONCE } else { READ_AT_ONCE };
        for (round, some) in seqs.chunks(at_once).enumerate() {
            let first = submitted(some[0]);
            if is_sorted && !page.has_room_from(first) {
                break;
            }
            if is_sorted && round * at_once > reach / LOOKUP_COST {
                page.leave_out(first);
                break;
            }
            let numbers = vec![Column::from_numbers(some.iter().copied()).into()];
            let query =
                assemble(page.scan, (from, condition, order, None), numbers, lanes, page.scan.after, None);
            let rows = self.link.fetch(&query.sql, query.parameters)?;
            for job in self.read_readable(&rows)?.0 {
                page.offer(job);
            }
        }
        Ok(())
    }

    /// The sources of candidates for a filter.
    fn sources(&mut self, filter: &Filter, reach: usize) -> EngineResult<Vec<Source>> {
        if let Some(parent) = &filter.parent {
            return Ok(vec![Source::hot("h.parent = $1", vec![Parameter::Id(*parent.as_bytes())])]);
        }
        if let Some(id) = &filter.correlation_id {
            let from = with_jobs!("jobs");
            let source = Source::new(from, "d.correlation_id = $1", vec![id.as_bytes().into()]);
            return Ok(vec![source.walked("@.jobs d", |filter| filter.correlation_id = None)]);
        }
        if let Some((name, value)) = &filter.tag {
            let parameters = vec![name.as_bytes().into(), value.as_bytes().into()];
            let from = with_jobs!("tags");
            let source = Source::new(from, "d.name = $1 AND d.value = $2", parameters);
            return Ok(vec![source.walked("@.tags d", |filter| filter.tag = None)]);
        }
        if let Some((first, last)) = filter.few_ids()
            && self.has_few_ids(first, last, reach)?
        {
            let ids = [first, last].map(|id| Parameter::Id(*id.as_bytes()));
            return Ok(vec![Source::hot("h.id BETWEEN $1 AND $2", ids.into()).unsorted()]);
        }
        let wanted = codes(filter);
        let is_indexed = |state: &i64| [code(JobState::Running), SET_ASIDE].contains(state);
        if let Some(key) = filter.concurrency
            && !wanted.is_empty()
            && wanted.iter().all(is_indexed)
        {
            return Ok(wanted.into_iter().map(|state| Source::slots(key.0, state)).collect());
        }
        if !filter.workers.is_empty() {
            return Ok(vec![Source::running(self.running_seqs(&filter.workers)?)]);
        }
        let sources = if filter.possible_states().is_none() { None } else { self.state_sources(filter)? };
        Ok(sources.unwrap_or_else(|| vec![Source::everything()]))
    }

    /// Whether so few jobs are in this id range that all of them can be read.
    fn has_few_ids(&mut self, first: JobId, last: JobId, reach: usize) -> EngineResult<bool> {
        if reach == usize::MAX {
            return Ok(true);
        }
        let sql = "SELECT 1 FROM @.hot WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT 1 OFFSET $3";
        let [first, last] = [first, last].map(|id| Parameter::Id(*id.as_bytes()));
        let beyond = limit(limits::LIST_SCAN_MAX / LOOKUP_COST).into();
        Ok(self.link.fetch(sql, vec![first, last, beyond])?.is_empty())
    }

    /// The states one by one, if that is cheaper than scanning the table.
    fn state_sources(&mut self, filter: &Filter) -> EngineResult<Option<Vec<Source>>> {
        let counts = self.load_counts()?;
        let few = few_lanes(filter, counts, LANES_APART_MAX, SORTED_MAX);
        let mut there = Vec::new();
        let mut to_sort = 0;
        for state in codes(filter) {
            let counted = state_of(state);
            let is_listed = counted != JobState::Completed || filter.is_redriven == Some(true);
            if !is_listed && counts.sum(counted, |_| true) > 0 {
                // They have no list of their own.
                return Ok(None);
            }
            let own = counts.sum(counted, |lane| filter.fits_lane(lane));
            if own == 0 {
                continue;
            }
            there.push(state);
            if counted == JobState::Scheduled && few.is_some() {
                to_sort += if state == SET_ASIDE { 0 } else { own };
            } else if [JobState::Scheduled, JobState::Running].contains(&counted) {
                // Both codes of scheduled jobs share one count.
                if state != SET_ASIDE || filter.is_blocked == Some(true) {
                    to_sort += counts.sum(counted, |_| true);
                }
            }
        }
        if to_sort > SORTED_MAX
            || few.is_some() && there.contains(&SET_ASIDE) && !self.has_few_aside(SORTED_MAX)?
        {
            return Ok(None);
        }
        let mut sources = Vec::new();
        for state in there {
            if state_of(state).is_final() {
                let both = filter.redriven_or_not().into_iter();
                sources.extend(
                    both.map(|is_redriven| {
                        Source::listed(if is_redriven { state + REDRIVEN } else { state })
                    }),
                );
                continue;
            }
            sources.push(match state_of(state) {
                JobState::Running => Source::running(self.running_seqs(&[])?),
                JobState::Scheduled if state == SET_ASIDE => Source::aside(),
                JobState::Scheduled if few.is_some() => {
                    let ids = self.find_lanes(few.iter().flatten())?;
                    Source::lanes(ids)
                }
                JobState::Scheduled => Source::new(with_jobs!("ready"), "true", Vec::new()).unsorted(),
                _ => Source::listed(state),
            });
        }
        Ok(Some(sources))
    }

    /// The sources of candidates in claim order: lane by lane, each already in that order, if only claimable jobs are
    /// requested.
    fn claim_sources(&mut self, scan: &Scan, reach: usize) -> EngineResult<Vec<Source>> {
        let filter = &scan.filter;
        if filter.states.is_empty() || filter.states.iter().any(|state| *state != JobState::Scheduled) {
            return self.sources(filter, reach).map(unsorted);
        }
        let lanes = claimable_lanes(filter, self.load_counts()?);
        let is_many = lanes.len() > LANES_APART_MAX;
        if is_many && (scan.limit > LANES_APART_MAX || !is_by_lane(filter)) {
            return self.sources(filter, reach).map(unsorted);
        }
        if is_many {
            let is_ready = codes(filter).contains(&code(JobState::Scheduled));
            let first = if is_ready { self.first_lanes(&lanes, scan)? } else { Vec::new() };
            let ready = first.into_iter().map(Source::ready);
            let is_aside = codes(filter).contains(&SET_ASIDE);
            return Ok(ready.chain(is_aside.then(Source::aside)).collect());
        }
        let mut sources = Vec::new();
        for state in codes(filter) {
            match filter.concurrency {
                Some(key) if state == SET_ASIDE => sources.push(Source::slots(key.0, state)),
                None if state == SET_ASIDE => sources.push(Source::aside()),
                _ => {
                    let ids = self.find_lanes(lanes.iter())?;
                    sources.extend(ids.into_iter().filter(|id| *id != 0).map(Source::ready));
                }
            }
        }
        Ok(sources)
    }

    /// The lanes of a filter, if it has a condition on lanes.
    fn lanes_of(&mut self, filter: &Filter) -> EngineResult<Option<Vec<i64>>> {
        let names = [
            filter.tenant.as_ref().map(Tenant::as_str),
            filter.queue.as_ref().map(QueueName::as_str),
            filter.job_type.as_ref().map(JobType::as_str),
        ];
        if names.iter().all(Option::is_none) {
            return Ok(None);
        }
        let sql = "SELECT id FROM @.lanes WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR queue = $2) \
                   AND ($3::text IS NULL OR type = $3)";
        let values = names.map(|name| Parameter::Text(name.map(str::to_owned)));
        let rows = self.link.fetch(sql, values.into())?;
        rows.iter().map(|row| get(row, 0)).collect::<EngineResult<Vec<i64>>>().map(Some)
    }
}
