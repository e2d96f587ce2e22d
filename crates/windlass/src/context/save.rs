//! Saves checkpoints and the records of a job's calls. Records that must exist before a call are saved in the same
//! commit or earlier.

use std::sync::Arc;

use super::call::Call;
use super::history::Record;
use super::{Cx, lock};
use crate::error::{FieldError, FieldProblem, SubmitError, WorkError};
use crate::job::Failure;
use crate::store::command::attempt_writes::{AttemptWrite, check_step};

impl Cx {
    /// Writes all of these, or none.
    pub(super) async fn record_all(&self, writes: Vec<AttemptWrite>) -> Result<(), WorkError> {
        self.record_or_flush(writes, false).await
    }

    /// The same. A flush writes what waits, and is polled by the supervising task, whatever the handler does.
    pub(super) async fn record_or_flush(
        &self,
        writes: Vec<AttemptWrite>,
        is_flush: bool,
    ) -> Result<(), WorkError> {
        let client = &self.0.client;
        let _storing = self.0.order.storing();
        let (writes, carried) = self.after_deferred(writes, is_flush).await;
        client.api().record(client.caller(), self.lease_ref(), writes.clone()).await?;
        carried.written(&writes);
        Ok(())
    }

    /// Saves a checkpoint, in this context and in the store.
    pub(super) async fn save(&self, step: &str, value: Vec<u8>) -> Result<(), WorkError> {
        self.record(AttemptWrite::Checkpoint { step: step.to_owned(), value: value.clone() }).await?;
        self.cache_records(vec![(step.to_owned(), value)]);
        Ok(())
    }

    pub(super) fn cache_records(&self, records: Vec<(String, Vec<u8>)>) {
        lock(&self.0.saved).extend(records.into_iter().map(|(key, value)| (key, value.into())));
    }

    pub(super) fn saved(&self, step: &str) -> Option<Arc<[u8]>> {
        lock(&self.0.saved).get(step).cloned()
    }

    /// Starts a saved call when it may continue: in order, if the worker is strict.
    pub(super) async fn call(&self, name: &str) -> Result<Call<'_>, anyhow::Error> {
        let mut call = self.0.order.call(name);
        call.may_continue(self.is_strict()).await?;
        // Before any work is done that could not be saved.
        check_step("step", call.key()).map_err(|invalid| failed(invalid.into()))?;
        Ok(call)
    }

    /// The record that earlier attempts saved for a call.
    pub(super) fn saved_by(&self, call: &Call<'_>) -> Option<Arc<[u8]>> {
        call.is_saved().then(|| self.saved(call.key())).flatten()
    }

    /// Saves a call's result, together with earlier calls that ended without a value.
    pub(super) async fn save_call(&self, call: &Call<'_>, record: &Record<'_>) -> Result<(), WorkError> {
        self.save_after(call, Some((call.key().to_owned(), encoded(record)?))).await
    }

    /// Clears the places of sleeps and groups that the job parks on at once: none of them has to come before later
    /// calls.
    pub(crate) fn clear_places(&self) {
        let mut records = std::mem::take(&mut *lock(&self.0.unplaced));
        if records.is_empty() {
            records = self.0.order.beside_each_other();
        }
        self.defer(records);
    }

    /// Called when the attempt fails with this error. If a step returned it, the step runs again in the next attempt,
    /// even if the handler continued for a while.
    pub(crate) fn reopen(&self, error: &anyhow::Error, message: &str) {
        let records = self.0.order.reopened_by(error, message);
        if records.is_empty() {
            let steps = self.0.order.stuck_on();
            if !steps.is_empty() {
                let (job, steps) = (self.job_id(), steps.join(", "));
                tracing::warn!(
                    %job,
                    "every step of this attempt was replayed, including the errors of {steps}, and the next attempt would be \
                     the same: return a step's error, or pass it to `retry_later`, to run the step again"
                );
            }
        }
        self.defer(records);
    }

    /// Saves the records that must precede this call, then `record`.
    pub(super) async fn save_after(
        &self,
        call: &Call<'_>,
        record: Option<(String, Vec<u8>)>,
    ) -> Result<(), WorkError> {
        let before = self.0.order.saved_before(call);
        let records: Vec<_> = before.iter().cloned().chain(record).collect();
        if records.is_empty() {
            return Ok(());
        }
        self.record_all(as_writes(records.clone()).collect()).await?;
        self.cache_records(records);
        self.0.order.mark_returned(before.iter().map(|(key, _)| key));
        Ok(())
    }
}

/// Records as writes.
pub(super) fn as_writes(
    records: impl IntoIterator<Item = (String, Vec<u8>)>,
) -> impl Iterator<Item = AttemptWrite> {
    records.into_iter().map(|(step, value)| AttemptWrite::Checkpoint { step, value })
}

/// A record as it is saved.
pub(super) fn encoded(record: &Record<'_>) -> Result<Vec<u8>, WorkError> {
    serde_json::to_vec(record).map_err(|error| {
        let problem = FieldProblem::Contradiction(format!("cannot be written as JSON: {error}"));
        FieldError::new("step", problem).into()
    })
}

/// The failure of an attempt whose write was refused, see [`failed`].
pub(crate) fn refused_job(error: &WorkError) -> Failure {
    failure_of(error)
}

/// Converts a store error. An attempt that lost its lease or its store ends here, because its writes are rejected
/// anyway. An invalid value is a permanent error, because a retry would not help.
#[allow(clippy::needless_pass_by_value, reason = "so that it can be passed to `map_err`")]
pub(super) fn failed(error: WorkError) -> anyhow::Error {
    failure_of(&error).into()
}

fn failure_of(error: &WorkError) -> Failure {
    let is_invalid = match error {
        WorkError::Invalid(_) => true,
        WorkError::Children(refused) => {
            matches!(
                **refused,
                SubmitError::Invalid { .. } | SubmitError::PayloadTooLarge { .. } | SubmitError::Forbidden(_)
            )
        }
        _ => false,
    };
    if is_invalid {
        return Failure::permanent("not_allowed", error.to_string());
    }
    if let WorkError::Children(refused) = error
        && matches!(**refused, SubmitError::UniqueKeyTaken { .. })
    {
        // Free when its holder has finished, so a retry can succeed.
        return Failure::temporary(error.to_string()).with_code("unique_key_taken");
    }
    Failure::temporary(error.to_string()).with_code("not_written")
}
