//! How far walks reach: a walk that never gets anywhere interesting passes forever, so what must have happened at least
//! once is counted.

use std::collections::{BTreeMap, BTreeSet};

use windlass::audit::AuditEvent;
use windlass::error::{ActionError, SubmitError, WorkError};
use windlass::job::JobState;
use windlass::store::{Finish, Snapshot};

use super::operation::Answer;

/// What happened so far.
#[derive(Debug, Default)]
pub(super) struct Reach {
    answers: BTreeMap<&'static str, usize>,
    states: BTreeSet<JobState>,
    reasons: BTreeSet<&'static str>,
    events: BTreeSet<AuditEvent>,
}

/// Answers without which a set of walks shows little.
const ANSWERS: [&str; 26] = [
    "submitted",
    "duplicate",
    "payload differs",
    "duplicate of a deleted job",
    "unique key taken",
    "too deep",
    "invalid submission",
    "denied",
    "acted",
    "found as asked",
    "act refused",
    "job not found",
    "redriven",
    "deleted",
    "deletion refused",
    "claimed",
    "worker paused",
    "no such worker",
    "finish applied",
    "finish stale",
    "finish rejected",
    "noted",
    "stale note",
    "spawned",
    "spawned before",
    "bulk changed",
];

impl Reach {
    pub(super) fn answered(&mut self, answer: &Answer) {
        for name in names(answer) {
            *self.answers.entry(name).or_default() += 1;
        }
    }

    pub(super) fn saw(&mut self, jobs: &[Snapshot]) {
        self.states.extend(jobs.iter().map(|found| found.job.state));
        self.reasons.extend(jobs.iter().filter_map(|found| found.why.as_ref()).map(|why| why.code));
    }

    pub(super) fn recorded(&mut self, event: AuditEvent) {
        self.events.insert(event);
    }

    pub(super) fn merge(&mut self, other: &Reach) {
        for (name, count) in &other.answers {
            *self.answers.entry(name).or_default() += count;
        }
        self.states.extend(&other.states);
        self.reasons.extend(&other.reasons);
        self.events.extend(&other.events);
    }

    /// Fails if the walks did not get everywhere.
    pub(super) fn assert_everywhere(&self) {
        let answers: Vec<_> = ANSWERS.iter().filter(|name| !self.answers.contains_key(*name)).collect();
        let states: Vec<_> = JobState::ALL.iter().filter(|state| !self.states.contains(state)).collect();
        let walked = AuditEvent::ALL.iter().filter(|event| !is_beyond(**event));
        let events: Vec<_> = walked.filter(|event| !self.events.contains(event)).collect();
        let is_everywhere = answers.is_empty() && states.is_empty() && events.is_empty();
        assert!(is_everywhere, "never seen: {answers:?} {states:?} {events:?}, but {self:?}");
    }
}

/// Whether no step of a walk can bring it about: keys, schedules, alerts and the store's retention are not
/// part of a job's life, and tickets are off.
fn is_beyond(event: AuditEvent) -> bool {
    let name = event.as_str();
    name.starts_with("key.")
        || name.starts_with("schedule.")
        || name.starts_with("alert.")
        || name.starts_with("clock.")
        || name.starts_with("store.")
        || name.ends_with(".refused")
}

/// What an answer shows.
fn names(answer: &Answer) -> Vec<&'static str> {
    match answer {
        Answer::Submitted(Ok(receipts)) => receipts
            .iter()
            .map(|receipt| match (receipt.is_duplicate, receipt.payload_differs) {
                _ if receipt.is_deleted => "duplicate of a deleted job",
                (false, _) => "submitted",
                (true, false) => "duplicate",
                (true, true) => "payload differs",
            })
            .collect(),
        Answer::Submitted(Err(error)) => vec![match error {
            SubmitError::UniqueKeyTaken { .. } => "unique key taken",
            SubmitError::TooDeep { .. } => "too deep",
            SubmitError::Forbidden(_) => "denied",
            _ => "invalid submission",
        }],
        Answer::Acted(Ok(acted)) => vec![if acted.is_changed { "acted" } else { "found as asked" }],
        Answer::Acted(Err(ActionError::Refused(_))) => vec!["act refused"],
        Answer::Acted(Err(ActionError::NotFound(_))) => vec!["job not found"],
        Answer::Redriven(Ok(_)) => vec!["redriven"],
        Answer::Deleted(Ok(())) => vec!["deleted"],
        Answer::Deleted(Err(ActionError::Needed { .. })) => vec!["deletion refused"],
        Answer::Claimed(_, Ok(claimed)) if claimed.is_paused => vec!["worker paused"],
        Answer::Claimed(_, Ok(claimed)) => vec!["claimed"; claimed.jobs.len()],
        Answer::Claimed(_, Err(WorkError::NoSuchWorker(_))) => vec!["no such worker"],
        Answer::Finished(Ok(ends)) => ends
            .iter()
            .map(|end| match end {
                Finish::Applied(_) => "finish applied",
                Finish::Stale => "finish stale",
                Finish::Rejected(_) => "finish rejected",
                Finish::Refused(_) => "follow-up refused",
            })
            .collect(),
        Answer::Noted(Ok(())) => vec!["noted"],
        Answer::Noted(Err(WorkError::Stale(_))) => vec!["stale note"],
        Answer::Spawned(Ok(spawned)) => vec![if spawned.is_known { "spawned before" } else { "spawned" }],
        Answer::Bulk(Ok(bulk)) if bulk.changed > 0 => vec!["bulk changed"],
        _ => Vec::new(),
    }
}
