//! Job data: attempts, checkpoints, logs, result, children, neighbours in the dependency graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::payload::PayloadReader;
use super::snapshot::visible;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{AttemptId, ChildGroup, JobId, JobRecord, Need, Seq};
use crate::limits;
use crate::store::caller::Caller;
use crate::store::command::attempt_writes::{LogLine, StepTime};
use crate::store::command::claim::Checkpoint;
use crate::store::documents::attempt::{self, AttemptRecord};
use crate::store::documents::config::parse;
use crate::store::engine::{ClaimOrder, Edge, JobData, JobDataKind, JobDataQuery, Side};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::tx::read_tx::ReadTx;

/// An attempt of a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// The attempt's id.
    pub id: AttemptId,
    /// The attempt's record; `None` for the running attempt.
    pub record: Option<AttemptRecord>,
}

/// All data of one kind of a job.
fn job_data(
    tx: &mut ReadTx<'_>,
    seq: Seq,
    kind: JobDataKind,
    above: Option<u64>,
) -> Result<Vec<JobData>, StoreError> {
    // Each kind has its own limit.
    let limit = usize::MAX;
    tx.db.job_data(JobDataQuery { seq, kind, name: None, above, limit })
}

/// The record of the job with this id, if the caller can see it; an error if the caller may not read its payload.
pub(super) fn readable(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<JobRecord>, StoreError> {
    let Some(job) = visible(tx, caller, id)? else { return Ok(None) };
    PayloadReader::new(caller).must_read(tx, &job)?;
    Ok(Some(job))
}

/// Returns an error instead of partial data if fewer entries exist than the job's record says were written.
pub(crate) fn all_there(job: &JobRecord, what: &str, found: usize, written: u64) -> Result<(), StoreError> {
    if found as u64 == written {
        return Ok(());
    }
    Err(StoreError::Damaged(format!("job {} has {found} stored {what}, {written} were written", job.id)))
}

/// All attempts, the running one last.
pub(crate) fn attempts(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<Vec<Attempt>>, StoreError> {
    let Some(job) = visible(tx, caller, id)? else { return Ok(None) };
    let mut found = Vec::new();
    for (number, record) in attempt::ended(tx.db, &job)? {
        found.push(Attempt { id: AttemptId { job: id, number }, record: Some(record) });
    }
    let has_begun = job.lease.is_some() && !job.has.claim_ahead;
    all_there(&job, "attempts", found.len(), u64::from(job.attempt) - u64::from(has_begun))?;
    if has_begun {
        found.push(Attempt { id: job.attempt_id(), record: None });
    }
    Ok(Some(found))
}

/// All checkpoints, by name.
pub(crate) fn checkpoints(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<Vec<Checkpoint>>, StoreError> {
    let Some(job) = readable(tx, caller, id)? else { return Ok(None) };
    let found = job_data(tx, job.seq, JobDataKind::Checkpoint, None)?;
    all_there(&job, "checkpoints", found.len(), job.details.checkpoints)?;
    Ok(Some(found.into_iter().map(|data| Checkpoint { step: data.name, value: data.body }).collect()))
}

/// The first checkpoints by name, at most `limit`.
pub(crate) fn first_checkpoints(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
    max: usize,
) -> Result<Option<Vec<Checkpoint>>, StoreError> {
    let Some(job) = readable(tx, caller, id)? else { return Ok(None) };
    let query =
        JobDataQuery { seq: job.seq, kind: JobDataKind::Checkpoint, name: None, above: None, limit: max };
    let found = tx.db.job_data(query)?;
    Ok(Some(found.into_iter().map(|data| Checkpoint { step: data.name, value: data.body }).collect()))
}

/// When steps were saved, by name, at most `max`. A step of a build that did not store times is not among them.
pub(crate) fn step_times(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
    max: usize,
) -> Result<Option<Vec<(String, StepTime)>>, StoreError> {
    let Some(job) = readable(tx, caller, id)? else { return Ok(None) };
    let query =
        JobDataQuery { seq: job.seq, kind: JobDataKind::StepTime, name: None, above: None, limit: max };
    let found = tx.db.job_data(query)?;
    found
        .into_iter()
        .map(|data| Ok((data.name, parse(&data.body)?)))
        .collect::<Result<_, StoreError>>()
        .map(Some)
}

/// Log lines with a number greater than `after`, each with its number.
pub(crate) fn logs(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
    after: u64,
) -> Result<Option<Vec<(u64, LogLine)>>, StoreError> {
    let Some(job) = readable(tx, caller, id)? else { return Ok(None) };
    let mut found = Vec::new();
    for data in job_data(tx, job.seq, JobDataKind::Log, Some(after))? {
        found.push((data.number, parse(&data.body)?));
    }
    let dropped = job.details.log_lines.saturating_sub(limits::LOG_LINES_MAX);
    all_there(&job, "log lines", found.len(), job.details.log_lines.saturating_sub(after.max(dropped)))?;
    Ok(Some(found))
}

/// A job's result as JSON, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult(pub Option<Arc<[u8]>>);

/// The result: `None` if the job does not exist, empty if it has no result.
pub(crate) fn result(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<JobResult>, StoreError> {
    let Some(job) = readable(tx, caller, id)? else { return Ok(None) };
    if !job.has.result {
        return Ok(Some(JobResult(None)));
    }
    let lost = || StoreError::Damaged(format!("job {id} has lost its result"));
    let found = job_data(tx, job.seq, JobDataKind::Result, None)?.pop().ok_or_else(lost)?;
    Ok(Some(JobResult(Some(found.body))))
}

/// The results of several jobs as JSON, in the given order, until their total size exceeds `bytes_max`. Jobs without a
/// result are left out.
pub(crate) fn results(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    ids: &[JobId],
    bytes_max: usize,
) -> Result<BTreeMap<JobId, Arc<[u8]>>, StoreError> {
    let (mut found, mut bytes, mut reader) = (BTreeMap::new(), 0, PayloadReader::new(caller));
    for some in ids.chunks(limits::RESULTS_AT_ONCE) {
        let mut jobs: FxHashMap<Seq, JobId> = FxHashMap::default();
        for job in tx.db.find(some)?.into_iter().flatten() {
            if caller.can_see(&job.lane.tenant) && reader.reads(tx, &job, None)? {
                jobs.insert(job.seq, job.id);
            }
        }
        let seqs: Vec<Seq> = jobs.keys().copied().collect();
        for data in tx.db.job_data_of(&seqs, JobDataKind::Result)? {
            bytes += data.body.len();
            found.extend(jobs.get(&data.seq).map(|id| (*id, data.body)));
        }
        if bytes > bytes_max {
            break;
        }
    }
    Ok(found)
}

/// A child and its result as JSON.
pub type ChildResult = (JobRecord, Option<Arc<[u8]>>);

/// A group of children with its children in input order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Its number within the parent.
    pub number: u64,
    /// The progress of the group.
    pub group: ChildGroup,
    /// The children that are still stored, in input order, each with its result.
    pub children: Vec<ChildResult>,
    /// Children whose results were left out because the caller may not read them.
    pub redacted: BTreeSet<JobId>,
    /// Children whose results were left out because the total size would exceed [`limits::CHILD_RESULTS_BYTES_MAX`].
    pub omitted: BTreeSet<JobId>,
}

impl Group {
    /// One slot per spawned child, in input order; `None` for children that are no longer stored.
    pub fn into_slots(self) -> Vec<Option<ChildResult>> {
        let total = usize::try_from(self.group.total).unwrap_or(usize::MAX);
        let mut slots = vec![None; total];
        for (child, result) in self.children {
            let index = child.parent.map_or(usize::MAX, |parent| parent.index as usize);
            if let Some(slot) = slots.get_mut(index) {
                *slot = Some((child, result));
            }
        }
        slots
    }
}

/// A decided group that is sent with a claimed job.
#[derive(Debug, Clone, PartialEq)]
pub struct DecidedGroup {
    /// The group, with its first children.
    pub group: Group,
    /// Where its other children are read from; `None` if it has all of them.
    pub next: Option<Seq>,
}

/// Some of a job's children, in the order in which they were spawned.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChildPage {
    /// The groups, with the children of this page.
    pub groups: Vec<Group>,
    /// Where the next page begins: after this job. `None` after the last page.
    pub next: Option<Seq>,
}

/// Which children to read.
#[derive(Debug, Clone, Default)]
pub struct ChildQuery {
    /// Only the group with this name.
    pub name: Option<String>,
    /// Only children after this job.
    pub after: Option<Seq>,
    /// Maximum number of children to look at.
    pub limit: usize,
    /// Bytes of results after which the page ends; the first result may exceed it.
    pub bytes: usize,
}

/// The progress of all groups, without the children.
pub(crate) fn child_groups(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<Vec<Group>>, StoreError> {
    let Some(job) = visible(tx, caller, id)? else { return Ok(None) };
    let mut found = Vec::new();
    for data in job_data(tx, job.seq, JobDataKind::Group, None)? {
        found.push(Group {
            number: data.number,
            group: parse(&data.body)?,
            children: Vec::new(),
            redacted: BTreeSet::new(),
            omitted: BTreeSet::new(),
        });
    }
    all_there(&job, "groups", found.len(), job.details.groups)?;
    Ok(Some(found))
}

/// All groups of children, or the one with this name.
pub(crate) fn groups(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
    name: Option<&str>,
) -> Result<Option<Vec<Group>>, StoreError> {
    let Some(mut found) = child_groups(tx, caller, id)? else { return Ok(None) };
    found.retain(|group| name.is_none_or(|name| group.group.name == name));
    let (mut after, mut room, mut reader) =
        (None, limits::CHILD_RESULTS_BYTES_MAX, PayloadReader::new(caller));
    while !found.is_empty() {
        let filter = Filter { parent: Some(id), ..Filter::default() };
        let limit = limits::VERIFY_PAGE;
        let mut page = tx.db.scan(&Scan { filter, order: Order::Oldest, after, limit })?;
        let Some(last) = page.last() else { break };
        after = Some(ClaimOrder::new(last));
        page.retain(|child| found.iter().any(|group| is_in(child, group)));
        let mut results = child_results(tx, &page, &mut room)?;
        for child in page {
            let result = results.remove(&child.seq);
            let is_read = !child.has.result || reader.reads(tx, &child, None)?;
            let Some(group) = found.iter_mut().find(|group| is_in(&child, group)) else { continue };
            group.redacted.extend((!is_read).then_some(child.id));
            group.omitted.extend((is_read && child.has.result && result.is_none()).then_some(child.id));
            group.children.push((child, result.filter(|_| is_read)));
        }
    }
    Ok(Some(found))
}

/// A page of children with their results.
pub(crate) fn child_page(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
    query: &ChildQuery,
) -> Result<Option<ChildPage>, StoreError> {
    let Some(mut groups) = child_groups(tx, caller, id)? else { return Ok(None) };
    groups.retain(|group| query.name.as_deref().is_none_or(|name| group.group.name == name));
    let next = fill_page(tx, caller, id, query, &mut groups)?;
    Ok(Some(ChildPage { groups, next }))
}

/// The decided groups of claimed jobs, with as many children as fit in one answer.
pub(crate) fn decided_groups(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    ids: &[JobId],
) -> Result<BTreeMap<JobId, Vec<DecidedGroup>>, StoreError> {
    let mut found = BTreeMap::new();
    let mut query = ChildQuery {
        limit: limits::CLAIM_CHILDREN_MAX,
        bytes: limits::CLAIM_CHILD_BYTES_MAX,
        ..ChildQuery::default()
    };
    for id in ids {
        let Some(mut groups) = child_groups(tx, caller, *id)? else { continue };
        groups.retain(|group| group.group.decided.is_some());
        if groups.is_empty() {
            continue;
        }
        let next = fill_page(tx, caller, *id, &query, &mut groups)?;
        for group in &groups {
            query.limit = query.limit.saturating_sub(group.children.len());
            let sizes = group.children.iter().filter_map(|(_, result)| result.as_ref()).map(|one| one.len());
            query.bytes = query.bytes.saturating_sub(sizes.sum());
        }
        let decided = groups.into_iter().map(|group| {
            let is_whole = group.children.len() as u64 == u64::from(group.group.total);
            DecidedGroup { next: next.filter(|_| !is_whole), group }
        });
        found.insert(*id, decided.collect());
        if query.limit == 0 || query.bytes == 0 {
            break;
        }
    }
    Ok(found)
}

/// Adds children with their results to the groups, until the page is full. Returns the job after which the next page
/// begins.
fn fill_page(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
    query: &ChildQuery,
    groups: &mut [Group],
) -> Result<Option<Seq>, StoreError> {
    let (mut after, mut left, mut reader) = (query.after, query.limit, PayloadReader::new(caller));
    let (mut room, mut has_result) = (query.bytes, false);
    while !groups.is_empty() {
        if left == 0 {
            return Ok(after);
        }
        let limit = left.min(limits::RESULTS_AT_ONCE);
        let filter = Filter { parent: Some(id), ..Filter::default() };
        let place = after.map(after_seq);
        let page = tx.db.scan(&Scan { filter, order: Order::Oldest, after: place, limit })?;
        let is_last = page.len() < limit;
        left -= page.len();
        let seqs: Vec<Seq> = page.iter().filter(|job| job.has.result).map(|job| job.seq).collect();
        let read = tx.db.job_data_of(&seqs, JobDataKind::Result)?;
        let mut results: FxHashMap<Seq, Arc<[u8]>> =
            read.into_iter().map(|data| (data.seq, data.body)).collect();
        for child in page {
            let Some(group) = groups.iter_mut().find(|group| is_in(&child, group)) else {
                after = Some(child.seq);
                continue;
            };
            let is_read = !child.has.result || reader.reads(tx, &child, None)?;
            let result = results.remove(&child.seq).filter(|_| is_read);
            let size = result.as_ref().map_or(0, |result| result.len());
            if size > room && has_result {
                return Ok(after);
            }
            room = room.saturating_sub(size);
            has_result |= size > 0;
            after = Some(child.seq);
            group.redacted.extend((!is_read).then_some(child.id));
            group.children.push((child, result));
        }
        if is_last {
            return Ok(None);
        }
    }
    Ok(None)
}

/// The position in a scan by age after this job.
fn after_seq(seq: Seq) -> ClaimOrder {
    ClaimOrder { rank: 0, eligible_at: Timestamp::MIN, seq }
}

fn is_in(child: &JobRecord, group: &Group) -> bool {
    child.parent.is_some_and(|parent| parent.group == group.number)
}

/// The results of these jobs, a few at a time, until the size limit is reached.
fn child_results(
    tx: &mut ReadTx<'_>,
    children: &[JobRecord],
    room: &mut usize,
) -> Result<FxHashMap<Seq, Arc<[u8]>>, StoreError> {
    let with_result: Vec<Seq> = children.iter().filter(|job| job.has.result).map(|job| job.seq).collect();
    let mut found = FxHashMap::default();
    for some in with_result.chunks(limits::RESULTS_AT_ONCE) {
        for data in tx.db.job_data_of(some, JobDataKind::Result)? {
            if data.body.len() > *room {
                *room = 0;
                return Ok(found);
            }
            *room -= data.body.len();
            found.insert(data.seq, data.body);
        }
    }
    Ok(found)
}

/// A job's neighbours in the dependency graph.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Neighbours {
    /// Jobs it waits or waited for.
    pub dependencies: Vec<(Need, JobRecord)>,
    /// Jobs that wait or waited for it.
    pub dependents: Vec<(Need, JobRecord)>,
}

/// Both sides of a job in the dependency graph, as far as they are still stored.
pub(crate) fn neighbours(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<Neighbours>, StoreError> {
    let Some(job) = visible(tx, caller, id)? else { return Ok(None) };
    let mut found = Neighbours::default();
    for side in [Side::Dependent, Side::Dependency] {
        let edges = tx.db.edges(&[job.seq], side)?;
        let other = |edge: &Edge| if side == Side::Dependent { edge.dependency } else { edge.dependent };
        let others: Vec<Seq> = edges.iter().map(other).collect();
        for (edge, other) in edges.into_iter().zip(tx.db.load(&others)?) {
            let Some(other) = other else { continue };
            match side {
                Side::Dependent => found.dependencies.push((edge.need, other)),
                Side::Dependency => found.dependents.push((edge.need, other)),
            }
        }
    }
    Ok(Some(found))
}
