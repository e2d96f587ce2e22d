//! Firing: the job of a due run is submitted, once per run, in the commit that advances the schedule. Any number of
//! nodes may try at once; the second finds the schedule already advanced.

use std::sync::Arc;

use super::record;
use crate::audit::AuditEvent;
use crate::clock::Timestamp;
use crate::error::{ScheduleError, StoreError, SubmitError};
use crate::job::{JobEvent, JobId, JobRecord, NewJob, Seq};
use crate::limits;
use crate::schedule::Overlap;
use crate::store::caller::{Caller, Role};
use crate::store::command::effects::audit::RecordActor;
use crate::store::command::submit;
use crate::store::documents::config::Config;
use crate::store::documents::schedules::{RefusedRun, RetriedRun, Schedule};
use crate::store::tx::write_tx::WriteTx;

/// The result of one firing round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FireReport {
    /// Number of jobs submitted.
    pub(crate) jobs: usize,
    /// Whether more schedules are due.
    pub(crate) has_more: bool,
    /// When the next one is due.
    pub(crate) next_at: Option<Timestamp>,
}

/// Submits the jobs of due schedules: one bounded round.
pub(crate) fn fire(tx: &mut WriteTx<'_>) -> Result<FireReport, StoreError> {
    let now = tx.now;
    let mut due: Vec<Arc<Schedule>> = {
        let config = tx.config()?;
        config.schedules.values().filter(|schedule| schedule.is_due(now)).cloned().collect()
    };
    let has_run = |schedule: &Schedule| schedule.next_at.is_some_and(|at| at <= now);
    // Retries come after everything else, and do not cause another round immediately.
    due.sort_by_key(|schedule| {
        (!has_run(schedule), schedule.retry.map(|retry| retry.until), schedule.next_at)
    });
    let has_more =
        due.iter().filter(|schedule| has_run(schedule)).count() > limits::TICK_SCHEDULES_PER_COMMIT;
    let mut jobs = 0;
    for schedule in due.into_iter().take(limits::TICK_SCHEDULES_PER_COMMIT) {
        jobs += tx.fire_one(Schedule::clone(&schedule))?;
    }
    let next_at = next_run(&*tx.config()?, now);
    Ok(FireReport { jobs, has_more, next_at })
}

/// When the next schedule is due after now.
pub(crate) fn next_run(config: &Config, now: Timestamp) -> Option<Timestamp> {
    config.schedules.values().filter_map(|schedule| schedule.next_at).filter(|at| *at > now).min()
}

impl Schedule {
    /// Whether a run is due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.next_at.is_some_and(|at| at <= now) || self.retry.is_some()
    }

    /// Until when a refused run is retried: the refusal must be temporary, and no later run may be due.
    fn retried_until(&self, run: Timestamp, refused: &ScheduleError, now: Timestamp) -> Option<Timestamp> {
        let is_temporary = match refused {
            ScheduleError::Refused(refused) => matches!(**refused, SubmitError::TooDeep { .. }),
            ScheduleError::Invalid(invalid) => invalid.problem.is_temporary(),
            _ => false,
        };
        if !is_temporary {
            return None;
        }
        let longest = run.plus(limits::SCHEDULE_RETRY_MAX);
        let until = self.timing.next_after(self.start, run).map_or(longest, |next| next.min(longest));
        (until > now).then_some(until)
    }

    /// The job of a run; `None` for a manual trigger.
    fn job_of(&self, run: Option<Timestamp>, now: Timestamp) -> NewJob {
        let delay = self.job.delay.unwrap_or_default();
        let key = run.map(|run| format!("schedule:{}:{run}", self.name));
        NewJob {
            idempotency_key: key,
            run_at: Some(run.unwrap_or(now).plus(delay)),
            delay: None,
            ..self.job.clone()
        }
    }

    /// The caller that submits its jobs: the schedule's owner, whose permission was checked when the schedule was made.
    fn caller(&self) -> Caller {
        Caller {
            kind: "system",
            role: Role::Submitter,
            ..Caller::new(format!("schedule:{}", self.name), Role::Submitter, Some(self.tenant.clone()))
        }
    }
}

impl WriteTx<'_> {
    /// Submits the jobs of one schedule's due runs according to its policies; returns how many.
    fn fire_one(&mut self, mut schedule: Schedule) -> Result<usize, StoreError> {
        let now = self.now;
        let due = schedule.timing.due(schedule.start, schedule.done_through, now, schedule.missed);
        if let Some(retried) = schedule.retry {
            if due.is_none() && retried.until > now && schedule.pause_now(now).is_none() {
                return self.retry_run(schedule, retried);
            }
            self.end_retries(&mut schedule, retried);
        }
        let Some(due) = due else {
            schedule.next_at = schedule.first_run();
            self.put_schedule(schedule)?;
            return Ok(0);
        };
        let mut jobs = 0;
        for run in &due.runs {
            if schedule.overlap == Overlap::Skip && self.is_still_open(&mut schedule)? {
                schedule.overlapped += 1;
                continue;
            }
            match self.submit_run(&mut schedule, Some(*run), None) {
                Ok(_) => jobs += 1,
                Err(ScheduleError::Store(error)) => return Err(error),
                Err(refused) => self.note_refusal(&mut schedule, *run, &refused),
            }
        }
        if schedule.pause_now(now).is_none() {
            schedule.paused = None;
        }
        schedule.done_through = due.through;
        schedule.next_at = schedule.first_run();
        if let Some(since) = due.missed_since {
            let reason = format!("no run since {since}; catching up on {} runs", due.runs.len());
            let cause = RecordActor { reason: Some(reason), ..RecordActor::system() };
            schedule.missed_at = Some(now);
            record(self, AuditEvent::ScheduleMissed, &schedule, &cause);
        }
        self.put_schedule(schedule)?;
        Ok(jobs)
    }

    /// Retries the job of a run that was refused for lack of capacity. Writes nothing if it is refused again.
    fn retry_run(&mut self, mut schedule: Schedule, retried: RetriedRun) -> Result<usize, StoreError> {
        if schedule.overlap == Overlap::Skip && self.is_still_open(&mut schedule)? {
            schedule.overlapped += 1;
            schedule.retry = None;
            self.put_schedule(schedule)?;
            return Ok(0);
        }
        match self.submit_run(&mut schedule, Some(retried.run), None) {
            Ok(_) => {
                schedule.retry = None;
                self.put_schedule(schedule)?;
                Ok(1)
            }
            Err(ScheduleError::Store(error)) => Err(error),
            Err(refused) if schedule.retried_until(retried.run, &refused, self.now).is_some() => Ok(0),
            Err(refused) => {
                schedule.retry = None;
                self.note_refusal(&mut schedule, retried.run, &refused);
                self.put_schedule(schedule)?;
                Ok(0)
            }
        }
    }

    /// Stores, logs and audits that the job of a run was refused, and whether it will be retried.
    fn note_refusal(&mut self, schedule: &mut Schedule, run: Timestamp, refused: &ScheduleError) {
        let message = refused.to_string();
        tracing::warn!(schedule = %schedule.name, %run, %refused, "the job of a schedule was refused");
        let until = schedule.retried_until(run, refused, self.now);
        schedule.refused = Some(RefusedRun { run, at: self.now, message: message.clone() });
        schedule.retry = until.map(|until| RetriedRun { run, until });
        schedule.refusals += u64::from(until.is_none());
        let then =
            until.map_or_else(|| "it is skipped".into(), |until| format!("it is retried until {until}"));
        let reason = format!("the run of {run} was refused: {message}; {then}");
        record(
            self,
            AuditEvent::ScheduleRefused,
            schedule,
            &RecordActor { reason: Some(reason), ..RecordActor::system() },
        );
    }

    /// Ends the retries of a run that was always refused.
    fn end_retries(&mut self, schedule: &mut Schedule, retried: RetriedRun) {
        schedule.retry = None;
        schedule.refusals += 1;
        let reason = format!("the run of {} was refused until {}; it is skipped", retried.run, self.now);
        tracing::warn!(schedule = %schedule.name, run = %retried.run, "the job of a schedule was refused permanently");
        record(
            self,
            AuditEvent::ScheduleRefused,
            schedule,
            &RecordActor { reason: Some(reason), ..RecordActor::system() },
        );
    }

    /// Submits the job of a run and stores its id; `trace_id` is that of the triggering request, if any.
    pub(super) fn submit_run(
        &mut self,
        schedule: &mut Schedule,
        run: Option<Timestamp>,
        trace_id: Option<String>,
    ) -> Result<JobRecord, ScheduleError> {
        let job = schedule.job_of(run, self.now);
        let caller = Caller { trace_id, ..schedule.caller() };
        let overlapped = self.overlapped(schedule)?;
        let end = |tx: &mut WriteTx<'_>| tx.end_overlapped(schedule, &overlapped);
        let job = submit::submit_in_place_of(self, &caller, &job, &overlapped, end)?.job;
        schedule.last_run = run.or(schedule.last_run);
        schedule.last_job = Some(job.id);
        schedule.submitted += 1;
        match schedule.overlap {
            Overlap::Allow | Overlap::Cancel => schedule.open = vec![job.id],
            Overlap::Skip => {
                if schedule.open.len() >= limits::SCHEDULE_OPEN_JOBS_MAX {
                    schedule.open.remove(0);
                }
                schedule.open.push(job.id);
            }
        }
        Ok(job)
    }

    /// Whether a job of an earlier run is not final; final ones are dropped from the list.
    fn is_still_open(&mut self, schedule: &mut Schedule) -> Result<bool, StoreError> {
        let open = self.open_jobs(&schedule.open)?;
        schedule.open = open.into_iter().map(|(_, id)| id).collect();
        Ok(!schedule.open.is_empty())
    }

    /// The jobs of earlier runs that end when the next one is submitted.
    fn overlapped(&mut self, schedule: &Schedule) -> Result<Vec<(Seq, JobId)>, StoreError> {
        if schedule.overlap != Overlap::Cancel {
            return Ok(Vec::new());
        }
        let open = self.open_jobs(&schedule.open)?;
        // What their timers changed stays so even if the new run is refused.
        self.begin();
        Ok(open)
    }

    /// Cancels the jobs of earlier runs.
    fn end_overlapped(&mut self, schedule: &Schedule, open: &[(Seq, JobId)]) -> Result<(), StoreError> {
        for (seq, _) in open {
            let message = format!("the next run of schedule {} has come", schedule.name);
            let cause = RecordActor { reason: Some(message.clone()), ..RecordActor::system() };
            let _refused = self.apply(*seq, &JobEvent::Cancel { message }, &cause)?;
        }
        Ok(())
    }

    /// Those of these jobs that are not final. Applies due timers first.
    fn open_jobs(&mut self, ids: &[JobId]) -> Result<Vec<(Seq, JobId)>, StoreError> {
        let mut open = Vec::new();
        for (id, seq) in ids.iter().zip(self.find(ids)?) {
            let Some(seq) = seq else { continue };
            self.apply_due_timers(seq)?;
            if self.job(seq)?.is_some_and(|job| !job.state.is_final()) {
                open.push((seq, *id));
            }
        }
        Ok(open)
    }
}
