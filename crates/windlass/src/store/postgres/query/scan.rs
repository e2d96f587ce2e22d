//! Lists of jobs by a filter. SQL narrows the candidates through the best index at hand and answers for what was
//! submitted; the filter's own predicate has the last word on everything in the job, so the two cannot differ.

use std::sync::Arc;

use super::super::link::get;
use super::super::parameter::{Column, Parameter};
use super::super::tables::Tables;
use crate::job::{JobId, JobType, Lane, QueueName, Seq, State, Tenant};
use crate::store::durable::columns::{SET_ASIDE, code, limit};
use crate::store::durable::page::{Page, codes, looks, state_of, total};
use crate::store::engine::{EngineResult, Place};
use crate::store::filter::{Filter, Found, Order, Scan};

/// Jobs in a state up to which fetching and sorting them all beats walking the table in order.
const SORTED_MAX: u64 = 10_000;
/// Lanes up to which each is looked up by itself.
const LANES_APART_MAX: usize = 1_000;
/// A row that is looked up costs as much as so many that are walked over.
const LOOK_UP_COST: usize = 10;
/// Every job, in the order of submission.
const EVERYTHING: &str = "@.hot h";
/// Rows read at a time beyond the page that is asked for.
const READ_AT_ONCE: usize = 500;

/// A set of candidates: the table beside `hot` they come from, and the condition that makes use of its index.
struct Source {
    from: &'static str,
    condition: &'static str,
    parameters: Vec<Parameter>,
    /// Their numbers, if they are known, the first submitted first.
    seqs: Vec<i64>,
    order: Sequence,
    /// Where to count them, if they can be too many to look at all.
    walk: Option<Walk>,
}

/// How to count the candidates of a source, and which part of the filter they all fit.
#[derive(Clone, Copy)]
struct Walk {
    from: &'static str,
    without: fn(&mut Filter),
}

/// In which order candidates can be had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sequence {
    /// In that of submission, by a column of this name.
    Submission(&'static str),
    /// In that of claims.
    Claim,
    /// In none: all of them are read.
    Unsorted,
    /// By their numbers.
    Numbered,
}

impl Source {
    fn new(from: &'static str, condition: &'static str, parameters: Vec<Parameter>) -> Source {
        let order = Sequence::Submission("d.seq");
        Source { from, condition, parameters, seqs: Vec::new(), order, walk: None }
    }

    fn walked(self, from: &'static str, without: fn(&mut Filter)) -> Source {
        Source { walk: Some(Walk { from, without }), ..self }
    }

    fn hot(condition: &'static str, parameters: Vec<Parameter>) -> Source {
        Source { order: Sequence::Submission("h.seq"), ..Source::new("@.hot h", condition, parameters) }
    }

    fn unsorted(self) -> Source {
        Source { order: Sequence::Unsorted, ..self }
    }

    /// Jobs of a state that has a list of its own.
    fn listed(state: i64) -> Source {
        let from = "@.states d JOIN @.hot h ON h.seq = d.seq";
        let source = Source::new(from, "d.state = $1::bigint", vec![state.into()]);
        source.walked("@.states d", |filter| filter.states.clear())
    }

    /// Claimable jobs of a lane.
    fn ready(lane: i64) -> Source {
        let from = "@.ready d JOIN @.hot h ON h.seq = d.seq";
        Source { order: Sequence::Claim, ..Source::new(from, "d.lane = $1", vec![lane.into()]) }
    }

    /// Jobs that run with a concurrency key, or are set aside for it.
    fn slots(key: i64, state: i64) -> Source {
        let from = "@.slots d JOIN @.hot h ON h.seq = d.seq";
        Source::new(from, "d.key = $1 AND d.state = $2::bigint", vec![key.into(), state.into()]).unsorted()
    }

    /// Jobs with these numbers, if they run.
    fn running(seqs: Vec<i64>) -> Source {
        let source = Source::hot("h.seq = ANY($1) AND h.state = 4", Vec::new());
        Source { seqs, order: Sequence::Numbered, ..source }
    }

    fn everything() -> Source {
        Source::hot("true", Vec::new()).walked(EVERYTHING, |_| {})
    }
}

/// A statement being put together from constant fragments; whatever a caller gave is bound.
struct Query {
    sql: String,
    parameters: Vec<Parameter>,
}

impl Query {
    /// Adds a condition in which `?` stands for the value.
    fn and(&mut self, condition: &str, parameter: impl Into<Parameter>) {
        self.parameters.push(parameter.into());
        let place = format!("${}", self.parameters.len());
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &place));
    }
}

impl Tables {
    pub(in super::super) fn search_jobs(&mut self, scan: &Scan, reach: usize) -> EngineResult<Found> {
        // Counters can spare a long walk; what is read to the end whatever it takes does not ask them.
        let is_bounded = reach < usize::MAX;
        let counts = if is_bounded { Some(self.load_counts()?) } else { None };
        if counts.as_ref().is_some_and(|counts| counts.at_most(&scan.filter) == 0) {
            return Ok(Found::default());
        }
        let total = counts.and_then(|counts| total(scan, counts));
        let lanes = self.lanes_of(&scan.filter)?;
        let mut found = Found::default();
        for reach in looks(reach) {
            let mut page = Page::of(scan, total);
            let sources = match scan.order {
                Order::Claim => self.claim_sources(&scan.filter, reach)?,
                Order::Newest | Order::Oldest => self.sources(&scan.filter, reach)?,
            };
            for source in sources {
                if source.order == Sequence::Numbered {
                    self.read_numbered(source, lanes.as_deref(), reach, &mut page)?;
                    continue;
                }
                let end = self.end_of(&source, scan, reach)?;
                self.read_source(source, lanes.as_deref(), end, &mut page)?;
            }
            found = page.into_found();
            if found.stopped.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// The first candidate of a source that is not looked at any more, if so many are not to be looked at.
    fn end_of(&mut self, source: &Source, scan: &Scan, reach: usize) -> EngineResult<Option<i64>> {
        let (Some(walk), Sequence::Submission(column)) = (source.walk, source.order) else { return Ok(None) };
        let mut rest = scan.filter.clone();
        (walk.without)(&mut rest);
        // Where all of them fit, the page is full before it can be too long a walk.
        if reach == usize::MAX || scan.order == Order::Claim || rest == Filter::default() {
            return Ok(None);
        }
        let sql = format!("SELECT {column} FROM {} WHERE {}", walk.from, source.condition);
        let mut query = Query { sql, parameters: copies(Some(&source.parameters)) };
        let (beyond, order) = if scan.order == Order::Newest { ("<", " DESC") } else { (">", "") };
        if let Some(after) = scan.after {
            query.and(&format!("{column} {beyond} ?"), after.seq.0);
        }
        let is_walked = walk.from == EVERYTHING && scan.filter.owner.is_none();
        let reach = if is_walked { reach } else { reach.div_ceil(LOOK_UP_COST) };
        query.parameters.push(limit(reach).into());
        let offset = query.parameters.len().to_string();
        query.sql.extend([" ORDER BY ", column, order, " LIMIT 1 OFFSET $", &offset]);
        let rows = self.link.fetch(&query.sql, query.parameters)?;
        rows.first().map(|row| get(row, 0)).transpose()
    }

    /// Reads a source bit by bit until the page is full or nothing is left.
    fn read_source(
        &mut self,
        source: Source,
        lanes: Option<&[i64]>,
        end: Option<i64>,
        page: &mut Page<'_>,
    ) -> EngineResult<()> {
        let is_ordered = match source.order {
            Sequence::Submission(_) => page.scan.order != Order::Claim,
            Sequence::Claim => page.scan.order == Order::Claim,
            Sequence::Unsorted | Sequence::Numbered => false,
        };
        let at_once = if is_ordered { page.scan.limit.clamp(1, READ_AT_ONCE) } else { usize::MAX };
        let Source { from, condition, order, parameters, seqs: _, walk: _ } = source;
        let start = (from, condition, order, end);
        let mut after = page.scan.after;
        let mut parameters = Some(parameters);
        loop {
            // The last round needs no copy; a source that is read in one go holds all its numbers.
            let own =
                if is_ordered { copies(parameters.as_ref()) } else { parameters.take().unwrap_or_default() };
            let query = assemble(page.scan, start, own, lanes, after, is_ordered.then_some(at_once));
            let rows = self.link.fetch(&query.sql, query.parameters)?;
            let jobs = self.read_jobs(&rows)?;
            after = jobs.last().map(Place::of).or(after);
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
        }
        if let Some(end) = end {
            page.leave_out(Seq(end));
        }
        Ok(())
    }

    /// Looks up candidates whose numbers are known, until the page is full or enough were looked at.
    fn read_numbered(
        &mut self,
        source: Source,
        lanes: Option<&[i64]>,
        reach: usize,
        page: &mut Page<'_>,
    ) -> EngineResult<()> {
        let Source { from, condition, order, mut seqs, .. } = source;
        let is_sorted = page.scan.order != Order::Claim;
        if page.scan.order == Order::Newest {
            seqs.reverse();
        }
        for (round, some) in seqs.chunks(READ_AT_ONCE).enumerate() {
            let first = Seq(some[0]);
            if is_sorted && !page.has_room_from(first) {
                break;
            }
            if is_sorted && round * READ_AT_ONCE > reach / LOOK_UP_COST {
                page.leave_out(first);
                break;
            }
            let numbers = vec![Column::of(some.iter().copied()).into()];
            let query =
                assemble(page.scan, (from, condition, order, None), numbers, lanes, page.scan.after, None);
            let rows = self.link.fetch(&query.sql, query.parameters)?;
            for job in self.read_jobs(&rows)? {
                page.offer(job);
            }
        }
        Ok(())
    }

    /// Where to look for the jobs of a filter.
    fn sources(&mut self, filter: &Filter, reach: usize) -> EngineResult<Vec<Source>> {
        if let Some(parent) = &filter.parent {
            return Ok(vec![Source::hot("h.parent = $1", vec![Parameter::Id(*parent.as_bytes())])]);
        }
        if let Some(id) = &filter.correlation_id {
            let from = "@.jobs d JOIN @.hot h ON h.seq = d.seq";
            let source = Source::new(from, "d.correlation_id = $1", vec![id.as_bytes().into()]);
            return Ok(vec![source.walked("@.jobs d", |filter| filter.correlation_id = None)]);
        }
        if let Some((name, value)) = &filter.tag {
            let parameters = vec![name.as_bytes().into(), value.as_bytes().into()];
            let from = "@.tags d JOIN @.hot h ON h.seq = d.seq";
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
        let is_indexed = |state: &i64| [code(State::Running), SET_ASIDE].contains(state);
        if let Some(key) = filter.concurrency
            && !wanted.is_empty()
            && wanted.iter().all(is_indexed)
        {
            return Ok(wanted.into_iter().map(|state| Source::slots(key.0, state)).collect());
        }
        if filter.worker.is_some() {
            return Ok(vec![Source::running(self.running_seqs()?)]);
        }
        let sources = if filter.states.is_empty() { None } else { self.state_sources(filter)? };
        Ok(sources.unwrap_or_else(|| vec![Source::everything()]))
    }

    /// Whether so few jobs have these ids that they are all looked at.
    fn has_few_ids(&mut self, first: JobId, last: JobId, reach: usize) -> EngineResult<bool> {
        if reach == usize::MAX {
            return Ok(true);
        }
        let sql = "SELECT 1 FROM @.hot WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT 1 OFFSET $3";
        let [first, last] = [first, last].map(|id| Parameter::Id(*id.as_bytes()));
        let beyond = limit(reach.div_ceil(LOOK_UP_COST)).into();
        Ok(self.link.fetch(sql, vec![first, last, beyond])?.is_empty())
    }

    /// The states one by one, if that is less work than walking the table.
    fn state_sources(&mut self, filter: &Filter) -> EngineResult<Option<Vec<Source>>> {
        let counts = self.load_counts()?;
        let mut there = Vec::new();
        let mut to_sort = 0;
        for state in codes(filter) {
            let counted = state_of(state);
            if counted == State::Completed && counts.sum(counted, |_| true) > 0 {
                // They have no list of their own.
                return Ok(None);
            }
            if counts.sum(counted, |lane| filter.fits_lane(lane)) == 0 {
                continue;
            }
            there.push(state);
            if [State::Scheduled, State::Running].contains(&counted) {
                // Both codes of scheduled jobs share one count.
                if state != SET_ASIDE || filter.is_blocked == Some(true) {
                    to_sort += counts.sum(counted, |_| true);
                }
            }
        }
        if to_sort > SORTED_MAX {
            return Ok(None);
        }
        let mut sources = Vec::new();
        for state in there {
            sources.push(match state_of(state) {
                State::Running => Source::running(self.running_seqs()?),
                State::Scheduled if state == SET_ASIDE => Source::new(
                    "@.slots d JOIN @.hot h ON h.seq = d.seq",
                    "d.state = $1::bigint",
                    vec![state.into()],
                )
                .unsorted(),
                State::Scheduled => {
                    Source::new("@.ready d JOIN @.hot h ON h.seq = d.seq", "true", Vec::new()).unsorted()
                }
                _ => Source::listed(state),
            });
        }
        Ok(Some(sources))
    }

    /// Where to look for jobs in the order of claims: lane by lane, each in that order already, if only claimable
    /// ones are asked for.
    fn claim_sources(&mut self, filter: &Filter, reach: usize) -> EngineResult<Vec<Source>> {
        if filter.states.is_empty() || filter.states.iter().any(|state| *state != State::Scheduled) {
            return self.sources(filter, reach).map(unsorted);
        }
        let mut lanes: Vec<Arc<Lane>> = Vec::new();
        for (lane, counts) in &self.load_counts()?.lanes {
            if counts[State::Scheduled as usize] > 0 && filter.fits_lane(lane) {
                lanes.push(lane.clone());
            }
        }
        if lanes.len() > LANES_APART_MAX {
            return self.sources(filter, reach).map(unsorted);
        }
        let mut sources = Vec::new();
        for state in codes(filter) {
            match filter.concurrency {
                Some(key) if state == SET_ASIDE => sources.push(Source::slots(key.0, state)),
                None if state == SET_ASIDE => {
                    let from = "@.slots d JOIN @.hot h ON h.seq = d.seq";
                    sources.push(Source::new(from, "d.state = $1::bigint", vec![state.into()]).unsorted());
                }
                _ => {
                    for lane in &lanes {
                        sources.extend(self.find_lane(lane)?.map(Source::ready));
                    }
                }
            }
        }
        Ok(sources)
    }

    /// The lanes of a filter, if it names any part of them.
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

/// The same sources with all of their jobs, to be put in order here.
fn unsorted(sources: Vec<Source>) -> Vec<Source> {
    let unsorted = |source: Source| match source.order {
        Sequence::Numbered => source,
        _ => source.unsorted(),
    };
    sources.into_iter().map(unsorted).collect()
}

/// The values of a source that is read in several rounds; none of them is a whole column.
fn copies(parameters: Option<&Vec<Parameter>>) -> Vec<Parameter> {
    let copy = |parameter: &Parameter| match parameter {
        Parameter::Number(number) => Parameter::Number(*number),
        Parameter::Bytes(bytes) => Parameter::Bytes(bytes.clone()),
        Parameter::Text(text) => Parameter::Text(text.clone()),
        Parameter::Id(id) => Parameter::Id(*id),
        Parameter::Truth(truth) => Parameter::Truth(*truth),
        Parameter::Column(_) => Parameter::Number(None),
    };
    parameters.into_iter().flatten().map(copy).collect()
}

fn assemble(
    scan: &Scan,
    (from, condition, order, end): (&str, &str, Sequence, Option<i64>),
    parameters: Vec<Parameter>,
    lanes: Option<&[i64]>,
    after: Option<Place>,
    at_once: Option<usize>,
) -> Query {
    let sql = format!("SELECT h.seq, h.id, h.lane, h.policy, h.record FROM {from} WHERE {condition}");
    let mut query = Query { sql, parameters };
    narrow(&mut query, &scan.filter, lanes);
    if let (Some(end), Sequence::Submission(column)) = (end, order) {
        let before = if scan.order == Order::Newest { ">" } else { "<" };
        query.and(&format!("{column} {before} ?"), end);
    }
    if let Some(place) = after {
        let seq = place.seq.0;
        match (scan.order, order) {
            (Order::Newest, Sequence::Submission(column)) => query.and(&format!("{column} < ?"), seq),
            (Order::Oldest, Sequence::Submission(column)) => query.and(&format!("{column} > ?"), seq),
            (Order::Newest, _) => query.and("h.seq < ?", seq),
            (Order::Oldest, _) => query.and("h.seq > ?", seq),
            (Order::Claim, Sequence::Claim) => {
                let numbers = [i64::from(place.rank), place.eligible_at.as_millis()];
                let [rank, at] = numbers.map(|number| {
                    query.parameters.push(number.into());
                    query.parameters.len()
                });
                query.and(&format!("(d.rank, d.at, d.seq) > (${rank}, ${at}, ?)"), seq);
            }
            (Order::Claim, _) => {}
        }
    }
    let Some(at_once) = at_once else { return query };
    match (scan.order, order) {
        (Order::Newest, Sequence::Submission(column)) => query.sql.extend([" ORDER BY ", column, " DESC"]),
        (Order::Oldest, Sequence::Submission(column)) => query.sql.extend([" ORDER BY ", column]),
        _ => query.sql.push_str(" ORDER BY d.rank, d.at, d.seq"),
    }
    query.parameters.push(limit(at_once).into());
    query.sql.extend([" LIMIT $", &query.parameters.len().to_string()]);
    query
}

/// What columns can tell, to spare unpacking what does not fit, and what only the submission can tell.
fn narrow(query: &mut Query, filter: &Filter, lanes: Option<&[i64]>) {
    if let Some(lanes) = lanes {
        query.and("h.lane = ANY(?)", Column::of(lanes.iter().copied()));
        if lanes.is_empty() {
            query.sql.push_str(" AND false");
        }
    }
    if !filter.states.is_empty() {
        query.and("h.state = ANY(?::bigint[])", Column::of(codes(filter)));
    }
    if let Some((first, last)) = filter.ids {
        // Not for the index of ids: it would find them all, to be sorted.
        query.and("(h.id >= ?) IS TRUE", Parameter::Id(*first.as_bytes()));
        query.and("(h.id <= ?) IS TRUE", Parameter::Id(*last.as_bytes()));
    }
    if let Some(at) = filter.created_after {
        query.and("h.created_at >= ?", at.as_millis());
    }
    if let Some(at) = filter.created_before {
        query.and("h.created_at < ?", at.as_millis());
    }
    if let Some((name, value)) = &filter.tag {
        query.parameters.push(name.as_bytes().into());
        let place = query.parameters.len();
        let condition = format!(
            "EXISTS (SELECT 1 FROM @.tags t WHERE t.name = ${place} AND t.value = ? AND t.seq = h.seq)"
        );
        query.and(&condition, value.as_bytes());
    }
    if let Some(id) = &filter.correlation_id {
        query.and("(SELECT j.correlation_id FROM @.jobs j WHERE j.seq = h.seq) = ?", id.as_bytes());
    }
    if let Some(owner) = &filter.owner {
        query.and("(SELECT j.owner FROM @.jobs j WHERE j.seq = h.seq) = ?", owner.as_bytes());
    }
}
