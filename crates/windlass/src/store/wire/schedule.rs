//! Schedules.

use windlass_api::schedule::{
    JobTemplate, RefusedView, ScheduleBody, SchedulePauseView, ScheduleView, TimingFields,
};
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::clock::Timestamp;
use crate::error::FieldError;
use crate::store::documents::schedules::{DeletedSchedule, NewSchedule, RefusedRun, RetriedRun, Schedule};
use crate::store::documents::tenant_object::ObjectPause;

impl TryFrom<ScheduleBody> for NewSchedule {
    type Error = FieldError;

    fn try_from(body: ScheduleBody) -> Result<NewSchedule, FieldError> {
        let ScheduleBody { cron, timezone, every, at, missed, overlap, job } = body;
        let timing = TimingFields { cron, timezone, every, at }.try_into()?;
        let job = job.into_job(None).map_err(|invalid| invalid.within("job"))?;
        let mut new = NewSchedule::new(timing, job);
        new.missed = missed.unwrap_or(new.missed);
        new.overlap = overlap.unwrap_or(new.overlap);
        Ok(new)
    }
}

impl From<&NewSchedule> for ScheduleBody {
    fn from(new: &NewSchedule) -> ScheduleBody {
        let TimingFields { cron, timezone, every, at } = (&new.timing).into();
        let (missed, overlap) = (Some(new.missed), Some(new.overlap));
        ScheduleBody { cron, timezone, every, at, missed, overlap, job: (&new.job).into() }
    }
}

/// The schedule at this time.
pub fn schedule(schedule: &Schedule, now: Timestamp) -> ScheduleView {
    let TimingFields { cron, timezone, every, at } = (&schedule.timing).into();
    ScheduleView {
        name: Text(schedule.name.clone()),
        tenant: Text(schedule.tenant.clone()),
        cron,
        timezone,
        every,
        at,
        missed: schedule.missed,
        overlap: schedule.overlap,
        job: JobTemplate::new(&schedule.job, schedule.is_redacted),
        redacted: schedule.is_redacted,
        paused: schedule.pause_now(now).map(pause),
        next_runs: schedule.next_runs().into_iter().map(Moment).collect(),
        last_run: schedule.last_run.map(Moment),
        last_job: schedule.last_job.map(Text),
        submitted: schedule.submitted,
        overlapped: schedule.overlapped,
        last_refused: schedule.refused.as_ref().map(|run| refused(run, schedule.retry)),
        refusals: schedule.refusals,
        created_at: schedule.created_at.into(),
        updated_at: schedule.updated_at.into(),
        updated_by: schedule.updated_by.clone(),
        deleted_at: None,
        deleted_by: None,
    }
}

/// A deleted schedule. It has no next runs.
pub fn deleted(deleted: &DeletedSchedule, now: Timestamp) -> ScheduleView {
    ScheduleView {
        next_runs: Vec::new(),
        deleted_at: Some(deleted.at.into()),
        deleted_by: Some(deleted.by.clone()),
        ..schedule(&deleted.schedule, now)
    }
}

fn pause(pause: &ObjectPause) -> SchedulePauseView {
    SchedulePauseView {
        by: pause.by.clone(),
        at: pause.since.into(),
        reason: pause.reason.clone(),
        expires_at: pause.expires_at.map(Moment),
    }
}

fn refused(run: &RefusedRun, retry: Option<RetriedRun>) -> RefusedView {
    RefusedView {
        run: run.run.into(),
        at: run.at.into(),
        reason: run.message.clone(),
        retried_until: retry.filter(|retry| retry.run == run.run).map(|retry| Moment(retry.until)),
    }
}

impl TryFrom<ScheduleView> for Schedule {
    type Error = FieldError;

    /// The start of its repetitions is not available; counted from its next run they are the same.
    fn try_from(shown: ScheduleView) -> Result<Schedule, FieldError> {
        let ScheduleView { cron, timezone, every, at, .. } = shown;
        let next_at = shown.next_runs.first().map(|moment| moment.0);
        let updated_at = shown.updated_at.0;
        Ok(Schedule {
            tenant: shown.tenant.0,
            name: shown.name.0,
            timing: TimingFields { cron, timezone, every, at }.try_into()?,
            missed: shown.missed,
            overlap: shown.overlap,
            job: shown.job.into(),
            created_at: shown.created_at.0,
            updated_at,
            updated_by: shown.updated_by,
            paused: shown.paused.map(|pause| ObjectPause {
                by: pause.by,
                since: pause.at.0,
                reason: pause.reason,
                expires_at: pause.expires_at.map(|moment| moment.0),
            }),
            start: next_at.unwrap_or(updated_at),
            done_through: shown.last_run.map_or(updated_at, |moment| moment.0),
            next_at,
            is_redacted: shown.redacted,
            last_run: shown.last_run.map(|moment| moment.0),
            last_job: shown.last_job.map(|id| id.0),
            open: Vec::new(),
            missed_at: None,
            submitted: shown.submitted,
            overlapped: shown.overlapped,
            refusals: shown.refusals,
            retry: shown.last_refused.as_ref().and_then(|refused| {
                Some(RetriedRun { run: refused.run.0, until: refused.retried_until.as_ref()?.0 })
            }),
            refused: shown.last_refused.map(|refused| RefusedRun {
                run: refused.run.0,
                at: refused.at.0,
                message: refused.reason,
            }),
        })
    }
}
