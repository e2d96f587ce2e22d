//! Variants of commands that return a snapshot of the job as of the commit itself: later changes, such as a waiting
//! worker's claim, do not show in the answer.

use crate::error::{ActError, StoreError, SubmitError};
use crate::job::{JobId, JobRecord, NewJob, Seq, Spec};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::actions::{self, ActionRequest};
use crate::store::command::precondition::{ActOptions, IfMatch};
use crate::store::command::redrive::{self, Redrive};
use crate::store::command::submit::{self, Receipt, SubmitOptions};
use crate::store::query::payload::PayloadReader;
use crate::store::query::snapshot::{self, Snapshot};
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// A job of a submission, and whether it existed before.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a name of its own")]
#[non_exhaustive]
pub struct SubmitReport {
    /// The new job, or the earlier job with this idempotency key.
    pub snapshot: Snapshot,
    /// Whether it is an earlier job with the same idempotency key.
    pub is_duplicate: bool,
    /// Whether that earlier job had another payload.
    pub payload_differs: bool,
    /// Whether that earlier job was deleted since: the snapshot then only has the fields listed at
    /// [`Receipt::job`](submit::Receipt::job).
    pub is_deleted: bool,
    /// Whether it is a waiting job with the same debounce key, whose payload and delay were replaced.
    pub is_debounced: bool,
}

/// A job after an action, and whether the action changed it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ActionSnapshot {
    /// The current job.
    pub snapshot: Snapshot,
    /// Whether anything changed. If not, no audit record was written.
    pub is_changed: bool,
}

impl Store {
    /// Like [`submit`](Store::submit), but returns snapshots.
    pub async fn submit_and_read(
        &self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        options: SubmitOptions,
    ) -> Result<Vec<SubmitReport>, SubmitError> {
        submit::check(
            &jobs,
            self.environment().options.payload_bytes_max,
            &self.environment().options.targets,
        )?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let caller = caller.clone();
        let mut checks = self.check_payloads(&jobs).await?;
        self.write("submit", submit::kind(&jobs), move |tx| {
            let receipts = submit::submit_checked(tx, &caller, &jobs, options, None, &mut checks)?;
            let shown = shown_receipts(tx, &caller, &receipts)?.into_iter().zip(receipts);
            Ok(shown
                .map(|(snapshot, receipt)| SubmitReport {
                    snapshot,
                    is_duplicate: receipt.is_duplicate,
                    payload_differs: receipt.payload_differs,
                    is_deleted: receipt.is_deleted,
                    is_debounced: receipt.is_debounced,
                })
                .collect())
        })
        .await
    }

    /// Like [`act_with`](Store::act_with), but returns a snapshot.
    pub async fn act_and_read(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
        options: ActOptions,
    ) -> Result<ActionSnapshot, ActError> {
        let caller = caller.clone();
        self.write("act", Kind::Ordinary, move |tx| {
            let acted = actions::act_with(tx, &caller, id, &act, &options)?;
            let snapshot = snapshot(tx, &caller, acted.job)?;
            Ok(ActionSnapshot { snapshot, is_changed: acted.is_changed })
        })
        .await
    }

    /// Like [`redrive_if`](Store::redrive_if), but returns a snapshot of the new job.
    pub async fn redrive_and_read(
        &self,
        caller: &Caller,
        id: JobId,
        how: Redrive,
        if_match: IfMatch,
    ) -> Result<Snapshot, ActError> {
        let caller = caller.clone();
        let mut checks = self.check_redrive(&caller, id, &how).await?;
        self.write("redrive", Kind::Submission, move |tx| {
            let job = redrive::redrive(tx, &caller, id, (&how, &mut checks), &if_match)?;
            Ok(snapshot(tx, &caller, job)?)
        })
        .await
    }
}

/// The jobs of receipts as of this commit, in their order; deleted ones with what is known of them.
fn shown_receipts(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    receipts: &[Receipt],
) -> Result<Vec<Snapshot>, StoreError> {
    let stored = receipts.iter().filter(|receipt| !receipt.is_deleted).map(|receipt| receipt.job.clone());
    let mut stored = snapshots(tx, caller, stored.collect())?.into_iter();
    let shown = receipts.iter().map(|receipt| {
        if receipt.is_deleted {
            return Some(Snapshot {
                job: receipt.job.clone(),
                spec: Spec::unknown(),
                why: None,
                is_redacted: false,
                shown_version: None,
            });
        }
        stored.next()
    });
    Ok(shown.flatten().collect())
}

fn snapshot(tx: &mut WriteTx<'_>, caller: &Caller, job: JobRecord) -> Result<Snapshot, StoreError> {
    Ok(snapshots(tx, caller, vec![job])?.pop().expect("one job has one snapshot"))
}

/// Jobs as of this commit, with their specs and why they do not run, as this caller sees them.
fn snapshots(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    jobs: Vec<JobRecord>,
) -> Result<Vec<Snapshot>, StoreError> {
    let seqs: Vec<Seq> = jobs.iter().map(|job| job.seq).collect();
    let specs = tx.specs(&seqs)?;
    let mut read_tx = tx.read_tx();
    let mut reader = PayloadReader::new(caller);
    let mut shown = Vec::with_capacity(jobs.len());
    for job in jobs {
        // Two jobs of a batch with one idempotency key are one job.
        let spec = specs.get(&job.seq).cloned().expect("each job has its spec, or what is wrong with it");
        shown.push(snapshot::seen_or_damaged(&mut read_tx, &mut reader, job, spec)?);
    }
    Ok(shown)
}
