//! Invariants of a single job: its record, its attempts and its timers are consistent.

use std::time::Duration;

use super::repair::Defect;
use super::{VerifyCounts, VerifyReport};
use crate::clock::Timestamp;
use crate::job::{AttemptOutcome, Category, JobRecord, JobState, acts_at};
use crate::limits;

/// How late maintenance may be before an overdue job counts as broken.
const SWEEP: Duration = Duration::from_secs(60);

/// The code of the check that every submission is whole.
const PAYLOADS: &str = "payloads";

type Check = fn(&VerifyCounts, &Served) -> Option<String>;

/// What the checks know of the store.
pub(super) struct Served {
    /// The time of the last commit: while no process serves the store, nothing can be moved.
    pub(super) until: Timestamp,
    /// Its generation.
    pub(super) generation: u64,
}

const CHECKS: &[(&str, &str, Check)] = &[
    (PAYLOADS, "every job still has what was submitted, byte for byte", whole),
    ("final_states", "a final job has ended, and only a final one has", finality),
    ("leases", "a job has a lease exactly while it runs", lease),
    ("generations", "no lease is of a generation of the store that has not begun", begun),
    ("single_completion", "at most one attempt completed, and only of a completed job", single_completion),
    ("attempts", "attempts are numbered without gaps and within their budget", attempts),
    ("times", "attempts follow one another, and the times of a job are in order", times),
    ("suspensions", "a suspended job names who suspended it, and is not leased", suspension),
    ("not_early", "no attempt started before the job's time", not_early),
    ("backoffs", "a backoff is within its policy's bounds", backoff),
    ("dependencies_first", "no job runs before its dependencies are met", no_early_run),
    ("waits", "a job that waits names what it waits for", waits),
    ("checkpoints", "checkpoints are as many as the job says", checkpoints),
    ("results", "a job still has the result that it was completed with", result),
    ("lifetimes", "no live job is older than its lifetime", lifetime),
];

pub(super) fn reports() -> Vec<VerifyReport> {
    CHECKS.iter().map(|(code, promise, _)| VerifyReport::new(code, promise)).collect()
}

pub(super) fn check(reports: &mut [VerifyReport], facts: &VerifyCounts, served: &Served) {
    for (report, (_, _, check)) in reports.iter_mut().zip(CHECKS) {
        // The mark of a unique key follows from the submission.
        let defect = (report.code == PAYLOADS).then_some(Defect::Marks(facts.job.seq));
        let finding = check(facts, served);
        report.count_defect(finding.map(|finding| (format!("job {}: {finding}", facts.job.id), defect)));
    }
}

/// Reports a job whose submission is damaged; nothing else of it is checked here.
pub(super) fn damaged(reports: &mut [VerifyReport], job: &JobRecord, damage: &str) {
    for report in reports.iter_mut().filter(|report| report.code == PAYLOADS) {
        report.count_finding(Some(format!("job {}: {damage}", job.id)));
    }
}

/// The engine verifies every row's checksum as it reads it; this checks what no checksum covers.
fn whole(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let missing = facts.job.has.unique_key != facts.spec.unique_key.is_some();
    missing.then(|| "its unique key and its record disagree".to_owned())
}

fn finality(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let JobRecord { state, completed_at, .. } = &facts.job;
    (state.is_final() != completed_at.is_some()).then(|| format!("is {state} with end {completed_at:?}"))
}

fn lease(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let JobRecord { state, lease, .. } = &facts.job;
    ((*state == JobState::Running) != lease.is_some()).then(|| format!("is {state} with lease {lease:?}"))
}

/// Its fence would be newer than those of later claims.
fn begun(facts: &VerifyCounts, served: &Served) -> Option<String> {
    let generation = facts.job.fence.generation();
    (generation > served.generation)
        .then(|| format!("has a fence of generation {generation}, the store is in {}", served.generation))
}

fn single_completion(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let completed =
        facts.attempts.iter().filter(|(_, attempt)| attempt.outcome == AttemptOutcome::Completed).count();
    let expected = usize::from(facts.job.state == JobState::Completed);
    (completed != expected).then(|| format!("is {} with {completed} completed attempts", facts.job.state))
}

fn attempts(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let job = &facts.job;
    let has_begun = job.lease.is_some() && !job.has.claim_ahead;
    let ended = job.attempt.saturating_sub(u32::from(has_begun));
    let numbers: Vec<u32> = facts.attempts.iter().map(|(number, _)| *number).collect();
    if numbers != (1..=ended).collect::<Vec<u32>>() {
        return Some(format!("has started {} times but keeps attempts {numbers:?}", job.attempt));
    }
    let is_started_without_fence = u64::from(job.attempt) > job.fence.0;
    if is_started_without_fence || job.fence.0 > limits::FENCE_MAX {
        return Some(format!("has started {} times with fence {}", job.attempt, job.fence.0));
    }
    let budget = job.policy.retry.max_attempts;
    (job.failures > budget).then(|| format!("has failed {} times of {budget}", job.failures))
}

/// Store time never goes back, and a job is leased to one worker at a time.
fn times(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let job = &facts.job;
    for (number, attempt) in &facts.attempts {
        if attempt.ended_at < attempt.started_at {
            return Some(format!("attempt {number} ended {} before it started", attempt.ended_at));
        }
    }
    let overlapping = facts.attempts.windows(2).find(|pair| pair[1].1.started_at < pair[0].1.ended_at);
    if let Some([(first, earlier), (second, later)]) = overlapping {
        let (started, ended) = (later.started_at, earlier.ended_at);
        return Some(format!("attempt {second} started {started}, attempt {first} ended {ended}"));
    }
    let ended = job.completed_at.unwrap_or(job.updated_at);
    let is_ordered = job.created_at <= job.updated_at && job.created_at <= ended;
    (!is_ordered)
        .then(|| format!("was submitted {}, changed {} and ended {ended}", job.created_at, job.updated_at))
}

fn suspension(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let JobRecord { state, details, .. } = &facts.job;
    let is_suspended = *state == JobState::Suspended;
    (is_suspended != details.suspension.is_some())
        .then(|| format!("is {state} with {:?}", details.suspension))
}

fn not_early(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let early = facts.attempts.iter().find(|(_, attempt)| attempt.started_at < facts.job.run_at);
    early.map(|(number, attempt)| {
        format!("attempt {number} started {} before {}", attempt.started_at, facts.job.run_at)
    })
}

fn backoff(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let job = &facts.job;
    let (JobState::Retrying, Some(retry_at), Some(error)) = (job.state, job.retry_at, &job.details.error)
    else {
        return None;
    };
    let was_released =
        facts.attempts.last().is_some_and(|(_, attempt)| attempt.outcome == AttemptOutcome::Released);
    if was_released || error.retry_after.is_some() || error.category == Category::Cancelled {
        return None;
    }
    let policy = &job.policy.retry;
    let (low, high) = (policy.delay(job.failures, 0.0), policy.delay(job.failures, 1.0));
    let delay = retry_at.since(error.at);
    let slack = Duration::from_millis(1);
    let is_inside = (low.saturating_sub(slack)..=high + slack).contains(&delay) || retry_at == job.expires_at;
    (!is_inside).then(|| format!("waits {delay:?}, its policy says {low:?} to {high:?}"))
}

fn no_early_run(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let job = &facts.job;
    let has_run = matches!(
        job.state,
        JobState::Scheduled | JobState::Running | JobState::Completed | JobState::Waiting
    );
    (has_run && job.has_unmet_dependencies()).then(|| format!("is {} with open dependencies", job.state))
}

/// Nothing would move a job that waits for nothing.
fn waits(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let JobRecord { state, details, retry_at, .. } = &facts.job;
    match (state, &details.wait) {
        (JobState::Waiting, None) => Some("is waiting, and not for anything".to_owned()),
        (JobState::Waiting | JobState::Suspended, Some(_)) => None,
        (_, Some(wait)) => Some(format!("is {state}, and waits for {wait:?}")),
        (JobState::Retrying, None) if retry_at.is_none() => {
            Some("is retrying, and its backoff has no end".to_owned())
        }
        (_, None) => None,
    }
}

fn checkpoints(facts: &VerifyCounts, _: &Served) -> Option<String> {
    let details = &facts.job.details;
    let (kept, said) = (facts.checkpoints, (details.checkpoints, details.checkpoint_bytes));
    let is_over = said.0 > limits::CHECKPOINTS_MAX as u64 || said.1 > limits::CHECKPOINTS_BYTES_MAX as u64;
    (kept != said || is_over).then(|| format!("says {said:?} checkpoints and bytes, keeps {kept:?}"))
}

fn result(facts: &VerifyCounts, _: &Served) -> Option<String> {
    facts.has_lost_result.then(|| "has lost its result".to_owned())
}

fn lifetime(facts: &VerifyCounts, served: &Served) -> Option<String> {
    let late = acts_at(&facts.job).filter(|at| at.plus(SWEEP) < served.until)?;
    Some(format!("should have been moved at {late}; does maintenance run?"))
}
