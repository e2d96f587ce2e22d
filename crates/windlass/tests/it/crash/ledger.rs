//! What was acknowledged, as the children said it, and the comparison with what is stored. It does not know what was
//! under way: such work may be there or not, but whole.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use windlass::clock::ManualClock;
use windlass::job::{AttemptOutcome, JobId, JobRecord, JobState, QueueName};
use windlass::store::caller::Caller;
use windlass::store::{
    ClaimRequest, Filter, Finish, ListRequest, NewWorker, Order, Outcome, Report, Snapshot, Store,
};

use super::load::{payload, result, tag_of};

/// Something that the store acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ack {
    Submitted { id: JobId, tag: String },
    Keyed { id: JobId, key: String },
    Claimed { id: JobId, fence: u64 },
    Noted { id: JobId, step: String },
    Finished { id: JobId, fence: u64, attempt: u32, outcome: String },
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ack::Submitted { id, tag } => write!(f, "submitted {id} {tag}"),
            Ack::Keyed { id, key } => write!(f, "keyed {id} {key}"),
            Ack::Claimed { id, fence } => write!(f, "claimed {id} {fence}"),
            Ack::Noted { id, step } => write!(f, "noted {id} {step}"),
            Ack::Finished { id, fence, attempt, outcome } => {
                write!(f, "finished {id} {fence} {attempt} {outcome}")
            }
        }
    }
}

impl Ack {
    /// None if the line says something else.
    pub(super) fn parse(line: &str) -> Option<Ack> {
        let mut words = line.split(' ');
        let verb = words.next()?;
        let id = words.next()?.parse().ok()?;
        let mut word = || words.next().map(str::to_owned);
        Some(match verb {
            "submitted" => Ack::Submitted { id, tag: word()? },
            "keyed" => Ack::Keyed { id, key: word()? },
            "claimed" => Ack::Claimed { id, fence: word()?.parse().ok()? },
            "noted" => Ack::Noted { id, step: word()? },
            "finished" => {
                let (fence, attempt) = (word()?.parse().ok()?, word()?.parse().ok()?);
                Ack::Finished { id, fence, attempt, outcome: word()? }
            }
            _ => return None,
        })
    }
}

/// Everything that was acknowledged.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) acks: Vec<Ack>,
    keys: HashMap<String, JobId>,
    fences: HashMap<JobId, BTreeSet<u64>>,
    finished: HashSet<(JobId, u64)>,
    completed: HashSet<JobId>,
}

impl Ledger {
    /// Takes down what was said; what is said twice and must not be ends the test.
    pub(super) fn take(&mut self, lines: &[String]) {
        for ack in lines.iter().filter_map(|line| Ack::parse(line)) {
            match &ack {
                Ack::Submitted { .. } | Ack::Noted { .. } => {}
                Ack::Keyed { id, key } => {
                    let first = *self.keys.entry(key.clone()).or_insert(*id);
                    assert_eq!(first, *id, "the key {key} belongs to two jobs");
                }
                Ack::Claimed { id, fence } => {
                    let is_new = self.fences.entry(*id).or_default().insert(*fence);
                    assert!(is_new, "job {id} was handed out twice with fence {fence}");
                }
                Ack::Finished { id, fence, outcome, .. } => {
                    assert!(
                        self.finished.insert((*id, *fence)),
                        "job {id} was finished twice with fence {fence}"
                    );
                    let is_new = outcome != "completed" || self.completed.insert(*id);
                    assert!(is_new, "job {id} was completed twice");
                }
            }
            self.acks.push(ack);
        }
    }

    /// How many of each kind.
    pub(super) fn counts(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for ack in &self.acks {
            *counts.entry(ack.to_string().split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        counts.iter().map(|(verb, count)| format!("{count} {verb}")).collect::<Vec<_>>().join(", ")
    }

    /// The acknowledgements from this one on are all in the store.
    pub(super) async fn check(&self, store: &Store, from: usize) {
        for ack in &self.acks[from..] {
            self.check_one(store, ack).await;
        }
    }

    /// This acknowledgement is in the store.
    pub(super) async fn check_one(&self, store: &Store, ack: &Ack) {
        let me = Caller::local();
        let (Ack::Submitted { id, .. }
        | Ack::Keyed { id, .. }
        | Ack::Claimed { id, .. }
        | Ack::Noted { id, .. }
        | Ack::Finished { id, .. }) = *ack;
        let found = store.get(&me, id).await.unwrap_or_else(|error| panic!("{ack}: {error}"));
        let Snapshot { job, spec, .. } = found.unwrap_or_else(|| panic!("lost: {ack}"));
        match ack {
            Ack::Submitted { tag, .. } => assert_eq!(*spec.payload.bytes, *payload(tag).as_bytes(), "{ack}"),
            Ack::Keyed { key, .. } => assert_eq!(spec.idempotency_key.as_ref(), Some(key), "{ack}"),
            Ack::Claimed { fence, .. } => assert!(job.fence.0 >= *fence, "{ack}, found {:?}", job.fence),
            Ack::Noted { step, .. } => {
                let checkpoints = store.checkpoints(&me, id).await.unwrap().unwrap();
                let found = checkpoints.iter().find(|checkpoint| checkpoint.step == *step);
                assert_eq!(found.map(|found| &*found.value), Some(result(&job).as_bytes()), "{ack}");
            }
            Ack::Finished { attempt, outcome, .. } => check_finish(store, &job, ack, *attempt, outcome).await,
        }
    }
}

async fn check_finish(store: &Store, job: &JobRecord, ack: &Ack, attempt: u32, outcome: &str) {
    let me = Caller::local();
    let attempts = store.attempts(&me, job.id).await.unwrap().unwrap();
    let kept = attempts.iter().find(|kept| kept.id.number == attempt).and_then(|kept| kept.record.as_ref());
    let expected = match outcome {
        "completed" => AttemptOutcome::Completed,
        "failed" => AttemptOutcome::Failed,
        "parked" => AttemptOutcome::Parked,
        "released" => AttemptOutcome::Released,
        other => panic!("no such outcome: {other}"),
    };
    assert_eq!(kept.map(|record| record.outcome), Some(expected), "{ack}");
    if expected == AttemptOutcome::Completed {
        assert_eq!(job.state, JobState::Completed, "{ack}");
        let stored = store.result(&me, job.id).await.unwrap().and_then(|result| result.0);
        assert_eq!(stored.as_deref(), Some(result(job).as_bytes()), "{ack}");
    }
}

/// All jobs, in the order of submission.
pub(super) async fn all_jobs(store: &Store, filter: Filter) -> Vec<Snapshot> {
    let mut request = ListRequest { filter, order: Order::Oldest, cursor: None, limit: 500 };
    let mut jobs = Vec::new();
    loop {
        let page = store.list(&Caller::local(), request.clone()).await.expect("jobs can be listed");
        jobs.extend(page.jobs);
        match page.next {
            Some(next) => request.cursor = Some(next),
            None => return jobs,
        }
    }
}

/// No tag was stored twice, and no batch or group in part.
pub(super) fn check_wholeness(jobs: &[Snapshot]) {
    let mut parts: BTreeMap<String, usize> = BTreeMap::new();
    let mut tags = HashSet::new();
    for job in jobs {
        let tag = tag_of(&job.spec.payload.bytes);
        if let Some((whole, part)) = tag.rsplit_once('.')
            && let Some(kind @ ('b' | 'c')) = part.chars().next()
        {
            *parts.entry(format!("{whole}.{kind}")).or_default() += 1;
        }
        assert!(tags.insert(tag.clone()), "{tag} is stored twice");
    }
    for (whole, count) in parts {
        let expected = if whole.ends_with('b') { 3 } else { 2 };
        assert_eq!(count, expected, "{whole} is stored in part");
    }
}

/// Works until every job is final; says how many there are.
pub(super) async fn drain(store: &Store, clock: &ManualClock) -> usize {
    let me = Caller::local();
    let queues = vec![QueueName::new("load").unwrap()];
    for _ in 0..200 {
        clock.advance(Duration::from_secs(600));
        while store.tick().await.unwrap().has_more {}
        // Registered again in each round: within ten minutes a worker is removed.
        let worker = store
            .register(&me, NewWorker { queues: queues.clone(), ..NewWorker::default() })
            .await
            .unwrap()
            .id;
        loop {
            let claimed =
                store.claim(&me, &ClaimRequest::new(worker, 500), Duration::ZERO).await.unwrap().jobs;
            if claimed.is_empty() {
                break;
            }
            let reports = claimed
                .iter()
                .map(|claimed| {
                    let result = Some(result(&claimed.job).into_bytes());
                    Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result })
                })
                .collect();
            for answer in store.finish(&me, worker, reports).await.unwrap() {
                assert_eq!(answer, Finish::Applied(JobState::Completed));
            }
        }
        let jobs = all_jobs(store, Filter::default()).await;
        if jobs.iter().all(|job| job.job.state.is_final()) {
            check_wholeness(&jobs);
            return jobs.len();
        }
    }
    panic!("jobs are still not final after two hundred rounds");
}
