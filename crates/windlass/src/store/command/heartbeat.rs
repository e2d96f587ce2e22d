//! Heartbeats: a worker reports that it is alive and what its jobs are doing, and receives a directive for each job.

use std::time::Duration;

use windlass_core::Words;

use crate::error::{FieldError, FieldProblem, StoreError, WorkError};
use crate::job::{Category, Fence, JobId, JobRecord, JobState, Lease, Progress, Seq, WorkerId, check_text};
use crate::limits;
use crate::settings::PauseMode;
use crate::store::caller::{Caller, Permission};
use crate::store::tx::write_tx::WriteTx;

/// The heartbeat of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatItem {
    /// The job.
    pub job: JobId,
    /// The fence it was claimed with.
    pub fence: Fence,
    /// The progress of the job.
    pub progress: Option<Progress>,
    /// Lines for the job's log.
    pub logs: Vec<String>,
    /// A shorter time limit for this attempt, from now; a longer one is ignored.
    pub timeout: Option<Duration>,
}

impl HeartbeatItem {
    /// A heartbeat without progress, logs or timeout.
    pub fn new(job: JobId, fence: Fence) -> HeartbeatItem {
        HeartbeatItem { job, fence, progress: None, logs: Vec::new(), timeout: None }
    }
}

/// What a worker should do with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
#[non_exhaustive]
pub enum Directive {
    /// Continue; the lease was extended.
    Continue,
    /// Stop: the job was suspended.
    Suspend,
    /// Stop: the job was cancelled.
    Cancel,
    /// Stop: the lease is no longer held.
    Lost,
    /// Stop: the attempt timed out.
    Timeout,
}

/// The response to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeartbeatReply {
    /// The directive for each job, in order.
    pub directives: Vec<(JobId, Directive)>,
    /// Whether and how the worker is paused.
    pub paused: Option<PauseMode>,
}

impl HeartbeatReply {
    /// Whether any job should stop.
    pub fn is_interrupted(&self) -> bool {
        self.directives.iter().any(|(_, directive)| *directive != Directive::Continue)
    }

    /// Whether a job was cancelled or suspended; a lease may also be gone because the attempt has ended.
    pub(crate) fn has_request(&self) -> bool {
        self.directives
            .iter()
            .any(|(_, directive)| matches!(directive, Directive::Cancel | Directive::Suspend))
    }
}

/// Processes heartbeats.
pub(crate) fn heartbeat(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    worker: WorkerId,
    beats: &[HeartbeatItem],
) -> Result<HeartbeatReply, WorkError> {
    caller.require(Permission::Work)?;
    check(beats)?;
    tx.worker_calls(caller, worker)?;
    let ids: Vec<JobId> = beats.iter().map(|beat| beat.job).collect();
    let found = tx.find(&ids)?;
    let mut directives = Vec::with_capacity(beats.len());
    for (beat, seq) in beats.iter().zip(found) {
        let directive = match seq {
            Some(seq) if tx.job(seq)?.is_some_and(|job| caller.can_see(&job.lane.tenant)) => {
                beat_one(tx, worker, seq, beat)?
            }
            Some(_) | None => Directive::Lost,
        };
        directives.push((beat.job, directive));
    }
    let paused = tx.config()?.worker_pause(worker, tx.now).map(|hold| hold.mode);
    Ok(HeartbeatReply { directives, paused })
}

fn check(beats: &[HeartbeatItem]) -> Result<(), FieldError> {
    if beats.len() > limits::OUTCOMES_PER_CALL_MAX {
        let problem = FieldProblem::TooLong { length: beats.len(), limit: limits::OUTCOMES_PER_CALL_MAX };
        return Err(FieldError::new("jobs", problem));
    }
    for (index, beat) in beats.iter().enumerate() {
        if let Some(progress) = &beat.progress {
            check_progress(&format!("jobs.{index}.progress"), progress)?;
        }
        if beat.logs.len() > limits::LOG_LINES_PER_CALL_MAX {
            let problem =
                FieldProblem::TooLong { length: beat.logs.len(), limit: limits::LOG_LINES_PER_CALL_MAX };
            return Err(FieldError::new(format!("jobs.{index}.logs"), problem));
        }
    }
    Ok(())
}

/// Checks that a progress report is within its limits.
pub(crate) fn check_progress(field: &str, progress: &Progress) -> Result<(), FieldError> {
    if !(0.0..=100.0).contains(&progress.percent) {
        let (value, min) = (progress.percent.to_string(), "0".into());
        let problem = FieldProblem::OutOfRange { value, min, max: "100".into() };
        return Err(FieldError::new(format!("{field}.percent"), problem));
    }
    let limit = limits::PROGRESS_MESSAGE_CHARS_MAX;
    check_text(&format!("{field}.message"), progress.message.as_deref(), limit)
}

fn beat_one(
    tx: &mut WriteTx<'_>,
    worker: WorkerId,
    seq: Seq,
    beat: &HeartbeatItem,
) -> Result<Directive, StoreError> {
    let Some(held) = tx.held_job(seq, worker, beat.fence)? else {
        return Ok(tx.job(seq)?.map_or(Directive::Lost, |job| why_lost(job, beat.fence)));
    };
    let (mut job, now) = (held.clone(), tx.now);
    // Every commit wakes other processes, which then send heartbeats: a lease that was just extended is not extended
    // again.
    let length = job.policy.timeouts.lease;
    let step = limits::LEASE_STEP.min(length / 10);
    let extended = |lease: &Lease| Some(now.plus(length)).filter(|at| *at >= lease.expires_at.plus(step));
    job.lease = job.lease.map(|lease| Lease {
        expires_at: extended(&lease).unwrap_or(lease.expires_at),
        deadline_at: beat
            .timeout
            .map_or(lease.deadline_at, |timeout| lease.deadline_at.min(now.plus(timeout))),
        ..lease
    });
    if let Some(progress) = &beat.progress {
        job.details_mut().progress = Some(progress.clone());
    }
    tx.append_logs(&mut job, &beat.logs);
    if job != held {
        tx.put(job);
    }
    Ok(Directive::Continue)
}

/// Why a worker no longer holds a job.
fn why_lost(job: &JobRecord, fence: Fence) -> Directive {
    // Compared first: a fence that was never issued may be the maximum number, which has no successor.
    let was_theirs_last = job.fence == fence || (fence < job.fence && fence.next() == job.fence);
    let timed_out = job
        .details
        .error
        .as_ref()
        .is_some_and(|error| error.category == Category::Timeout && error.attempt == job.attempt);
    match job.state {
        JobState::Suspended if was_theirs_last => Directive::Suspend,
        JobState::Cancelled if was_theirs_last => Directive::Cancel,
        _ if was_theirs_last && timed_out => Directive::Timeout,
        _ => Directive::Lost,
    }
}
