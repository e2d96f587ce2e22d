//! Lists of jobs with cursors that stay right while jobs come and go.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::snapshot::{Snapshot, snapshots};
use crate::clock::Timestamp;
use crate::error::{FieldProblem, StoreError};
use crate::job::{JobRecord, JobState, Seq, WorkerId};
use crate::limits;
use crate::store::caller::Caller;
use crate::store::command::bulk::{narrowed, seen};
use crate::store::engine::ClaimOrder;
use crate::store::filter::{Filter, Found, Order, Scan};
use crate::store::tx::read_tx::ReadTx;

/// A place in a list, to go on from. Its text is for passing back, not for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(pub(crate) ClaimOrder);

impl Cursor {
    /// The place right after a job that a list has shown.
    pub fn after(job: &JobRecord) -> Cursor {
        Cursor(ClaimOrder::of(job))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}.{:x}", self.0.rank, self.0.eligible_at.as_millis(), self.0.seq.0)
    }
}

impl FromStr for Cursor {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<Cursor, FieldProblem> {
        let parse = || {
            let mut parts = text.split('.');
            let rank = u8::from_str_radix(parts.next()?, 16).ok()?;
            let eligible_at = Timestamp::from_millis(i64::from_str_radix(parts.next()?, 16).ok()?);
            let seq = Seq(i64::from_str_radix(parts.next()?, 16).ok()?);
            parts.next().is_none().then_some(Cursor(ClaimOrder { rank, eligible_at, seq }))
        };
        parse().ok_or_else(|| FieldProblem::Unknown {
            value: text.chars().take(64).collect(),
            allowed: "the cursors that a list gave out",
        })
    }
}

/// Jobs read at first, when nothing is known of the size of their payloads.
const FEW_AT_FIRST: usize = 16;

/// Which page of which jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct ListRequest {
    /// Which jobs.
    pub filter: Filter,
    /// In which order.
    pub order: Order,
    /// Where to go on.
    pub cursor: Option<Cursor>,
    /// How many at most.
    pub limit: usize,
}

impl Default for ListRequest {
    fn default() -> ListRequest {
        ListRequest { filter: Filter::default(), order: Order::Newest, cursor: None, limit: 50 }
    }
}

/// One page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The jobs. Fewer than were asked for, or none, where many had to be looked at and few fit: there may be more.
    pub jobs: Vec<Snapshot>,
    /// Where to go on; none after the last page.
    pub next: Option<Cursor>,
}

/// A page of jobs that exist for this caller.
pub(crate) fn list(
    view: &mut ReadTx<'_>,
    caller: &Caller,
    request: &ListRequest,
) -> Result<Page, StoreError> {
    let limit = request.limit.clamp(1, limits::PAGE_JOBS_MAX);
    // A submitter may look at all jobs of its tenant; only acting is for owners.
    let filter = seen(caller, &request.filter);
    let after = request.cursor.map(|cursor| cursor.0);
    let scan = Scan { filter, order: request.order, after, limit: limit + 1 };
    let Found { mut jobs, stopped } = view.db.search(&scan, limits::LIST_SCAN_MAX)?;
    let has_more = jobs.len() > limit;
    jobs.truncate(limit);
    let last = jobs.last().filter(|_| has_more).map(Cursor::after);
    let next = last.or(stopped.map(Cursor));
    let (jobs, is_cut) = as_many_as_fit(view, caller, jobs)?;
    let cut = jobs.last().filter(|_| is_cut).map(|snapshot| Cursor::after(&snapshot.job));
    Ok(Page { jobs, next: cut.or(next) })
}

/// The first of these jobs, until their payloads take more memory than one page may; whether there are others.
fn as_many_as_fit(
    view: &mut ReadTx<'_>,
    caller: &Caller,
    jobs: Vec<JobRecord>,
) -> Result<(Vec<Snapshot>, bool), StoreError> {
    let (mut shown, mut bytes, mut step) = (Vec::with_capacity(jobs.len()), 0, FEW_AT_FIRST);
    let mut jobs = jobs.into_iter();
    loop {
        view.is_wanted()?;
        let some: Vec<JobRecord> = jobs.by_ref().take(step).collect();
        if some.is_empty() {
            return Ok((shown, false));
        }
        let some = snapshots(view, caller, some)?;
        let size: usize = some.iter().map(|snapshot| snapshot.spec.payload.bytes.len()).sum();
        bytes += size;
        shown.extend(some);
        if bytes > limits::PAGE_PAYLOADS_MAX {
            return Ok((shown, jobs.len() > 0));
        }
        // Most payloads are small, and then a few reads take the whole page.
        step = if size * 8 <= limits::PAGE_PAYLOADS_MAX { step * 4 } else { FEW_AT_FIRST };
    }
}

/// How many jobs fit, without touching them; counters know as long as only lanes and states are asked for.
pub(crate) fn matching(view: &mut ReadTx<'_>, caller: &Caller, filter: &Filter) -> Result<u64, StoreError> {
    let filter = narrowed(caller, filter);
    if let Some(count) = view.db.counts()?.fitting(&filter) {
        return Ok(count);
    }
    let (mut after, mut count) = (None, 0);
    loop {
        view.is_wanted()?;
        let limit = limits::VERIFY_PAGE;
        let page = view.db.scan(&Scan { filter: filter.clone(), order: Order::Oldest, after, limit })?;
        count += page.len() as u64;
        match page.last() {
            Some(last) if page.len() == limit => after = Some(ClaimOrder::of(last)),
            _ => return Ok(count),
        }
    }
}

/// How many jobs fit, as far as could be told without looking at too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountResult {
    /// So many were found.
    pub jobs: u64,
    /// Whether these are all; if not, there may be more.
    pub is_all: bool,
}

/// How many jobs this caller sees fit: exactly if counters know, else as many as were found until `max`, or until so many
/// were looked at that somebody who waits for a page would wait too long.
pub(crate) fn count_up_to(
    view: &mut ReadTx<'_>,
    caller: &Caller,
    filter: &Filter,
    max: usize,
) -> Result<CountResult, StoreError> {
    let filter = seen(caller, filter);
    if let Some(jobs) = view.db.counts()?.fitting(&filter) {
        return Ok(CountResult { jobs, is_all: true });
    }
    let (mut after, mut jobs) = (None, 0);
    loop {
        view.is_wanted()?;
        let limit = (max + 1 - jobs).min(limits::PAGE_JOBS_MAX);
        let scan = Scan { filter: filter.clone(), order: Order::Newest, after, limit };
        let found = view.db.search(&scan, limits::LIST_SCAN_MAX)?;
        jobs += found.jobs.len();
        let is_over = found.stopped.is_some() || jobs > max;
        let last = found.jobs.last().filter(|_| found.jobs.len() == limit).map(ClaimOrder::of);
        if is_over || last.is_none() {
            return Ok(CountResult { jobs: jobs.min(max) as u64, is_all: !is_over });
        }
        after = last;
    }
}

/// How many jobs each worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerLoad {
    /// By worker; one that runs nothing is not named.
    pub workers: BTreeMap<WorkerId, u64>,
    /// Whether all running jobs were looked at; if not, each may run more.
    pub is_all: bool,
}

/// How many of the running jobs that this caller sees each worker runs, looking at `max` of them, the newest.
pub(crate) fn busy(view: &mut ReadTx<'_>, caller: &Caller, max: usize) -> Result<WorkerLoad, StoreError> {
    let filter = seen(caller, &Filter { states: vec![JobState::Running], ..Filter::default() });
    let scan = Scan { filter, order: Order::Newest, after: None, limit: max.saturating_add(1) };
    let found = view.db.search(&scan, limits::LIST_SCAN_MAX)?;
    let mut busy =
        WorkerLoad { is_all: found.stopped.is_none() && found.jobs.len() <= max, ..WorkerLoad::default() };
    for lease in found.jobs.iter().take(max).filter_map(|job| job.lease) {
        *busy.workers.entry(lease.worker).or_default() += 1;
    }
    Ok(busy)
}

/// The last job submitted so far.
pub(crate) fn newest(view: &mut ReadTx<'_>) -> Result<Option<Seq>, StoreError> {
    let scan = Scan { filter: Filter::default(), order: Order::Newest, after: None, limit: 1 };
    Ok(view.db.scan(&scan)?.first().map(|job| job.seq))
}
