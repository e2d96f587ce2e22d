//! What is written together with something else: records that wait for the attempt's next write, most often its
//! outcome, and jobs that are submitted when the attempt completes. So a sleep and its parking, or a group and its
//! children, are one commit. If the job does not park, the supervising task writes the records at once.

mod deferred;

use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use self::deferred::DeferredRecords;
use super::call::Call;
use super::history::Record;
use super::save::{as_writes, encoded, failed};
use super::{Cx, HandlerExit, lock};
use crate::client::{Job, JobBuilder};
use crate::error::{FieldError, FieldProblem, WorkError};
use crate::job::{JobState, NewJob};
use crate::limits;
use crate::store::command::attempt_writes::AttemptWrite;
use crate::store::command::children::{NewGroup, SpawnOptions};
use crate::store::command::claim::ClaimedJob;
use crate::store::command::finish::{Outcome, Park, Report};

/// What waits to be written.
#[derive(Default)]
pub(super) struct WithOutcome {
    /// Records that are written with the next write.
    records: Mutex<DeferredRecords>,
    /// Notified when a record was added, and when a request that carried some has ended.
    changed: Notify,
    /// Jobs to submit when the attempt completes.
    follow_ups: Mutex<Vec<NewJob>>,
    /// The report that replaces the handler's result, if the job was passed on.
    given: Mutex<Option<Report>>,
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
            return Err(failed(FieldError::new("submit", problem).into()));
        }
        follow_ups.push(job);
        Ok(())
    }

    /// The claimed job: for workers that pass it on, such as to a durable push target.
    #[doc(hidden)]
    pub fn as_claimed(&self) -> &ClaimedJob {
        &self.0.claimed
    }

    /// Ends the attempt with this report instead of the handler's result: for workers that passed the job on.
    #[doc(hidden)]
    pub fn report_as(&self, report: Report) {
        *lock(&self.0.with_outcome.given) = Some(report);
    }

    /// Spawns children and parks the job on them, or, if they are decided already, runs it again at once. Does not
    /// return if the job is parked.
    #[doc(hidden)]
    pub async fn park_on_children(
        &self,
        group: NewGroup,
        options: SpawnOptions,
    ) -> Result<(), anyhow::Error> {
        let client = self.client();
        let spawned = client.api().spawn_with(client.caller(), self.lease_ref(), group, options).await;
        if spawned.map_err(failed)?.parent.state != JobState::Running {
            return self.stop(HandlerExit::Parked).await;
        }
        let outcome = Outcome::Parked(Park::For(Duration::ZERO));
        self.report_as(Report::new(self.job_id(), self.fence(), outcome));
        Ok(())
    }

    /// The report that was set by [`report_as`](Cx::report_as).
    pub(crate) fn given_report(&self) -> Option<Report> {
        lock(&self.0.with_outcome.given).take()
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
        lock(&self.0.with_outcome.records).add(records);
        self.0.with_outcome.changed.notify_waiters();
    }

    /// The records that wait, as writes, then `writes`, then the output that waits. They are kept until
    /// [`written`](RequestRecords::written), because a request can be dropped before its answer.
    ///
    /// Waits if a flush with an older value of the same record is in progress: two requests may arrive in any order.
    pub(super) async fn after_deferred(
        &self,
        writes: Vec<AttemptWrite>,
        is_flush: bool,
    ) -> (Vec<AttemptWrite>, RequestRecords<'_>) {
        loop {
            // Before the check: a flush that ends in between is not missed.
            let changed = self.0.with_outcome.changed.notified();
            let taken = lock(&self.0.with_outcome.records).take_along(&writes, is_flush);
            let Some((deferred, carried)) = taken else {
                changed.await;
                continue;
            };
            let carried = RequestRecords { cx: self, records: carried, is_flush };
            let all = as_writes(deferred).chain(writes).chain(self.0.stream.write()).collect();
            return (all, carried);
        }
    }

    /// The records and the output that wait, for the attempt's outcome.
    pub(crate) fn last_writes(&self) -> Vec<AttemptWrite> {
        as_writes(lock(&self.0.with_outcome.records).take_all()).chain(self.0.stream.write()).collect()
    }

    /// Never returns. Writes records that wait at once if the job does not park at once: the end of a sleep or a wait
    /// must not depend on work that runs beside it. The supervising task polls this after it has seen that the handler
    /// did not park.
    pub(crate) async fn write_deferred(&self) -> Infallible {
        let with_outcome = &self.0.with_outcome;
        loop {
            let changed = with_outcome.changed.notified();
            if !lock(&with_outcome.records).is_any_left() {
                changed.await;
                continue;
            }
            match self.flush().await {
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    tracing::warn!(job = %self.job_id(), %error, "failed to save a wait; it is tried again");
                    tokio::time::sleep(limits::DEFERRED_WRITE_AGAIN).await;
                }
                // Every write that carries it will be refused.
                Err(error) => {
                    tracing::debug!(job = %self.job_id(), %error, "a wait was not saved");
                    with_outcome.changed.notified().await;
                }
            }
        }
    }

    /// Writes the records and the output that wait.
    pub(super) async fn flush(&self) -> Result<(), WorkError> {
        if lock(&self.0.with_outcome.records).is_empty() && self.0.stream.is_empty() {
            return Ok(());
        }
        self.record_or_flush(Vec::new(), true).await
    }
}

/// What a request in progress carries of what waited.
pub(super) struct RequestRecords<'a> {
    cx: &'a Cx,
    records: Vec<(String, u64)>,
    is_flush: bool,
}

impl RequestRecords<'_> {
    /// All of this was written, and waits no more.
    pub(super) fn written(&self, writes: &[AttemptWrite]) {
        lock(&self.cx.0.with_outcome.records).remove(&self.records);
        for write in writes {
            self.cx.0.stream.written(write);
        }
    }
}

impl Drop for RequestRecords<'_> {
    fn drop(&mut self) {
        let with_outcome = &self.cx.0.with_outcome;
        lock(&with_outcome.records).request_ended(&self.records, self.is_flush);
        with_outcome.changed.notify_waiters();
    }
}
