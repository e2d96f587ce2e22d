//! What is written together with something else: records that wait for the attempt's next write, most often its outcome, and
//! jobs that are submitted when the attempt completes. A sleep and its parking, or a group and its children, are so one
//! commit.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::call::Call;
use super::history::Record;
use super::save::{as_writes, encoded, failed};
use super::{Cx, lock};
use crate::client::{Job, JobBuilder};
use crate::error::{FieldProblem, Invalid, WorkError};
use crate::job::NewJob;
use crate::limits;
use crate::store::command::attempt_writes::AttemptWrite;

/// What waits to be written.
#[derive(Default)]
pub(super) struct WithOutcome {
    /// Records that are written with the next write, by key.
    records: Mutex<BTreeMap<String, Vec<u8>>>,
    added: Notify,
    /// Jobs to submit when the attempt completes.
    follow_ups: Mutex<Vec<NewJob>>,
}

impl Cx {
    /// Submits a job when this attempt completes, in the same commit: both happen, or neither. If the attempt ends in
    /// another way, the job is not submitted, and a later attempt adds it again. It belongs to the tenant of this job.
    ///
    /// The caller of the worker needs the permission to submit jobs.
    ///
    /// # Errors
    /// If a value is not allowed, or after 100 jobs.
    pub fn submit_on_completion<J: Job>(&self, job: impl Into<JobBuilder<J>>) -> Result<(), anyhow::Error> {
        let job = job.into().into_new().map_err(|invalid| failed(invalid.into()))?;
        let mut follow_ups = lock(&self.0.with_outcome.follow_ups);
        if follow_ups.len() == limits::FOLLOW_UPS_MAX {
            let limit = limits::FOLLOW_UPS_MAX;
            let problem = FieldProblem::TooLong { length: limit + 1, limit };
            return Err(failed(Invalid::new("submit", problem).into()));
        }
        follow_ups.push(job);
        Ok(())
    }

    /// The jobs to submit when the attempt completes.
    pub(crate) fn follow_ups(&self) -> Vec<NewJob> {
        lock(&self.0.with_outcome.follow_ups).clone()
    }

    /// Saves the record of a call that now waits, and what must precede it, with the attempt's next write.
    pub(super) async fn save_with_next(&self, call: &Call<'_>, record: &Record<'_>) -> Result<(), WorkError> {
        let value = encoded(record)?;
        self.save_after_with_next(call, Some((call.key().to_owned(), value))).await
    }

    /// Like [`save_after`](Cx::save_after), but with the attempt's next write.
    pub(super) async fn save_after_with_next(
        &self,
        call: &Call<'_>,
        record: Option<(String, Vec<u8>)>,
    ) -> Result<(), WorkError> {
        if self.is_batched() {
            return self.save_after(call, record).await;
        }
        let before = self.0.order.saved_before(call);
        let records: Vec<_> = before.iter().cloned().chain(record).collect();
        self.cache_records(records.clone());
        self.0.order.mark_returned(before.iter().map(|(key, _)| key));
        self.defer(records);
        Ok(())
    }

    /// Keeps records for the next write.
    pub(super) fn defer(&self, records: Vec<(String, Vec<u8>)>) {
        if records.is_empty() {
            return;
        }
        lock(&self.0.with_outcome.records).extend(records);
        self.0.with_outcome.added.notify_one();
    }

    /// The records that wait, as writes, and then `writes`. They wait until [`written`](Cx::written), because a request
    /// can be dropped before its answer.
    pub(super) fn after_deferred(&self, writes: Vec<AttemptWrite>) -> Vec<AttemptWrite> {
        let mut deferred = lock(&self.0.with_outcome.records).clone();
        for write in &writes {
            if let AttemptWrite::Checkpoint { step, .. } = write {
                deferred.remove(step);
            }
        }
        as_writes(deferred).chain(writes).collect()
    }

    /// The records that wait, for the attempt's outcome.
    pub(crate) fn last_writes(&self) -> Vec<AttemptWrite> {
        as_writes(std::mem::take(&mut *lock(&self.0.with_outcome.records))).collect()
    }

    /// These were written, and wait no more.
    pub(super) fn written(&self, writes: &[AttemptWrite]) {
        let mut deferred = lock(&self.0.with_outcome.records);
        for write in writes {
            if let AttemptWrite::Checkpoint { step, value } = write
                && deferred.get(step) == Some(value)
            {
                deferred.remove(step);
            }
        }
    }

    /// Never returns. Writes records that wait if the job does not park at once: work that runs beside a sleep must not
    /// keep the end of that sleep from being saved.
    pub(crate) async fn write_deferred(&self) -> Infallible {
        loop {
            self.0.with_outcome.added.notified().await;
            tokio::time::sleep(limits::DEFERRED_WRITE_MAX).await;
            if let Err(error) = self.flush().await {
                tracing::debug!(job = %self.job_id(), %error, "failed to save a wait; it is saved with the next write");
            }
        }
    }

    /// Writes the records that wait.
    pub(super) async fn flush(&self) -> Result<(), WorkError> {
        if lock(&self.0.with_outcome.records).is_empty() {
            return Ok(());
        }
        self.record_all(Vec::new()).await
    }
}
