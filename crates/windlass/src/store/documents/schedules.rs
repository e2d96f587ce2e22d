//! Schedules as kept, and what people ask of them. When they run is decided in `schedule`, what happens then in
//! `command/schedule`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{ScheduleError, StoreError};
use crate::job::{JobId, JobRecord, NewJob, ScheduleName, Tenant};
use crate::limits;
use crate::schedule::{CatchUp, Overlap, ScheduleSpec};
use crate::store::caller::Caller;
use crate::store::command::schedule;
use crate::store::query::schedules;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;
use crate::store::{Store, ask_server};

/// A schedule to be put in place: when, and which job.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSchedule {
    /// When it runs.
    pub timing: ScheduleSpec,
    /// What becomes of missed runs.
    pub missed: CatchUp,
    /// What happens when a run comes while the one before is not over.
    pub overlap: Overlap,
    /// The job that each run submits. Its tenant is the schedule's.
    pub job: NewJob,
}

impl NewSchedule {
    /// Submits this job at these times; everything else by default.
    pub fn new(timing: ScheduleSpec, job: NewJob) -> NewSchedule {
        NewSchedule { timing, missed: CatchUp::default(), overlap: Overlap::default(), job }
    }
}

/// Which schedule is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRef {
    /// Whose. Only admins need say; unless they do, it is the default tenant's, or the only one of that name.
    pub tenant: Option<Tenant>,
    /// Which.
    pub name: ScheduleName,
}

impl From<ScheduleName> for ScheduleRef {
    fn from(name: ScheduleName) -> ScheduleRef {
        ScheduleRef { tenant: None, name }
    }
}

/// A pause of a schedule: who, since when, why, until when (M57).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulePause {
    /// Who.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: Option<String>,
    /// When it lifts itself.
    pub expires_at: Option<Timestamp>,
}

/// How a schedule is to be paused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PauseSchedule {
    /// Why.
    pub reason: Option<String>,
    /// When it lifts itself, from now.
    pub expires: Option<Duration>,
}

/// A run whose job was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRun {
    /// Which run.
    pub run: Timestamp,
    /// When it was refused.
    pub at: Timestamp,
    /// Why.
    pub message: String,
}

/// A run that is tried again because there was no room for its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetriedRun {
    /// Which run.
    pub run: Timestamp,
    /// When it is given up: when the next run comes, or [`SCHEDULE_RETRY_MAX`](limits::SCHEDULE_RETRY_MAX) after it was due.
    pub until: Timestamp,
}

/// A schedule as kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Whose.
    pub tenant: Tenant,
    /// Its name within its tenant.
    pub name: ScheduleName,
    /// When it runs.
    pub timing: ScheduleSpec,
    /// What becomes of missed runs.
    pub missed: CatchUp,
    /// What happens when a run comes while the one before is not over.
    pub overlap: Overlap,
    /// The job that each run submits.
    pub job: NewJob,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed by somebody.
    pub updated_at: Timestamp,
    /// Who changed it last.
    pub updated_by: String,
    /// Its pause, if it has one; it may have lifted itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<SchedulePause>,
    /// Where repetitions count from: when its timing was set.
    pub start: Timestamp,
    /// Runs up to here are dealt with.
    pub done_through: Timestamp,
    /// Its next run; none when there is no more, or not before somebody resumes it.
    pub next_at: Option<Timestamp>,
    /// The latest run that submitted a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Timestamp>,
    /// The latest job it submitted, by the clock or by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<JobId>,
    /// Jobs it submitted that were not over when last looked at, for those that may not overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<JobId>,
    /// Jobs it has submitted.
    #[serde(default)]
    pub submitted: u64,
    /// Runs left out because the one before was not over.
    #[serde(default)]
    pub overlapped: u64,
    /// The latest run whose job was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRun>,
    /// Runs whose job was refused for good.
    #[serde(default)]
    pub refusals: u64,
    /// The run that is tried again, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetriedRun>,
    /// Whether the payload and the query of the callback address were left out, because the caller does not read them.
    #[serde(skip)]
    pub is_redacted: bool,
}

impl Schedule {
    /// Its pause, if it holds now.
    pub fn pause_now(&self, now: Timestamp) -> Option<&SchedulePause> {
        self.paused.as_ref().filter(|pause| pause.expires_at.is_none_or(|at| at > now))
    }

    /// The first run after those that are dealt with; none while it is paused until further notice.
    pub(crate) fn first_run(&self) -> Option<Timestamp> {
        let is_held = self.paused.as_ref().is_some_and(|pause| pause.expires_at.is_none());
        if is_held { None } else { self.timing.next_after(self.start, self.done_through) }
    }

    /// Its next runs, as far as they are shown (M81).
    pub fn next_runs(&self) -> Vec<Timestamp> {
        let Some(first) = self.next_at else { return Vec::new() };
        let later = self.timing.next_runs(self.start, first, limits::SCHEDULE_RUNS_SHOWN - 1);
        std::iter::once(first).chain(later).collect()
    }

    /// The key under which it is kept.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.tenant, self.name)
    }
}

/// What putting a schedule in place did.
#[derive(Debug, Clone, PartialEq)]
pub struct PutSchedule {
    /// The schedule as it is now.
    pub schedule: Arc<Schedule>,
    /// Whether there was none of that name before.
    pub is_new: bool,
    /// Whether it differs from before.
    pub is_changed: bool,
}

impl Store {
    /// Puts a schedule in place of whatever had its name; what it knows of its past stays (M81).
    ///
    /// # Errors
    /// [`ScheduleError`] names field, value and limit; nothing changed.
    pub async fn put_schedule(
        &self,
        caller: &Caller,
        name: ScheduleName,
        new: NewSchedule,
    ) -> Result<PutSchedule, ScheduleError> {
        ask_server!(self.put_schedule(name, new));
        schedule::check(&new, self.env.options.payload_bytes_max, &self.env.options.targets)?;
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| schedule::put(tx, &caller, &name, &new);
        self.write("put_schedule", Kind::Ordinary, work).await
    }

    /// Removes a schedule; the jobs it submitted stay.
    pub async fn delete_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<(), ScheduleError> {
        ask_server!(self.delete_schedule(which.into()));
        let (caller, which) = (caller.clone(), which.into());
        let work = move |tx: &mut WriteTx<'_>| schedule::delete(tx, &caller, &which);
        self.write("delete_schedule", Kind::Ordinary, work).await
    }

    /// Pauses a schedule; says whether it was not paused before. Runs that come meanwhile are left out for good.
    pub async fn pause_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
        how: PauseSchedule,
    ) -> Result<bool, ScheduleError> {
        ask_server!(self.pause_schedule(which.into(), how));
        let (caller, which) = (caller.clone(), which.into());
        let work = move |tx: &mut WriteTx<'_>| schedule::pause(tx, &caller, &which, &how);
        self.write("pause_schedule", Kind::Ordinary, work).await
    }

    /// Resumes a schedule, from its next run on; says whether it was paused.
    pub async fn resume_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<bool, ScheduleError> {
        ask_server!(self.resume_schedule(which.into()));
        let (caller, which) = (caller.clone(), which.into());
        let work = move |tx: &mut WriteTx<'_>| schedule::resume(tx, &caller, &which);
        self.write("resume_schedule", Kind::Ordinary, work).await
    }

    /// Submits a schedule's job now, paused or not; its next runs stay as they are.
    pub async fn trigger_schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<JobRecord, ScheduleError> {
        ask_server!(self.trigger_schedule(which.into()));
        let (caller, which) = (caller.clone(), which.into());
        let work = move |tx: &mut WriteTx<'_>| schedule::trigger(tx, &caller, &which);
        self.write("trigger_schedule", Kind::Submission, work).await
    }

    /// A schedule that exists for this caller.
    pub async fn schedule(
        &self,
        caller: &Caller,
        which: impl Into<ScheduleRef>,
    ) -> Result<Option<Arc<Schedule>>, StoreError> {
        ask_server!(self.schedule(&which.into()));
        let (caller, which) = (caller.clone(), which.into());
        self.read("schedule", move |view| schedules::get(view, &caller, &which)).await
    }

    /// All schedules that exist for this caller, by tenant and name.
    pub async fn schedules(&self, caller: &Caller) -> Result<Vec<Arc<Schedule>>, StoreError> {
        ask_server!(self.schedules());
        let caller = caller.clone();
        self.read("schedules", move |view| schedules::all(view, &caller)).await
    }
}
