//! Pauses of queues, types, tenants, workers and the whole store.

use crate::error::ActionError;
use crate::job::QueueName;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::bulk::BulkReport;
use crate::store::command::pause::{self, Pause, PauseTarget};
use crate::store::tx::request::Kind;

impl Store {
    /// Pauses a scope; returns whether it was not paused before.
    pub async fn pause(
        &self,
        caller: &Caller,
        target: PauseTarget,
        pause: Pause,
    ) -> Result<bool, ActionError> {
        self.write_for(caller, "pause", Kind::Urgent, move |tx, caller| {
            pause::pause(tx, caller, &target, &pause)
        })
        .await
    }

    /// Like [`pause`](Store::pause), but it is an error if the scope is already paused.
    ///
    /// # Errors
    /// [`ActionError::AlreadyPaused`] if it is; the existing pause does not change.
    pub async fn pause_strictly(
        &self,
        caller: &Caller,
        target: PauseTarget,
        how: Pause,
    ) -> Result<(), ActionError> {
        let changed = self.pause(caller, target.clone(), how).await;
        pause::changed_or(ActionError::AlreadyPaused, &target, changed)
    }

    /// Ends a pause; returns whether there was one.
    pub async fn resume(
        &self,
        caller: &Caller,
        target: PauseTarget,
        reason: Option<String>,
    ) -> Result<bool, ActionError> {
        self.write_for(caller, "resume", Kind::Urgent, move |tx, caller| {
            pause::resume(tx, caller, &target, reason.as_deref())
        })
        .await
    }

    /// Like [`resume`](Store::resume), but it is an error if the scope is not paused.
    ///
    /// # Errors
    /// [`ActionError::NotPaused`] if it is not.
    pub async fn resume_strictly(
        &self,
        caller: &Caller,
        target: PauseTarget,
        reason: Option<String>,
    ) -> Result<(), ActionError> {
        let changed = self.resume(caller, target.clone(), reason).await;
        pause::changed_or(ActionError::NotPaused, &target, changed)
    }

    /// Resumes the jobs that aggressive pauses of a queue have suspended, in bounded commits, whether or not the queue
    /// is still paused. Jobs that were suspended individually stay suspended.
    pub async fn resume_paused_jobs(
        &self,
        caller: &Caller,
        queue: QueueName,
        reason: Option<String>,
    ) -> Result<BulkReport, ActionError> {
        let (filter, action) = pause::resume_suspended(queue, reason);
        self.bulk(caller, &filter, action).await
    }
}
