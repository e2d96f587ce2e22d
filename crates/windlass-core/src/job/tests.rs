//! Tests of the pure rules, and the jobs they are tried on. No store, no clock, no randomness: every input is written out.

mod documents;
mod failure;
mod graph;
mod groups;
mod identity;
mod lifecycle;
mod limits;
mod names;
mod priority;
mod retry;
mod saved_steps;
mod stored;
mod suspension;
mod timer;
mod trace;
mod transition;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::clock::Grace;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// When the jobs of these tests were submitted.
fn start() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

/// So many seconds later.
fn at(seconds: u64) -> Timestamp {
    start().plus(Duration::from_secs(seconds))
}

fn worker() -> WorkerId {
    WorkerId::new(7)
}

/// A job that was submitted at [`start`] with the default policy and may be claimed.
fn job() -> JobRecord {
    let lane = Lane::new(Tenant::default(), QueueName::default(), JobType::new("mail.send").unwrap());
    JobRecord {
        state: JobState::Scheduled,
        eligible_at: Some(start()),
        scheduled_at: Some(start()),
        expires_at: start().plus(LIFETIME),
        ..JobRecord::new(Seq(1), JobId::new(start(), 42), Arc::new(lane), Arc::default(), start())
    }
}

/// The same job with something changed.
fn with(mut job: JobRecord, change: impl FnOnce(&mut JobRecord)) -> JobRecord {
    change(&mut job);
    job
}

/// The same job under another retry policy.
fn under(job: JobRecord, retry: RetryPolicy) -> JobRecord {
    let policy = Policy { retry, ..Policy::default() };
    with(job, |job| job.policy = Arc::new(policy))
}

/// A job accepted but not eligible: in `state`, and never claimable so far.
fn idle(state: JobState) -> JobRecord {
    with(job(), |job| {
        job.state = state;
        job.eligible_at = None;
        job.scheduled_at = None;
    })
}

/// A job whose first attempt started at [`start`].
fn running() -> JobRecord {
    applied(&job(), &claim(), start())
}

/// Attempts without end, 10 s apart without jitter.
fn patient() -> RetryPolicy {
    RetryPolicy {
        strategy: Strategy::Constant,
        initial_delay: Duration::from_secs(10),
        jitter: 0.0,
        max_attempts: 100,
        ..RetryPolicy::standard()
    }
}

/// The fence after so many claims, suspensions and cancellations in the first generation, all without a random part.
fn fence(grown: u64) -> Fence {
    Fence((1 << Fence::COUNTER_BITS) + grown)
}

fn claim() -> JobEvent {
    JobEvent::Claim { worker: worker(), generation: 1, random: 0 }
}

/// A failure of this category.
fn fail(category: Category) -> JobEvent {
    JobEvent::Fail { failure: Failure::new(category, "it broke"), random: 0.5 }
}

fn suspension() -> Suspension {
    Suspension {
        by: "ann".into(),
        reason: Some("rest".into()),
        mode: SuspendMode::default(),
        at: start(),
        expires_at: None,
        by_pause: false,
    }
}

fn suspend(mode: SuspendMode) -> JobEvent {
    JobEvent::Suspend { suspension: Suspension { mode, ..suspension() } }
}

fn cancel() -> JobEvent {
    JobEvent::Cancel { message: "not wanted".into() }
}

/// What the event makes of the job.
fn change(job: &JobRecord, event: &JobEvent, now: Timestamp) -> Change {
    match transition(job, event, now) {
        Ok(Transition::Changed(change)) => *change,
        other => panic!("{event:?} on a {} job: {other:?}", job.state),
    }
}

/// The job after the event.
fn applied(job: &JobRecord, event: &JobEvent, now: Timestamp) -> JobRecord {
    change(job, event, now).job
}
