//! A job for display: its record, its spec, and what it is waiting for.

use super::explain::{self, Reason};
use super::payload::{PayloadReader, redact};
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Seq, Spec, Version};
use crate::store::caller::Caller;
use crate::store::tx::read_tx::ReadTx;

/// A job at one point in time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its record.
    pub job: JobRecord,
    /// The job as submitted.
    pub spec: Spec,
    /// The first reason why it does not run, if it is not final.
    pub why: Option<Reason>,
    /// Whether the payload and the query of the callback URL were removed because the caller lacks `payload:read`;
    /// requests for its result, checkpoints and logs are refused then.
    pub is_redacted: bool,
    /// The version reported by a server; a local store derives it from the record.
    pub(crate) shown_version: Option<Version>,
}

impl Snapshot {
    /// The version of the job, for use in [`IfMatch`](crate::store::command::precondition::IfMatch).
    pub fn version(&self) -> Version {
        self.shown_version.unwrap_or_else(|| Version::new(&self.job, &self.spec.metadata))
    }
}

/// The job with this id, if the caller can see it.
pub(crate) fn get(tx: &mut ReadTx<'_>, caller: &Caller, id: JobId) -> Result<Option<Snapshot>, StoreError> {
    let Some(job) = visible(tx, caller, id)? else { return Ok(None) };
    let found = snapshots(tx, caller, vec![job])?.pop();
    // A list marks a damaged job; alone it is an error, so that the placeholder is not taken for the payload.
    match found.as_ref().and_then(|found| found.why.as_ref()).filter(|why| why.code == explain::DAMAGED) {
        Some(why) => Err(StoreError::Damaged(format!("job {id}: {}", why.message))),
        None => Ok(found),
    }
}

/// Like [`get`], and whether such a job is still in the inbox.
pub(crate) fn get_or_expect(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<(Option<Snapshot>, bool), StoreError> {
    let found = get(tx, caller, id)?;
    if found.is_some() {
        return Ok((found, false));
    }
    Ok((None, is_expected(tx, caller, id)?))
}

/// Whether a job with this id that the caller can see is still in the inbox.
pub(super) fn is_expected(tx: &mut ReadTx<'_>, caller: &Caller, id: JobId) -> Result<bool, StoreError> {
    let expected = tx.db.inbox().map_or(Ok(None), |inbox| inbox.expected(id))?;
    Ok(expected.is_some_and(|tenant| caller.can_see(&tenant)))
}

/// The record of the job with this id, if the caller can see it.
pub(crate) fn visible(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
) -> Result<Option<JobRecord>, StoreError> {
    let job = tx.db.find(&[id])?.pop().flatten();
    Ok(job.filter(|job| caller.can_see(&job.lane.tenant)))
}

/// Snapshots of many jobs.
pub(crate) fn snapshots(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    jobs: Vec<JobRecord>,
) -> Result<Vec<Snapshot>, StoreError> {
    let seqs: Vec<Seq> = jobs.iter().map(|job| job.seq).collect();
    let specs = tx.db.specs_or_damage(&seqs)?;
    let mut reader = PayloadReader::new(caller);
    let mut found = Vec::with_capacity(jobs.len());
    for (job, spec) in jobs.into_iter().zip(specs) {
        found.push(seen_or_damaged(tx, &mut reader, job, spec)?);
    }
    Ok(found)
}

/// Like [`seen`]; a job whose submission is damaged is shown without it, with the damage as the reason, so that it
/// does not hide the others.
pub(crate) fn seen_or_damaged(
    tx: &mut ReadTx<'_>,
    reader: &mut PayloadReader<'_>,
    job: JobRecord,
    spec: Result<Spec, String>,
) -> Result<Snapshot, StoreError> {
    let damage = match spec {
        Ok(spec) => return seen(tx, reader, job, spec),
        Err(damage) => damage,
    };
    tracing::error!(job = %job.id, damage, "the stored submission of a job is damaged");
    let why = Some(explain::damaged(&damage));
    Ok(Snapshot { job, spec: Spec::unknown(), why, is_redacted: false, shown_version: None })
}

/// A job as the reader's caller sees it.
pub(crate) fn seen(
    tx: &mut ReadTx<'_>,
    reader: &mut PayloadReader<'_>,
    job: JobRecord,
    mut spec: Spec,
) -> Result<Snapshot, StoreError> {
    let why = explain::reasons(tx, &job, explain::Depth::First)?.into_iter().next();
    // Computed before anything is removed: the version is the same for every caller.
    let version = Version::new(&job, &spec.metadata);
    let is_redacted = !reader.reads(tx, &job, Some(&spec))?;
    if is_redacted {
        redact(&mut spec);
    }
    Ok(Snapshot { job, spec, why, is_redacted, shown_version: is_redacted.then_some(version) })
}
