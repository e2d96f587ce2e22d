//! A job as shown to people: its record, what was submitted, and what it is waiting for.

use super::explain::{self, Reason};
use super::payload::{PayloadReader, redact};
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Seq, Spec, Version};
use crate::store::caller::Caller;
use crate::store::tx::read_tx::ReadTx;

/// A job as it was at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its record.
    pub job: JobRecord,
    /// What was submitted.
    pub spec: Spec,
    /// The first reason why it does not run, while it is not final (M102).
    pub why: Option<Reason>,
    /// Whether the payload and the query of the callback address were left out, because the caller does not read them
    /// (`payload:read`); its result, checkpoints and logs are refused then.
    pub is_redacted: bool,
    /// The version as a server said it; one that is kept here follows from the record.
    pub(crate) shown_version: Option<Version>,
}

impl Snapshot {
    /// Which version of the job this is: what [`IfMatch`](crate::store::command::precondition::IfMatch) takes.
    pub fn version(&self) -> Version {
        self.shown_version.unwrap_or_else(|| Version::of(&self.job, &self.spec.labels))
    }
}

/// The job with this id, if it exists for this caller.
pub(crate) fn get(view: &mut ReadTx<'_>, caller: &Caller, id: JobId) -> Result<Option<Snapshot>, StoreError> {
    let Some(job) = visible(view, caller, id)? else { return Ok(None) };
    Ok(snapshots(view, caller, vec![job])?.pop())
}

/// The same, and whether such a job is on its way in.
pub(crate) fn get_or_expect(
    view: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<(Option<Snapshot>, bool), StoreError> {
    let found = get(view, caller, id)?;
    let is_expected = found.is_none() && view.db.expected(id)?.is_some_and(|tenant| caller.can_see(&tenant));
    Ok((found, is_expected))
}

/// The record of the job with this id, if it exists for this caller.
pub(crate) fn visible(
    view: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<JobRecord>, StoreError> {
    let job = view.db.find(&[id])?.pop().flatten();
    Ok(job.filter(|job| caller.can_see(&job.lane.tenant)))
}

/// The same for many.
pub(crate) fn snapshots(
    view: &mut ReadTx<'_>,
    caller: &Caller,
    jobs: Vec<JobRecord>,
) -> Result<Vec<Snapshot>, StoreError> {
    let seqs: Vec<Seq> = jobs.iter().map(|job| job.seq).collect();
    let specs = view.db.specs(&seqs)?;
    let mut reader = PayloadReader::new(caller);
    let mut found = Vec::with_capacity(jobs.len());
    for (job, spec) in jobs.into_iter().zip(specs) {
        let lost = || StoreError::Damaged(format!("job {} has lost what was submitted", job.id));
        let spec = spec.ok_or_else(lost)?;
        found.push(seen(view, &mut reader, job, spec)?);
    }
    Ok(found)
}

/// A job as the reader's caller sees it.
pub(crate) fn seen(
    view: &mut ReadTx<'_>,
    reader: &mut PayloadReader<'_>,
    job: JobRecord,
    mut spec: Spec,
) -> Result<Snapshot, StoreError> {
    let why = explain::reasons(view, &job, explain::Depth::First)?.into_iter().next();
    // Before anything is left out: the version is the same for everybody.
    let version = Version::of(&job, &spec.labels);
    let is_redacted = !reader.reads(view, &job, Some(&spec))?;
    if is_redacted {
        redact(&mut spec);
    }
    Ok(Snapshot { job, spec, why, is_redacted, shown_version: is_redacted.then_some(version) })
}
