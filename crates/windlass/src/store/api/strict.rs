//! Strict variants of pause and resume, and resuming the jobs that a pause suspended.

use crate::error::ActError;
use crate::job::QueueName;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::bulk::BulkReport;
use crate::store::command::pause::{self, Pause, Target};

impl Store {
    /// Like [`pause`](Store::pause), but it is an error if the scope is already paused.
    ///
    /// # Errors
    /// [`ActError::AlreadyPaused`] if it is; the existing pause does not change.
    pub async fn pause_strictly(&self, caller: &Caller, target: Target, how: Pause) -> Result<(), ActError> {
        let changed = self.pause(caller, target.clone(), how).await;
        pause::changed_or(ActError::AlreadyPaused, &target, changed)
    }

    /// Like [`resume`](Store::resume), but it is an error if the scope is not paused.
    ///
    /// # Errors
    /// [`ActError::NotPaused`] if it is not.
    pub async fn resume_strictly(
        &self,
        caller: &Caller,
        target: Target,
        reason: Option<String>,
    ) -> Result<(), ActError> {
        let changed = self.resume(caller, target.clone(), reason).await;
        pause::changed_or(ActError::NotPaused, &target, changed)
    }

    /// Resumes the jobs that aggressive pauses of a queue have suspended, in bounded commits, whether or not the queue
    /// is still paused. Jobs that were suspended individually stay suspended.
    pub async fn resume_paused_jobs(
        &self,
        caller: &Caller,
        queue: QueueName,
        reason: Option<String>,
    ) -> Result<BulkReport, ActError> {
        let (filter, action) = pause::resume_suspended(queue, reason);
        self.bulk(caller, &filter, action).await
    }
}
