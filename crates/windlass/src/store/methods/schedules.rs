//! Schedules: create, delete, restore, pause, resume, trigger, read.

use std::sync::Arc;

use crate::error::{ScheduleError, StoreError};
use crate::job::{JobRecord, ScheduleName};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::schedule;
use crate::store::documents::schedules::{DeletedSchedule, NewSchedule, PutSchedule, Schedule};
use crate::store::documents::tenant_object::{PauseOptions, ScheduleRef};
use crate::store::query::schedules;
use crate::store::tx::request::Kind;

impl Store {
    /// Creates or replaces a schedule; a replaced schedule keeps its history.
    ///
    /// # Errors
    /// [`ScheduleError`] names field, value and limit; nothing changed.
    pub async fn put_schedule(
        &self,
        caller: &Caller,
        name: ScheduleName,
        new: NewSchedule,
    ) -> Result<PutSchedule, ScheduleError> {
        schedule::check(&new, self.env.options.payload_bytes_max, &self.env.options.targets)?;
        self.write_for(caller, "put_schedule", Kind::Ordinary, move |tx, caller| {
            schedule::put(tx, caller, &name, &new)
        })
        .await
    }

    /// Creates a deleted schedule again as it was; runs that were due in between are skipped.
    ///
    /// # Errors
    /// [`ScheduleError::NotFound`] if none of this name was deleted within
    /// [`DELETED_SCHEDULE_RETENTION`](crate::limits::DELETED_SCHEDULE_RETENTION); it is refused if there is a new one of
    /// this name.
    pub async fn restore_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<Arc<Schedule>, ScheduleError> {
        let which = which.into();
        self.write_for(caller, "restore_schedule", Kind::Ordinary, move |tx, caller| {
            schedule::restore::restore(tx, caller, &which)
        })
        .await
    }

    /// The deleted schedules that can be restored, latest first.
    pub async fn deleted_schedules(&self, caller: &Caller) -> Result<Vec<DeletedSchedule>, StoreError> {
        self.read_for(caller, "deleted_schedules", schedules::deleted).await
    }

    /// Deletes a schedule; the jobs it submitted are kept. It can be [restored](Store::restore_schedule) for a time.
    pub async fn delete_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<(), ScheduleError> {
        let which = which.into();
        self.write_for(caller, "delete_schedule", Kind::Ordinary, move |tx, caller| {
            schedule::delete(tx, caller, &which)
        })
        .await
    }

    /// Pauses a schedule; returns whether it was not paused before. Runs during the pause are skipped permanently.
    pub async fn pause_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
        how: PauseOptions,
    ) -> Result<bool, ScheduleError> {
        let which = which.into();
        self.write_for(caller, "pause_schedule", Kind::Ordinary, move |tx, caller| {
            schedule::pause(tx, caller, &which, &how)
        })
        .await
    }

    /// Resumes a schedule from its next run on; returns whether it was paused.
    pub async fn resume_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<bool, ScheduleError> {
        let which = which.into();
        self.write_for(caller, "resume_schedule", Kind::Ordinary, move |tx, caller| {
            schedule::resume(tx, caller, &which)
        })
        .await
    }

    /// Submits a schedule's job now, paused or not; its next runs do not change.
    pub async fn trigger_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<JobRecord, ScheduleError> {
        let which = which.into();
        self.write_for(caller, "trigger_schedule", Kind::Submission, move |tx, caller| {
            schedule::trigger(tx, caller, &which)
        })
        .await
    }

    /// A schedule, if the caller can see it.
    pub async fn schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<Option<Arc<Schedule>>, StoreError> {
        let which = which.into();
        self.read_for(caller, "schedule", move |view, caller| schedules::get(view, caller, &which)).await
    }

    /// All schedules this caller can see, by tenant and name.
    pub async fn schedules(&self, caller: &Caller) -> Result<Vec<Arc<Schedule>>, StoreError> {
        self.read_for(caller, "schedules", schedules::all).await
    }
}
