//! What time alone does to a job: one rule for delays, backoffs, lease expiry, timeouts, lifetimes and suspensions with
//! an end.

use super::{Category, Failure, JobEvent, JobRecord, JobState};
use crate::clock::{DurationText, Grace, Timestamp};

/// The first time at which a timer changes this job; engines index it.
pub fn acts_at(job: &JobRecord) -> Option<Timestamp> {
    let lifetime = job.expires_at;
    match job.state {
        JobState::Created | JobState::Pending => Some(lifetime),
        JobState::Scheduled => Some(job.start_by().map_or(lifetime, |start_by| start_by.min(lifetime))),
        JobState::Delayed | JobState::Retrying => Some(job.next_run_at().min(lifetime)),
        JobState::Running => {
            let until = job.lease.map_or(lifetime, |lease| lease.ends_at().min(lifetime));
            Some(request_ends_at(job).map_or(until, |at| at.min(until)))
        }
        JobState::Waiting => {
            let until = job.details.wait.as_ref().and_then(super::Wait::until);
            Some(until.map_or(lifetime, |until| until.min(lifetime)))
        }
        JobState::Suspended => job.details.suspension.as_ref().and_then(|suspension| suspension.expires_at),
        JobState::Completed | JobState::Failed | JobState::DeadLetter | JobState::Cancelled => None,
    }
}

/// When a requested suspension of a running job ends.
fn request_ends_at(job: &JobRecord) -> Option<Timestamp> {
    job.details.suspend_requested.as_ref().and_then(|requested| requested.expires_at)
}

/// The job with a longer lease, lifetime, timeout or start deadline, if one of them would end during a grace period. A
/// lease and a lifetime are moved to the end of the grace, so the job is not examined again before that. Timeout and
/// start deadline are extended once by the time that the store's clock skipped.
pub fn spared(job: &JobRecord, now: Timestamp, grace: &Grace) -> Option<JobRecord> {
    let mut next = job.clone();
    let until = grace.leases_until();
    if let Some(lease) = &mut next.lease
        && job.started_at.is_some_and(|at| at < grace.served_since)
        && lease.expires_at <= now
        && now < until
    {
        lease.expires_at = until;
    }
    let leap = grace.leap;
    if let (Some(lease), Some(started_at)) = (&mut next.lease, job.started_at)
        && started_at <= leap.from
        && lease.deadline_at > leap.from
        && lease.deadline_at <= now
        && lease.deadline_at <= started_at.plus(job.policy.timeouts.execution)
    {
        lease.deadline_at = lease.deadline_at.plus(leap.length());
    }
    if let (Some(start_by), Some(scheduled_at)) = (job.start_by(), job.scheduled_at)
        && scheduled_at <= leap.from
        && leap.covers(start_by)
        && start_by <= now
    {
        next.scheduled_at = Some(scheduled_at.plus(leap.length()));
    }
    let is_mortal = !job.state.is_final() && job.state != JobState::Suspended;
    if is_mortal && job.expires_at <= now && now < grace.lifetimes_from {
        next.expires_at = grace.lifetimes_from;
    }
    if let (Some(start_by), Some(start)) = (next.start_by(), job.policy.timeouts.start)
        && start_by <= now
        && now < grace.lifetimes_from
    {
        next.scheduled_at = Some(grace.lifetimes_from.minus(start));
    }
    (next != *job).then_some(next)
}

/// The timer event that is due for this job, if any; `random` selects a retry's delay within its jitter.
pub fn timer(job: &JobRecord, now: Timestamp, grace: &Grace, random: f64) -> Option<JobEvent> {
    if acts_at(job).is_none_or(|at| at > now) {
        return None;
    }
    match job.state {
        JobState::Suspended => return Some(JobEvent::Resume),
        JobState::Running => {
            // A request that is over is lifted before anything else: it no longer decides what follows the attempt.
            if request_ends_at(job).is_some_and(|at| at <= now) {
                return Some(JobEvent::Resume);
            }
            // After an interruption all three may have passed; the earliest one counts.
            if let Some(lease) = job.lease.filter(|lease| lease.ends_at() <= job.expires_at) {
                if lease.expires_at < lease.deadline_at {
                    let started_at = job.started_at.unwrap_or(now);
                    let is_crash = grace.is_crash_of_lease(started_at, lease.expires_at);
                    return Some(JobEvent::LeaseExpired { random, is_crash });
                }
                let message = format!("ran longer than {}", DurationText(job.policy.timeouts.execution));
                return Some(JobEvent::Fail { failure: Failure::new(Category::Timeout, message), random });
            }
        }
        JobState::Delayed | JobState::Retrying if job.next_run_at() < job.expires_at => {
            return Some(JobEvent::Due);
        }
        JobState::Waiting => {
            let until = job.details.wait.as_ref().and_then(super::Wait::until);
            if until.is_some_and(|until| until < job.expires_at) {
                return Some(JobEvent::Wake);
            }
        }
        JobState::Scheduled => {
            if job.start_by().is_some_and(|start_by| start_by < job.expires_at) {
                return Some(JobEvent::Refuse { failure: not_started(job) });
            }
        }
        JobState::Created | JobState::Pending | JobState::Delayed | JobState::Retrying => {}
        JobState::Completed | JobState::Failed | JobState::DeadLetter | JobState::Cancelled => return None,
    }
    Some(JobEvent::Expire)
}

fn not_started(job: &JobRecord) -> Failure {
    let within = DurationText(job.policy.timeouts.start.unwrap_or_default());
    Failure::resource("start_deadline_exceeded", format!("not started within {within} of becoming ready"))
}
