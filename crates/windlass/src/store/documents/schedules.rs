//! Stored schedules, and operations on them. `schedule` decides when they run, `command/schedule` what happens then.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{JobId, Lane, NewJob, ScheduleName, Tenant};
use crate::limits;
use crate::schedule::{CatchUp, Overlap, ScheduleSpec};
use crate::store::documents::tenant_object::ObjectPause;

/// A schedule to create or replace: timing and job.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSchedule {
    /// When it runs.
    pub timing: ScheduleSpec,
    /// How missed runs are handled.
    pub missed: CatchUp,
    /// What happens if a run is due while the previous one is not over.
    pub overlap: Overlap,
    /// The job that each run submits. Its tenant is the schedule's.
    pub job: NewJob,
}

impl NewSchedule {
    /// Submits this job at these times; everything else has defaults.
    pub fn new(timing: ScheduleSpec, job: NewJob) -> NewSchedule {
        NewSchedule { timing, missed: CatchUp::default(), overlap: Overlap::default(), job }
    }

    /// The schedule as it is when `by` creates it.
    pub fn schedule(self, name: &ScheduleName, now: Timestamp, by: &str) -> Schedule {
        let mut schedule = Schedule {
            tenant: self.job.tenant.clone().unwrap_or_default(),
            name: name.clone(),
            timing: self.timing,
            missed: self.missed,
            overlap: self.overlap,
            job: self.job,
            created_at: now,
            updated_at: now,
            updated_by: by.to_owned(),
            paused: None,
            start: now,
            done_through: now,
            next_at: None,
            last_run: None,
            last_job: None,
            open: Vec::new(),
            submitted: 0,
            overlapped: 0,
            refused: None,
            refusals: 0,
            retry: None,
            missed_at: None,
            is_redacted: false,
        };
        schedule.next_at = schedule.first_run();
        schedule
    }
}

/// A run whose job was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefusedRun {
    /// The time of the run.
    pub run: Timestamp,
    /// When it was refused.
    pub at: Timestamp,
    /// Why it was refused.
    pub message: String,
}

/// A run that is retried because its job was refused for lack of capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetriedRun {
    /// The time of the run.
    pub run: Timestamp,
    /// When retrying stops: at the next run, or [`SCHEDULE_RETRY_MAX`](limits::SCHEDULE_RETRY_MAX) after it was due.
    pub until: Timestamp,
}

/// A stored schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The tenant it belongs to.
    pub tenant: Tenant,
    /// Its name within its tenant.
    pub name: ScheduleName,
    /// When it runs.
    pub timing: ScheduleSpec,
    /// How missed runs are handled.
    pub missed: CatchUp,
    /// What happens if a run is due while the previous one is not over.
    pub overlap: Overlap,
    /// The job that each run submits.
    pub job: NewJob,
    /// When it was created.
    pub created_at: Timestamp,
    /// When a caller last changed it.
    pub updated_at: Timestamp,
    /// Who changed it last.
    pub updated_by: String,
    /// Its pause, if it has one; it may have expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<ObjectPause>,
    /// Start of repetitions: when its timing was set.
    pub start: Timestamp,
    /// Runs up to this time were handled.
    pub done_through: Timestamp,
    /// Its next run; `None` if there are no more, or while it is paused indefinitely.
    pub next_at: Option<Timestamp>,
    /// The latest run that submitted a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Timestamp>,
    /// The latest job it submitted, by timing or manually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<JobId>,
    /// Submitted jobs that were not final when last checked, for schedules whose runs may not overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<JobId>,
    /// Number of jobs it has submitted.
    #[serde(default)]
    pub submitted: u64,
    /// Number of runs skipped because the previous one was not over.
    #[serde(default)]
    pub overlapped: u64,
    /// The latest run whose job was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRun>,
    /// Number of runs whose job was refused permanently.
    #[serde(default)]
    pub refusals: u64,
    /// The run that is being retried, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetriedRun>,
    /// When runs were last found to be missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_at: Option<Timestamp>,
    /// Whether the payload and the query of the callback URL were removed because the caller may not read them.
    #[serde(skip)]
    pub is_redacted: bool,
}

impl Schedule {
    /// Its pause, if it is in force now.
    pub fn pause_now(&self, now: Timestamp) -> Option<&ObjectPause> {
        self.paused.as_ref().filter(|pause| pause.holds_at(now))
    }

    /// The first run after those handled; `None` while it is paused indefinitely.
    pub(crate) fn first_run(&self) -> Option<Timestamp> {
        let is_held = self.paused.as_ref().is_some_and(|pause| pause.expires_at.is_none());
        if is_held { None } else { self.timing.next_after(self.start, self.done_through) }
    }

    /// Its next runs, up to the number shown.
    pub fn next_runs(&self) -> Vec<Timestamp> {
        let Some(first) = self.next_at else { return Vec::new() };
        let later = self.timing.next_runs(self.start, first, limits::SCHEDULE_RUNS_SHOWN - 1);
        std::iter::once(first).chain(later).collect()
    }

    /// The lane of its jobs.
    pub(crate) fn lane(&self) -> Lane {
        let (queue, job_type) = (self.job.queue.clone(), self.job.job_type.clone());
        Lane::new(self.tenant.clone(), queue, job_type).requiring(self.job.requires_version.clone())
    }

    /// The document key.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.tenant, self.name)
    }
}

/// A deleted schedule, which can be restored until
/// [`DELETED_SCHEDULE_RETENTION`](limits::DELETED_SCHEDULE_RETENTION) after its deletion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeletedSchedule {
    /// The schedule when it was deleted.
    pub schedule: Arc<Schedule>,
    /// When it was deleted.
    pub at: Timestamp,
    /// Who deleted it.
    pub by: String,
}

impl DeletedSchedule {
    /// Until when it can be restored.
    pub fn restorable_until(&self) -> Timestamp {
        self.at.plus(limits::DELETED_SCHEDULE_RETENTION)
    }

    /// Whether it can still be restored.
    pub fn is_restorable(&self, now: Timestamp) -> bool {
        now < self.restorable_until()
    }
}

/// The result of creating or replacing a schedule.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PutSchedule {
    /// The current schedule.
    pub schedule: Arc<Schedule>,
    /// Whether there was none of that name before.
    pub is_new: bool,
    /// Whether it differs from the previous one.
    pub is_changed: bool,
}
