//! What time alone does to a job: the one rule behind promote, reap, timeout, lifetime and self-lifting pauses.

use super::{Category, Event, Failure, Job, State};
use crate::clock::Timestamp;

/// The first moment at which time alone changes this job; engines keep an index on it.
pub fn acts_at(job: &Job) -> Option<Timestamp> {
    let lifetime = job.expires_at;
    match job.state {
        State::Created | State::Pending | State::Scheduled => Some(lifetime),
        State::Delayed | State::Retrying => Some(job.next_run_at().min(lifetime)),
        State::Running => Some(job.lease.map_or(lifetime, |lease| lease.ends_at().min(lifetime))),
        State::Waiting => {
            let until = job.details.wait.as_ref().and_then(super::Wait::until);
            Some(until.map_or(lifetime, |until| until.min(lifetime)))
        }
        State::Suspended => job.details.suspension.as_ref().and_then(|suspension| suspension.expires_at),
        State::Completed | State::Failed | State::DeadLetter | State::Cancelled => None,
    }
}

/// The event that time brings to this job now, if any; `random` moves a retry's delay within its jitter.
pub fn timer(job: &Job, now: Timestamp, random: f64) -> Option<Event> {
    if acts_at(job).is_none_or(|at| at > now) {
        return None;
    }
    match job.state {
        State::Suspended => return Some(Event::Resume),
        State::Running => {
            // After a standstill all three may have passed: what came first is what happened.
            if let Some(lease) = job.lease.filter(|lease| lease.ends_at() <= job.expires_at) {
                if lease.expires_at < lease.deadline_at {
                    return Some(Event::LeaseExpired { random });
                }
                let message = format!("ran longer than {:?}", job.policy.timeouts.execution);
                return Some(Event::Fail { failure: Failure::new(Category::Timeout, message), random });
            }
        }
        State::Delayed | State::Retrying if job.next_run_at() < job.expires_at => return Some(Event::Due),
        State::Waiting => {
            let until = job.details.wait.as_ref().and_then(super::Wait::until);
            if until.is_some_and(|until| until < job.expires_at) {
                return Some(Event::Wake);
            }
        }
        State::Created | State::Pending | State::Scheduled | State::Delayed | State::Retrying => {}
        State::Completed | State::Failed | State::DeadLetter | State::Cancelled => return None,
    }
    Some(Event::Expire)
}
