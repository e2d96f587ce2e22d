//! Schedules: create, pause, resume, trigger, delete. Firing and restoring are in their own modules.

pub(crate) mod fire;
pub(crate) mod restore;

use std::sync::Arc;

use serde_json::{Value, json};

use super::effects::audit::{RecordActor, Subject};
use super::submit;
use crate::audit::AuditEvent;
use crate::error::{FieldError, FieldProblem, ScheduleError, StoreError};
use crate::job::{JobRecord, NewJob, ScheduleName, check_text};
use crate::limits;
use crate::schedule::ScheduleSpec;
use crate::store::caller::{Caller, Permission};
use crate::store::documents::config::encode;
use crate::store::documents::schedules::{NewSchedule, PutSchedule, Schedule};
use crate::store::documents::shares::has_room;
use crate::store::documents::tenant_object::{PauseOptions, ScheduleRef};
use crate::store::engine::DocumentKind;
use crate::store::query::schedules::find;
use crate::store::tx::write_tx::WriteTx;
use crate::webhook_url::TargetPolicy;

/// Checks everything about a schedule that needs no store access.
pub(crate) fn check(
    new: &NewSchedule,
    payload_bytes_max: usize,
    targets: &TargetPolicy,
) -> Result<(), ScheduleError> {
    new.timing.check()?;
    let bytes_max = payload_bytes_max.min(limits::SCHEDULE_PAYLOAD_BYTES_MAX);
    submit::check(std::slice::from_ref(&new.job), bytes_max, targets)?;
    let own = "is set by the schedule for each run";
    let none = "the job of a schedule cannot have dependencies";
    let NewJob { idempotency_key, run_at, after, after_any, name, .. } = &new.job;
    let fields = [
        ("job.idempotency_key", idempotency_key.is_some(), own),
        ("job.run_at", run_at.is_some(), own),
        ("job.after", !after.is_empty(), none),
        ("job.after_any", !after_any.is_empty(), none),
        ("job.name", name.is_some(), none),
    ];
    match fields.into_iter().find(|(_, is_set, _)| *is_set) {
        Some((field, _, problem)) => {
            Err(FieldError::new(field, FieldProblem::Contradiction(problem.into())).into())
        }
        None => Ok(()),
    }
}

/// Creates or replaces a schedule.
pub(crate) fn put(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    name: &ScheduleName,
    new: &NewSchedule,
) -> Result<PutSchedule, ScheduleError> {
    caller.require(Permission::Schedule)?;
    let tenant = new.job.tenant.clone().or_else(|| caller.tenant.clone()).unwrap_or_default();
    if !caller.can_see(&tenant) {
        caller.require(Permission::Administer)?;
    }
    let job = NewJob { tenant: Some(tenant.clone()), ..new.job.clone() };
    let config = tx.config()?;
    let before = config.schedules.get(&(tenant.clone(), name.clone())).cloned();
    let own = || config.schedules.keys().filter(|(other, _)| *other == tenant).count();
    if before.is_none() && !has_room(config.schedules.len(), own(), limits::SCHEDULES_MAX) {
        let problem =
            FieldProblem::TooLong { length: config.schedules.len() + 1, limit: limits::SCHEDULES_MAX };
        return Err(FieldError::new("schedules", problem).into());
    }
    let is_same = |before: &&Arc<Schedule>| {
        (&before.timing, before.missed, before.overlap, &before.job)
            == (&new.timing, new.missed, new.overlap, &job)
    };
    if let Some(same) = before.as_ref().filter(is_same) {
        return Ok(PutSchedule { schedule: same.clone(), is_new: false, is_changed: false });
    }
    let schedule = match &before {
        Some(before) => changed(before, new, job, tx, caller),
        None => NewSchedule { job, ..new.clone() }.schedule(name, tx.now, &caller.id),
    };
    let will_run = schedule.timing.next_after(schedule.start, schedule.start).is_some();
    if before.as_ref().is_none_or(|before| before.timing != new.timing) && !will_run {
        let problem = FieldProblem::Contradiction("is in the past: it would never run".into());
        return Err(FieldError::new("at", problem).into());
    }
    let event = if before.is_some() { AuditEvent::ScheduleUpdated } else { AuditEvent::ScheduleCreated };
    record(tx, event, &schedule, &RecordActor::caller(caller, None));
    let schedule = tx.put_schedule(schedule)?;
    Ok(PutSchedule { schedule, is_new: before.is_none(), is_changed: true })
}

/// The schedule with the requested changes. A new timing counts from now; a pause continues.
fn changed(before: &Schedule, new: &NewSchedule, job: NewJob, tx: &WriteTx<'_>, caller: &Caller) -> Schedule {
    let mut schedule = Schedule {
        timing: new.timing.clone(),
        missed: new.missed,
        overlap: new.overlap,
        job,
        updated_at: tx.now,
        updated_by: caller.id.clone(),
        ..before.clone()
    };
    if schedule.timing != before.timing {
        schedule.start = tx.now;
        // A pause with an end has already handled the runs up to its end.
        schedule.done_through = schedule.done_through.max(tx.now);
        schedule.next_at = schedule.first_run();
    }
    schedule
}

/// Removes a schedule. It can be restored for a time.
pub(crate) fn delete(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    which: &ScheduleRef,
) -> Result<(), ScheduleError> {
    let schedule = tx.managed_schedule(caller, which)?;
    record(tx, AuditEvent::ScheduleDeleted, &schedule, &RecordActor::caller(caller, None));
    let key = (schedule.tenant.clone(), schedule.name.clone());
    tx.put_document(DocumentKind::Schedule, &schedule.key(), None, |config| {
        config.schedules.remove(&key);
    })?;
    tx.keep_deleted(schedule, caller)?;
    Ok(())
}

/// Pauses a schedule; returns whether it was not paused before.
pub(crate) fn pause(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    which: &ScheduleRef,
    how: &PauseOptions,
) -> Result<bool, ScheduleError> {
    check_text("reason", how.reason.as_deref(), limits::REASON_CHARS_MAX)?;
    let now = tx.now;
    let schedule = tx.managed_schedule(caller, which)?;
    if schedule.pause_now(now).is_some() {
        return Ok(false);
    }
    let pause = how.begin(caller, now);
    let expires_at = pause.expires_at;
    let mut next = Schedule { paused: Some(pause), ..Schedule::clone(&schedule) };
    // Runs during a pause are skipped permanently; they do not count as missed.
    next.done_through = next.done_through.max(expires_at.unwrap_or(now));
    next.next_at = next.first_run();
    record(tx, AuditEvent::SchedulePaused, &next, &RecordActor::caller(caller, how.reason.as_deref()));
    tx.put_schedule(next)?;
    Ok(true)
}

/// Resumes a schedule; returns whether it was paused.
pub(crate) fn resume(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    which: &ScheduleRef,
) -> Result<bool, ScheduleError> {
    let now = tx.now;
    let schedule = tx.managed_schedule(caller, which)?;
    if schedule.pause_now(now).is_none() {
        return Ok(false);
    }
    let mut next = Schedule { paused: None, done_through: now, ..Schedule::clone(&schedule) };
    next.next_at = next.first_run();
    record(tx, AuditEvent::ScheduleResumed, &next, &RecordActor::caller(caller, None));
    tx.put_schedule(next)?;
    Ok(true)
}

/// Submits a schedule's job now.
pub(crate) fn trigger(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    which: &ScheduleRef,
) -> Result<JobRecord, ScheduleError> {
    let mut schedule = Schedule::clone(&*tx.managed_schedule(caller, which)?);
    // A manual trigger always runs; only overlapping jobs that must not run in parallel are ended.
    let job = tx.submit_run(&mut schedule, None, caller.trace_id.clone())?;
    record(tx, AuditEvent::ScheduleTriggered, &schedule, &RecordActor::caller(caller, None));
    tx.put_schedule(schedule)?;
    Ok(job)
}

/// The timing as a record shows it.
fn timing(timing: &ScheduleSpec) -> Value {
    match timing {
        ScheduleSpec::At(at) => json!({"at": at.to_string()}),
        ScheduleSpec::Cron { .. } | ScheduleSpec::Every(_) => json!(timing),
    }
}

/// Records an event of a schedule.
pub(super) fn record(tx: &mut WriteTx<'_>, event: AuditEvent, schedule: &Schedule, cause: &RecordActor) {
    let mut context = json!({
        "actor_id": cause.id,
        "schedule": schedule.name,
        "timing": timing(&schedule.timing),
        "type": schedule.job.job_type,
        "next_at": schedule.next_at.map(|at| at.to_string()),
    });
    if let Some(reason) = &cause.reason {
        context["reason"] = json!(reason);
    }
    let (queue, job_type) = (schedule.job.queue.clone(), schedule.job.job_type.clone());
    let subject = Subject { tenant: schedule.tenant.clone(), queue: Some(queue), job_type: Some(job_type) };
    tx.record_operation(event, subject, cause, &context);
}

impl WriteTx<'_> {
    /// The schedule, if the caller can see and change it.
    fn managed_schedule(
        &mut self,
        caller: &Caller,
        which: &ScheduleRef,
    ) -> Result<Arc<Schedule>, ScheduleError> {
        caller.require(Permission::Schedule)?;
        let config = self.config()?;
        find(&config, caller, which).cloned().ok_or_else(|| ScheduleError::NotFound(which.name.clone()))
    }

    pub(in crate::store::command) fn put_schedule(
        &mut self,
        schedule: Schedule,
    ) -> Result<Arc<Schedule>, StoreError> {
        let schedule = Arc::new(schedule);
        let key = (schedule.tenant.clone(), schedule.name.clone());
        let body = encode(&*schedule);
        self.put_document(DocumentKind::Schedule, &schedule.key(), Some(&body), |config| {
            config.schedules.insert(key, schedule.clone());
        })?;
        Ok(schedule)
    }
}
