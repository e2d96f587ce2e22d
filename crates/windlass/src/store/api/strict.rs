//! The strict forms of pausing and resuming, and what belongs to the end of a pause.

use crate::error::ActError;
use crate::job::{JobState, QueueName};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::actions::JobAction;
use crate::store::command::bulk::{BulkAction, BulkReport};
use crate::store::command::pause::{Pause, Target};
use crate::store::filter::Filter;

impl Store {
    /// As [`pause`](Store::pause), but what is paused already is an error.
    ///
    /// # Errors
    /// [`ActError::AlreadyPaused`] if it is; the pause in force stays as it is.
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

    /// As [`resume`](Store::resume), but what is not paused is an error.
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

    /// Resumes the jobs that aggressive pauses of a queue have suspended, in bounded commits; whether the queue itself is
    /// paused does not matter. Jobs that somebody suspended one by one stay suspended.
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
        self.bulk(caller, &filter, BulkAction::JobAction(JobAction::Resume { reason })).await
    }
}
