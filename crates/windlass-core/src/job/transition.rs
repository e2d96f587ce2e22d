//! The state machine: `transition(&JobRecord, &JobEvent, now)`. Every change of state in the system is decided here.
//! It reads no clock, uses no randomness and does no I/O.

use super::event::{AttemptOutcome, JobAction, JobEvent};
use super::stream::attempt_ended;
use super::{
    Category, ErrorCause, ErrorRecord, Failure, Fence, JobRecord, JobState, Lease, Need, SuspendMode,
    Suspension, Wait, WorkerId, cut,
};
use crate::clock::{DurationText, Timestamp};
use crate::error::InvalidTransition;
use crate::limits;

/// The effect of an event on a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The changed job.
    pub job: JobRecord,
    /// How the running attempt ended, if it did.
    pub attempt: Option<AttemptOutcome>,
}

/// The result of an allowed event.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// The job changes.
    Changed(Box<Change>),
    /// The job is already in the requested state.
    Unchanged,
}

/// The lifecycle as data: event, states in which it is allowed, states it may lead to. `docs/concepts.md` is generated
/// from it, and a test compares it with [`transition`] for every pair.
pub const LIFECYCLE: &[(JobAction, &[JobState], &[JobState])] = {
    use JobState::{
        Cancelled, Completed, Created, DeadLetter, Delayed, Failed, Pending, Retrying, Running, Scheduled,
        Suspended, Waiting,
    };
    &[
        (JobAction::Submit, &[Created], &[Pending, Delayed, Scheduled]),
        (JobAction::DependencyEnded, &[Pending], &[Delayed, Scheduled, Failed, DeadLetter, Cancelled]),
        (JobAction::DependencyEnded, &[Created, Suspended], &[Failed, DeadLetter, Cancelled]),
        (JobAction::Due, &[Delayed, Retrying], &[Scheduled]),
        (JobAction::Claim, &[Scheduled], &[Running]),
        (JobAction::Refuse, &[Scheduled], &[Failed]),
        (JobAction::Succeed, &[Running], &[Completed]),
        (JobAction::Fail, &[Running], &[Failed, Retrying, DeadLetter, Suspended]),
        (JobAction::LeaseExpired, &[Running], &[Failed, Retrying, DeadLetter, Suspended]),
        (JobAction::Release, &[Running], &[Retrying, Suspended]),
        (JobAction::Park, &[Running], &[Waiting, Suspended]),
        (JobAction::Wake, &[Waiting], &[Scheduled]),
        (
            JobAction::Suspend,
            &[Created, Pending, Delayed, Scheduled, Retrying, Waiting, Running],
            &[Suspended],
        ),
        (JobAction::Resume, &[Suspended], &[Created, Pending, Waiting, Delayed, Scheduled]),
        (
            JobAction::Cancel,
            &[Created, Pending, Delayed, Scheduled, Running, Waiting, Retrying, Suspended],
            &[Cancelled],
        ),
        (
            JobAction::Expire,
            &[Created, Pending, Delayed, Scheduled, Running, Waiting, Retrying],
            &[DeadLetter],
        ),
    ]
};

/// Decides the effect of `event` on `job` at `now`.
///
/// # Errors
/// [`InvalidTransition`] names state and action if the event is not allowed in the state; nothing changes then.
pub fn transition(
    job: &JobRecord,
    event: &JobEvent,
    now: Timestamp,
) -> Result<Transition, InvalidTransition> {
    let mut next = job.clone();
    next.updated_at = now;
    let result = match event {
        JobEvent::Submit => submit(&mut next, now),
        JobEvent::DependencyEnded { need, state } => dependency_ended(&mut next, *need, *state, now),
        JobEvent::Due => due(&mut next, now),
        JobEvent::Claim { worker, generation, random } => {
            let fence = job.fence.claimed(*generation, *random);
            claim(&mut next, *worker, fence, now)
        }
        JobEvent::ClaimAhead { worker, generation, random } => {
            let fence = job.fence.claimed(*generation, *random);
            claim_ahead(&mut next, *worker, fence, now)
        }
        // A job that has not started cannot have failed: treat it as if it had not been claimed.
        JobEvent::LeaseExpired { is_crash, .. } if job.has.claim_ahead => {
            next.has.lost_ahead |= *is_crash;
            give_back(&mut next, now)
        }
        JobEvent::Release | JobEvent::Fail { .. } if job.has.claim_ahead => give_back(&mut next, now),
        JobEvent::Refuse { failure } => refuse(&mut next, failure, now),
        JobEvent::Succeed => succeed(&mut next, now),
        JobEvent::Fail { failure, random } => {
            let is_timeout = failure.category == Category::Timeout;
            let outcome = if is_timeout { AttemptOutcome::TimedOut } else { AttemptOutcome::Failed };
            let is_crash = failure.category == Category::System;
            fail(&mut next, failure, *random, Loss { outcome, is_crash }, now)
        }
        JobEvent::LeaseExpired { random, is_crash } => {
            let message = if *is_crash {
                "no heartbeat from the worker; its lease expired"
            } else {
                "the store was unreachable, and the worker did not come back"
            };
            let failure = Failure::new(Category::System, message).with_code("lease_expired");
            fail(
                &mut next,
                &failure,
                *random,
                Loss { outcome: AttemptOutcome::Lost, is_crash: *is_crash },
                now,
            )
        }
        JobEvent::Release => release(&mut next, now),
        JobEvent::Park { wait } => park(&mut next, wait, now),
        JobEvent::Wake => wake(&mut next, now),
        JobEvent::Suspend { suspension } => suspend(&mut next, suspension, now),
        JobEvent::Resume => resume(&mut next, now),
        JobEvent::Cancel { message } => cancel(&mut next, message, now),
        JobEvent::Expire => expire(&mut next, now),
    };
    next.has.claim_ahead &= next.lease.is_some();
    match result {
        // No attempt has started, so none has ended.
        TransitionResult::Changed(_) if job.has.claim_ahead => {
            Ok(Transition::Changed(Box::new(Change { job: next, attempt: None })))
        }
        TransitionResult::Changed(attempt) => {
            attempt_ended(&mut next, attempt);
            Ok(Transition::Changed(Box::new(Change { job: next, attempt })))
        }
        TransitionResult::Unchanged => Ok(Transition::Unchanged),
        TransitionResult::Refused => Err(InvalidTransition { state: job.state, action: event.action() }),
    }
}

/// The result of one event's rule.
enum TransitionResult {
    Changed(Option<AttemptOutcome>),
    Unchanged,
    Refused,
}

fn submit(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    if next.state != JobState::Created {
        return TransitionResult::Refused;
    }
    next.details_mut().is_held = false;
    set_initial_state(next, now);
    TransitionResult::Changed(None)
}

fn due(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    if !matches!(next.state, JobState::Delayed | JobState::Retrying) {
        return TransitionResult::Refused;
    }
    // A late promotion does not cost the job its position: it has been eligible since it was due.
    let eligible_at = next.next_run_at().min(now);
    next.retry_at = None;
    schedule(next, now, eligible_at);
    TransitionResult::Changed(None)
}

fn refuse(next: &mut JobRecord, failure: &Failure, now: Timestamp) -> TransitionResult {
    if next.state != JobState::Scheduled {
        return TransitionResult::Refused;
    }
    end(next, JobState::Failed, Some(failure), now);
    TransitionResult::Changed(None)
}

fn succeed(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    if next.state != JobState::Running {
        return TransitionResult::Refused;
    }
    next.completed_by = next.lease.map(|lease| lease.worker);
    end(next, JobState::Completed, None, now);
    TransitionResult::Changed(Some(AttemptOutcome::Completed))
}

fn release(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    if next.state != JobState::Running {
        return TransitionResult::Refused;
    }
    next.lease = None;
    next.retry_at = Some(now);
    next.state = JobState::Retrying;
    suspend_if_requested(next, now);
    TransitionResult::Changed(Some(AttemptOutcome::Released))
}

fn park(next: &mut JobRecord, wait: &Wait, now: Timestamp) -> TransitionResult {
    if next.state != JobState::Running {
        return TransitionResult::Refused;
    }
    next.lease = None;
    next.details_mut().wait = Some(wait.clone());
    next.state = JobState::Waiting;
    suspend_if_requested(next, now);
    TransitionResult::Changed(Some(AttemptOutcome::Parked))
}

fn wake(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    match next.state {
        JobState::Waiting => {
            next.details_mut().wait = None;
            schedule(next, now, now);
            TransitionResult::Changed(None)
        }
        // The wake-up is recorded, so that a resume finds nothing left to wait for.
        JobState::Suspended if next.details.wait.is_some() => {
            next.details_mut().wait = None;
            TransitionResult::Changed(None)
        }
        _ => TransitionResult::Refused,
    }
}

fn cancel(next: &mut JobRecord, message: &str, now: Timestamp) -> TransitionResult {
    if next.state == JobState::Cancelled {
        return TransitionResult::Unchanged;
    }
    if next.state.is_final() {
        return TransitionResult::Refused;
    }
    let attempt = (next.state == JobState::Running).then_some(AttemptOutcome::Cancelled);
    if attempt.is_some() {
        next.fence = next.fence.next();
    }
    end(next, JobState::Cancelled, Some(&Failure::new(Category::Cancelled, message)), now);
    TransitionResult::Changed(attempt)
}

fn expire(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    if next.state.is_final() || next.state == JobState::Suspended {
        return TransitionResult::Refused;
    }
    let attempt = (next.state == JobState::Running).then_some(AttemptOutcome::Expired);
    let message =
        format!("not finished within its lifetime of {}", DurationText(next.policy.timeouts.lifetime));
    let failure = Failure::new(Category::Timeout, message).with_code("lifetime_exceeded");
    end(next, JobState::DeadLetter, Some(&failure), now);
    TransitionResult::Changed(attempt)
}

/// Sets the state from the job's data: created, parked, waiting for dependencies or for its time, or ready.
fn set_initial_state(next: &mut JobRecord, now: Timestamp) {
    if next.details.is_held {
        next.state = JobState::Created;
    } else if next.details.wait.is_some() {
        next.state = JobState::Waiting;
    } else if next.has_unmet_dependencies() {
        next.state = JobState::Pending;
    } else if next.run_at > now {
        next.state = JobState::Delayed;
    } else {
        schedule(next, now, now);
    }
}

/// Makes a job ready; it keeps the position of the first time it was ready.
fn schedule(next: &mut JobRecord, now: Timestamp, eligible_at: Timestamp) {
    next.state = JobState::Scheduled;
    next.scheduled_at = Some(now);
    next.eligible_at.get_or_insert(eligible_at);
}

fn dependency_ended(next: &mut JobRecord, need: Need, state: JobState, now: Timestamp) -> TransitionResult {
    if !matches!(next.state, JobState::Pending | JobState::Created | JobState::Suspended) {
        return TransitionResult::Refused;
    }
    match need {
        Need::After if state == JobState::Completed => next.after_unmet = next.after_unmet.saturating_sub(1),
        // The first one was enough; the others have no effect.
        Need::AfterAny if !next.any_unmet => return TransitionResult::Unchanged,
        Need::AfterAny => next.any_unmet = false,
        // A failed dependency ends its dependents in the same state.
        Need::After => {
            let category =
                if state == JobState::Cancelled { Category::Cancelled } else { Category::Permanent };
            let message = format!("a job it depends on ended {state}");
            end(next, state, Some(&Failure::new(category, message).with_code("dependency_failed")), now);
            return TransitionResult::Changed(None);
        }
    }
    if next.state == JobState::Pending {
        set_initial_state(next, now);
    }
    TransitionResult::Changed(None)
}

fn claim(next: &mut JobRecord, worker: WorkerId, fence: Fence, now: Timestamp) -> TransitionResult {
    let result = claim_ahead(next, worker, fence, now);
    if matches!(result, TransitionResult::Changed(_)) {
        start(next, now);
    }
    result
}

/// Starts a job that was claimed ahead: from here on its attempt counts. Does nothing if it has started.
pub fn start(next: &mut JobRecord, now: Timestamp) {
    if next.has.claim_ahead {
        next.has.claim_ahead = false;
        next.attempt += 1;
        next.started_at = Some(now);
        next.first_started_at.get_or_insert(now);
    }
}

fn give_back(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    next.lease = None;
    schedule(next, now, now);
    suspend_if_requested(next, now);
    TransitionResult::Changed(None)
}

fn claim_ahead(next: &mut JobRecord, worker: WorkerId, fence: Fence, now: Timestamp) -> TransitionResult {
    if next.state != JobState::Scheduled {
        return TransitionResult::Refused;
    }
    next.state = JobState::Running;
    next.has.claim_ahead = true;
    next.fence = fence;
    next.lease = Some(Lease {
        worker,
        expires_at: now.plus(next.policy.timeouts.lease),
        deadline_at: now.plus(next.policy.timeouts.execution),
    });
    if next.details.progress.is_some() {
        next.details_mut().progress = None;
    }
    TransitionResult::Changed(None)
}

/// How an attempt ended without success, and whether it counts as a crash.
#[derive(Clone, Copy)]
struct Loss {
    outcome: AttemptOutcome,
    is_crash: bool,
}

fn fail(
    next: &mut JobRecord,
    failure: &Failure,
    random: f64,
    loss: Loss,
    now: Timestamp,
) -> TransitionResult {
    if next.state != JobState::Running {
        return TransitionResult::Refused;
    }
    let policy = next.policy.clone();
    let is_retryable = policy.retry.retries(failure.category);
    let Loss { outcome, is_crash } = loss;
    next.failures += u32::from(is_retryable);
    next.crashes += u32::from(is_crash);
    if is_crash && next.crashes >= policy.crashes_max {
        let message = format!("{} crashes: the job is poison ({})", next.crashes, failure.message);
        end(
            next,
            JobState::DeadLetter,
            Some(&Failure::new(Category::System, message).with_code("poison")),
            now,
        );
    } else if !is_retryable {
        end(next, JobState::Failed, Some(failure), now);
    } else if next.failures >= policy.retry.max_attempts {
        end(next, JobState::DeadLetter, Some(failure), now);
    } else {
        let fraction = policy.retry.fraction(next.id, next.attempt, random);
        let delay = failure.retry_after.unwrap_or_else(|| policy.retry.delay(next.failures, fraction));
        let error = record(next, failure, now, true);
        next.lease = None;
        next.retry_at = Some(now.plus(delay).min(next.expires_at));
        next.state = JobState::Retrying;
        next.details_mut().error = Some(error);
        suspend_if_requested(next, now);
    }
    TransitionResult::Changed(Some(outcome))
}

fn record(job: &JobRecord, failure: &Failure, now: Timestamp, retryable: bool) -> ErrorRecord {
    // A failure's fields are public, so they may exceed the limits of its constructors.
    let (mut message, mut code) = (failure.message.clone(), failure.code.clone());
    cut(&mut message, limits::ERROR_MESSAGE_BYTES_MAX);
    if let Some(code) = &mut code {
        cut(code, limits::ERROR_CODE_CHARS_MAX);
    }
    let cause = failure.cause.iter().take(limits::ERROR_CAUSES_MAX).cloned().map(ErrorCause::bounded);
    ErrorRecord {
        category: failure.category,
        code,
        message,
        at: now,
        attempt: job.attempt,
        retry_after: failure.retry_after,
        retryable,
        cause: cause.collect(),
    }
}

/// Makes a job final; a success clears its error. The lease is removed, so the old fence is rejected.
fn end(next: &mut JobRecord, state: JobState, failure: Option<&Failure>, now: Timestamp) {
    let error = failure.map(|failure| record(next, failure, now, false));
    next.lease = None;
    next.state = state;
    next.completed_at = Some(now);
    next.retry_at = None;
    let details = &next.details;
    let has_leftovers = details.error.is_some()
        || details.wait.is_some()
        || details.suspension.is_some()
        || details.suspend_requested.is_some()
        || details.is_held;
    // Most jobs succeed without any of these; their shared empty details stay shared.
    if error.is_some() || has_leftovers {
        let details = next.details_mut();
        details.error = error;
        details.wait = None;
        details.suspension = None;
        details.suspend_requested = None;
        details.is_held = false;
    }
}

fn suspend(next: &mut JobRecord, how: &Suspension, now: Timestamp) -> TransitionResult {
    match (next.state, how.mode) {
        (JobState::Suspended, _) => TransitionResult::Unchanged,
        // In any mode: there is nothing left to suspend.
        (state, _) if state.is_final() => TransitionResult::Refused,
        (JobState::Running, SuspendMode::IdleOnly) => TransitionResult::Refused,
        (JobState::Running, SuspendMode::Graceful)
            if next.details.suspend_requested.as_ref().is_some_and(|asked| !asked.is_over(now)) =>
        {
            TransitionResult::Unchanged
        }
        (JobState::Running, SuspendMode::Graceful) => {
            next.details_mut().suspend_requested = Some(how.clone());
            TransitionResult::Changed(None)
        }
        (JobState::Running, SuspendMode::Aggressive) => {
            next.fence = next.fence.next();
            next.lease = None;
            hold(next, how.clone(), now);
            TransitionResult::Changed(Some(AttemptOutcome::Suspended))
        }
        (_, SuspendMode::IdleOnly | SuspendMode::Graceful | SuspendMode::Aggressive) => {
            hold(next, how.clone(), now);
            TransitionResult::Changed(None)
        }
    }
}

fn hold(next: &mut JobRecord, how: Suspension, now: Timestamp) {
    next.state = JobState::Suspended;
    let details = next.details_mut();
    details.suspended_at = Some(now);
    details.suspended_by = Some(how.by.clone());
    details.suspend_requested = None;
    details.suspension = Some(how);
}

fn suspend_if_requested(next: &mut JobRecord, now: Timestamp) {
    let Some(how) = next.details.suspend_requested.clone() else { return };
    // A pause that would end at once is not started.
    if how.is_over(now) {
        next.details_mut().suspend_requested = None;
        return;
    }
    hold(next, how, now);
}

fn resume(next: &mut JobRecord, now: Timestamp) -> TransitionResult {
    if next.state == JobState::Running && next.details.suspend_requested.is_some() {
        next.details_mut().suspend_requested = None;
        return TransitionResult::Changed(None);
    }
    if next.state != JobState::Suspended {
        return TransitionResult::Unchanged;
    }
    let suspended_at = next.details.suspended_at.unwrap_or(now);
    // The lifetime did not advance during the suspension.
    next.expires_at = next.expires_at.plus(now.since(suspended_at));
    // The backoff is dropped; the submitter's own delay is not.
    next.retry_at = None;
    let details = next.details_mut();
    details.suspension = None;
    details.resumed_at = Some(now);
    set_initial_state(next, now);
    TransitionResult::Changed(None)
}
