//! Lists of jobs with cursors that stay valid while jobs are added and removed.

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
use crate::store::filter::{Filter, Order, Scan, SearchResult};
use crate::store::tx::read_tx::ReadTx;

/// A position in a list to continue from. Its text form is opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(pub(crate) ClaimOrder);

impl Cursor {
    /// The position after a job.
    pub fn after(job: &JobRecord) -> Cursor {
        Cursor(ClaimOrder::new(job))
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
            let cursor = Cursor(ClaimOrder { rank, eligible_at, seq });
            // Numbers can be written in several ways, a cursor in one.
            (parts.next().is_none() && cursor.to_string() == text).then_some(cursor)
        };
        parse().ok_or_else(|| FieldProblem::Unknown {
            value: text.chars().take(64).collect(),
            allowed: "a cursor returned by a list",
        })
    }
}

/// Jobs read at first, while the size of their payloads is unknown.
const FEW_AT_FIRST: usize = 16;

/// A list request.
#[derive(Debug, Clone, PartialEq)]
pub struct ListRequest {
    /// The jobs to list.
    pub filter: Filter,
    /// The order of the list.
    pub order: Order,
    /// Where to continue.
    pub cursor: Option<Cursor>,
    /// Maximum number of jobs.
    pub limit: usize,
}

impl Default for ListRequest {
    fn default() -> ListRequest {
        ListRequest { filter: Filter::default(), order: Order::Newest, cursor: None, limit: 50 }
    }
}

/// One page of jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The jobs. There may be fewer than requested, or none, if many had to be scanned and few match; `next` says
    /// whether there may be more.
    pub jobs: Vec<Snapshot>,
    /// Where to continue; `None` after the last page.
    pub next: Option<Cursor>,
}

/// A page of the jobs this caller can see.
pub(crate) fn list(tx: &mut ReadTx<'_>, caller: &Caller, request: &ListRequest) -> Result<Page, StoreError> {
    let limit = request.limit.clamp(1, limits::PAGE_JOBS_MAX);
    // A submitter may read all jobs of its tenant; only actions are limited to its own.
    let filter = seen(caller, &request.filter);
    let after = request.cursor.map(|cursor| cursor.0);
    let scan = Scan { filter, order: request.order, after, limit: limit + 1 };
    let SearchResult { mut jobs, stopped } = tx.db.search(&scan, limits::LIST_SCAN_MAX)?;
    let has_more = jobs.len() > limit;
    jobs.truncate(limit);
    let last = jobs.last().filter(|_| has_more).map(Cursor::after);
    let next = last.or(stopped.map(Cursor));
    let (jobs, is_cut) = as_many_as_fit(tx, caller, jobs)?;
    let cut = jobs.last().filter(|_| is_cut).map(|snapshot| Cursor::after(&snapshot.job));
    Ok(Page { jobs, next: cut.or(next) })
}

/// The first of these jobs whose payloads fit into one page, and whether there are others.
fn as_many_as_fit(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    jobs: Vec<JobRecord>,
) -> Result<(Vec<Snapshot>, bool), StoreError> {
    let (mut shown, mut bytes, mut step) = (Vec::with_capacity(jobs.len()), 0, FEW_AT_FIRST);
    let mut jobs = jobs.into_iter();
    loop {
        tx.is_wanted()?;
        let some: Vec<JobRecord> = jobs.by_ref().take(step).collect();
        if some.is_empty() {
            return Ok((shown, false));
        }
        let some = snapshots(tx, caller, some)?;
        let size: usize = some.iter().map(|snapshot| snapshot.spec.payload.bytes.len()).sum();
        bytes += size;
        shown.extend(some);
        if bytes > limits::PAGE_PAYLOADS_MAX {
            return Ok((shown, jobs.len() > 0));
        }
        // Most payloads are small, and then a few reads fill the whole page.
        step = if size * 8 <= limits::PAGE_PAYLOADS_MAX { step * 4 } else { FEW_AT_FIRST };
    }
}

/// The number of matching jobs from counters, without scanning; `None` if the filter uses more than lanes and states.
pub(crate) fn matching(tx: &mut ReadTx<'_>, caller: &Caller, filter: &Filter) -> Result<u64, StoreError> {
    let filter = narrowed(caller, filter);
    if let Some(count) = tx.db.counts()?.fitting(&filter) {
        return Ok(count);
    }
    let (mut after, mut count) = (None, 0);
    loop {
        tx.is_wanted()?;
        let limit = limits::VERIFY_PAGE;
        let page = tx.db.scan(&Scan { filter: filter.clone(), order: Order::Oldest, after, limit })?;
        count += page.len() as u64;
        match page.last() {
            Some(last) if page.len() == limit => after = Some(ClaimOrder::new(last)),
            _ => return Ok(count),
        }
    }
}

/// The number of matching jobs, as far as it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountResult {
    /// Number of jobs found.
    pub jobs: u64,
    /// Whether this is the exact number; if not, there may be more.
    pub is_all: bool,
}

/// The number of matching jobs this caller can see: exact if counters have it, else counted up to `max` or up to the
/// scan limit, so that a page does not wait too long.
pub(crate) fn count_up_to(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    filter: &Filter,
    max: usize,
) -> Result<CountResult, StoreError> {
    let filter = seen(caller, filter);
    if let Some(jobs) = tx.db.counts()?.fitting(&filter) {
        return Ok(CountResult { jobs, is_all: true });
    }
    let (mut after, mut jobs) = (None, 0);
    loop {
        tx.is_wanted()?;
        let limit = (max + 1 - jobs).min(limits::PAGE_JOBS_MAX);
        let scan = Scan { filter: filter.clone(), order: Order::Newest, after, limit };
        let found = tx.db.search(&scan, limits::LIST_SCAN_MAX)?;
        jobs += found.jobs.len();
        let is_over = found.stopped.is_some() || jobs > max;
        let last = found.jobs.last().filter(|_| found.jobs.len() == limit).map(ClaimOrder::new);
        if is_over || last.is_none() {
            return Ok(CountResult { jobs: jobs.min(max) as u64, is_all: !is_over });
        }
        after = last;
    }
}

/// The number of jobs each worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkerLoad {
    /// By worker; idle workers are not included.
    pub workers: BTreeMap<WorkerId, u64>,
    /// Whether all running jobs were scanned; if not, each worker may run more.
    pub is_all: bool,
}

/// How many of the running jobs visible to this caller each worker runs, scanning the newest `max` of them.
pub(crate) fn busy(tx: &mut ReadTx<'_>, caller: &Caller, max: usize) -> Result<WorkerLoad, StoreError> {
    let filter = seen(caller, &Filter { states: vec![JobState::Running], ..Filter::default() });
    let scan = Scan { filter, order: Order::Newest, after: None, limit: max.saturating_add(1) };
    let found = tx.db.search(&scan, limits::LIST_SCAN_MAX)?;
    let mut busy =
        WorkerLoad { is_all: found.stopped.is_none() && found.jobs.len() <= max, ..WorkerLoad::default() };
    for lease in found.jobs.iter().take(max).filter_map(|job| job.lease) {
        *busy.workers.entry(lease.worker).or_default() += 1;
    }
    Ok(busy)
}

/// The job submitted last.
pub(crate) fn newest(tx: &mut ReadTx<'_>) -> Result<Option<Seq>, StoreError> {
    let scan = Scan { filter: Filter::default(), order: Order::Newest, after: None, limit: 1 };
    Ok(tx.db.scan(&scan)?.first().map(|job| job.seq))
}

#[cfg(test)]
mod tests {
    use windlass_fuzz::Family;

    use super::*;
    use crate::store::command::bulk::BulkCursor;

    /// A cursor has one spelling, so that a page has one address.
    #[test]
    fn a_cursor_is_read_as_it_was_shown() {
        let seeds =
            ["32.191f3e8a800.7", "0.0.0", "7.32.191f3e8a800.7", "+1.0.1", "1.-5.1", "A.0.1", "01.0.1"];
        Family::new("cursor").seeds(seeds).words([".", "-", "+", "f", "7fffffffffffffff"]).text(|text| {
            match text.parse::<Cursor>() {
                Ok(cursor) if cursor.to_string() == text => Ok(()),
                Ok(cursor) => Err(format!("is read as {cursor}")),
                Err(_) => Ok(()),
            }?;
            match text.parse::<BulkCursor>() {
                Ok(cursor) if cursor.to_string() == text => Ok(()),
                Ok(cursor) => Err(format!("is read as {cursor}")),
                Err(_) => Ok(()),
            }
        });
    }
}
