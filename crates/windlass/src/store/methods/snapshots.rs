//! Variants of commands that return a snapshot of the job as of the commit itself: later changes, such as a waiting
//! worker's claim, do not show in the answer.

use crate::error::{ActionError, StoreError, SubmitError};
use crate::job::{JobId, JobRecord, NewJob, Seq, Spec};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::actions::{self, ActionReport, ActionRequest};
use crate::store::command::precondition::{ActionOptions, IfMatch};
use crate::store::command::redrive::{self, Redrive};
use crate::store::command::submit::{Receipt, SubmitOptions};
use crate::store::query::payload::PayloadReader;
use crate::store::query::snapshot::{self, Snapshot};
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

impl Store {
    /// Like [`submit`](Store::submit), but returns snapshots.
    pub async fn submit_and_read(
        &self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        options: SubmitOptions,
    ) -> Result<Vec<Receipt<Snapshot>>, SubmitError> {
        self.submit_then(caller, jobs, options, with_snapshots).await
    }

    /// Like [`act_with`](Store::act_with), but returns a snapshot.
    pub async fn act_and_read(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
        options: ActionOptions,
    ) -> Result<ActionReport<Snapshot>, ActionError> {
        let caller = caller.clone();
        self.write("act", Kind::Ordinary, move |tx| {
            let acted = actions::act_with(tx, &caller, id, &act, &options)?;
            let job = snapshot(tx, &caller, acted.job)?;
            Ok(ActionReport { job, is_changed: acted.is_changed })
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
    ) -> Result<Snapshot, ActionError> {
        let caller = caller.clone();
        let mut checks = self.check_redrive(&caller, id, &how).await?;
        self.write("redrive", Kind::Submission, move |tx| {
            let job = redrive::redrive(tx, &caller, id, (&how, &mut checks), &if_match)?;
            Ok(snapshot(tx, &caller, job)?)
        })
        .await
    }
}

/// Receipts with the jobs as of this commit, in their order; deleted ones with what is known of them.
fn with_snapshots(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    receipts: Vec<Receipt>,
) -> Result<Vec<Receipt<Snapshot>>, StoreError> {
    let stored = receipts.iter().filter(|receipt| !receipt.is_deleted).map(|receipt| receipt.job.clone());
    let mut stored = snapshots(tx, caller, stored.collect())?.into_iter();
    let shown = receipts.into_iter().map(|receipt| {
        let snapshot = if receipt.is_deleted {
            let job = receipt.job.clone();
            Snapshot { job, spec: Spec::unknown(), why: None, is_redacted: false, shown_version: None }
        } else {
            stored.next().expect("each stored job has one snapshot")
        };
        receipt.with_job(snapshot)
    });
    Ok(shown.collect())
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
