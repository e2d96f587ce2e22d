//! What the audit trail says about a race. It contains all events of all jobs in the order of their commits, so it
//! alone shows which worker ran when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use windlass::audit::{AuditEvent, Record};
use windlass::job::{JobId, JobRecord, JobState};
use windlass::store::engine::RecordQuery;

use super::super::invariants::step_of;
use super::super::snapshot;
use super::{Arena, MAIL_PER_KEY_MAX, MAIL_RUNNING_MAX};

/// Replays the audit trail.
struct Replay {
    jobs: BTreeMap<JobId, JobRecord>,
    states: BTreeMap<JobId, JobState>,
    running: BTreeSet<JobId>,
    paused: BTreeSet<String>,
}

pub(super) async fn check(arena: &Arena, mut live: Option<Receiver<Arc<Record>>>) {
    let store = &arena.fixture.store;
    let jobs = snapshot::jobs(store).await.expect("the store answers");
    let jobs = jobs.into_iter().map(|found| (found.job.id, found.job)).collect();
    let (states, running, paused) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let mut replay = Replay { jobs, states, running, paused };
    let mut after = 0;
    loop {
        let query = RecordQuery { after, limit: 1_000, ..RecordQuery::default() };
        let page = store.audit(&arena.fixture.me, query).await.expect("the store answers");
        let Some(last) = page.last() else { break };
        after = last.seq;
        for record in page {
            // Live readers receive the same events in the same order; there are too few events for them to fall behind.
            if let Some(live) = &mut live {
                assert_eq!(live.try_recv().as_deref(), Ok(&record), "live events are the stored events");
            }
            replay.take(&record);
        }
    }
    let is_left = live.is_some_and(|mut live| live.try_recv().is_ok());
    assert!(!is_left, "no live event is missing from the store");
    for (id, job) in &replay.jobs {
        assert_eq!(
            replay.states.get(id),
            Some(&job.state),
            "the audit trail of job {id} ends in another state"
        );
    }
    let claims = arena.replies.lock().expect("no thread panicked").claims.len();
    let attempts: u32 = replay.jobs.values().map(|job| job.attempt).sum();
    assert_eq!(claims, usize::try_from(attempts).expect("it is small"), "every start was handed to a worker");
}

impl Replay {
    fn take(&mut self, record: &Record) {
        match record.event {
            AuditEvent::QueuePaused | AuditEvent::GateClosed => drop(self.paused.insert(scope_of(record))),
            AuditEvent::QueueResumed | AuditEvent::GateOpened => drop(self.paused.remove(&scope_of(record))),
            _ => {}
        }
        let (Some(id), Some((from, to))) = (record.job, step_of(record)) else { return };
        if let Some(known) = self.states.insert(id, to) {
            assert_eq!(known, from, "record {} of job {id}: {}", record.seq, record.event);
        }
        match to {
            JobState::Running => drop(self.running.insert(id)),
            _ => drop(self.running.remove(&id)),
        }
        if record.event == AuditEvent::Claimed {
            self.check_claim(record.seq, id);
        }
    }

    /// Model: pause-reason-and-expiry, concurrency-limits. A claim starts nothing that is paused and nothing over a limit.
    fn check_claim(&self, seq: u64, id: JobId) {
        let job = &self.jobs[&id];
        let queue = job.lane.queue.as_str();
        let is_paused = self.paused.contains("gate") || self.paused.contains(queue);
        assert!(
            !is_paused,
            "record {seq}: job {id} of {queue} was claimed while {:?} is paused",
            self.paused
        );
        let running = |fits: &dyn Fn(&JobRecord) -> bool| {
            self.running.iter().filter(|id| fits(&self.jobs[id])).count() as u64
        };
        if queue == "mail" {
            let found = running(&|other| other.lane.queue.as_str() == "mail");
            assert!(found <= MAIL_RUNNING_MAX, "record {seq}: {found} jobs run in queue mail");
        }
        if job.concurrency.is_some() {
            let limit = if queue == "mail" { MAIL_PER_KEY_MAX } else { 1 };
            let found = running(&|other| other.concurrency == job.concurrency);
            assert!(found <= limit, "record {seq}: {found} jobs of {queue} run with one key, not {limit}");
        }
    }
}

/// The queue that a pause is about, or `gate`.
fn scope_of(record: &Record) -> String {
    let context: Value = serde_json::from_str(&record.context).expect("a context is JSON");
    let queue = context["scope"]["queue"]["queue"].as_str();
    queue.unwrap_or("gate").to_owned()
}
