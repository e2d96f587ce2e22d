//! Strict variants of pause and resume, and resuming the jobs that a pause suspended.

use crate::error::ActError;
use crate::job::{JobState, QueueName};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::actions::ActionRequest;
use crate::store::command::bulk::{BulkAction, BulkReport};
use crate::store::command::pause::{Pause, Target};
use crate::store::filter::Filter;

impl Store {
    /// Like [`pause`](Store::pause), but it is an error if the scope is already paused.
    ///
    /// # Errors
    /// [`ActError::AlreadyPaused`] if it is; the existing pause does not change.
    pub async fn pause_strictly(
        &self,
        caller: &Caller,
        target: Target,
        pause: Pause,
    ) -> Result<(), ActError> {
        let what = target.to_string();
        let is_changed = self.pause(caller, target, pause).await?;
        if is_changed { Ok(()) } else { Err(ActError::AlreadyPaused(what)) }
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
        let what = target.to_string();
        let is_changed = self.resume(caller, target, reason).await?;
        if is_changed { Ok(()) } else { Err(ActError::NotPaused(what)) }
    }

    /// Resumes the jobs that aggressive pauses of a queue have suspended, in bounded commits, whether or not the queue
    /// is still paused. Jobs that were suspended individually stay suspended.
    pub async fn resume_paused_jobs(
        &self,
        caller: &Caller,
        queue: QueueName,
        reason: Option<String>,
    ) -> Result<BulkReport, ActError> {
        let filter = Filter {
            queue: Some(queue),
            states: vec![JobState::Suspended],
            is_suspended_by_pause: Some(true),
            ..Filter::default()
        };
        self.bulk(caller, &filter, BulkAction::Act(ActionRequest::Resume { reason })).await
    }
}
