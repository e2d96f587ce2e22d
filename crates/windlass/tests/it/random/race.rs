//! Many callers at once on one store: submitters with the same keys, workers, operators who meddle, a clock that jumps.
//! The order of calls is not known; what was answered and what the audit trail says must fit together nevertheless.

mod players;
mod trail;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use windlass::audit::AuditLevel;
use windlass::entropy::Entropy;
use windlass::job::{Fence, JobId, JobState, WorkerId};
use windlass::settings::QueueSettings;
use windlass::store::{
    ActionRequest, BulkAction, Environment, Filter, Finish, NewWorker, Outcome, PauseTarget, Settings, Store,
    StoreOptions,
};

use super::snapshot;
use crate::fixture::{Fixture, On, queue};

/// Races by default on each engine; the order of events differs each time anyway.
const RACES: u64 = 4;
/// Nodes beside the first one in every second race, on engines that can have them.
const OTHER_NODES: u64 = 2;
/// Rounds after which every job must have ended once the players have stopped.
const DRAIN_ROUNDS_MAX: usize = 200;
/// Jobs running at once in queue `mail`, and for one concurrency key there.
const MAIL_RUNNING_MAX: u64 = 5;
const MAIL_PER_KEY_MAX: u64 = 2;

#[test]
fn callers_who_race_in_memory_never_break_a_promise() {
    races(On::Memory);
}

#[test]
fn callers_who_race_on_a_file_never_break_a_promise() {
    races(On::Sqlite);
}

#[test]
fn callers_who_race_on_postgres_never_break_a_promise() {
    races(On::Postgres);
}

fn races(on: On) {
    let count: u64 = super::setting("WINDLASS_RACES").unwrap_or(RACES);
    for seed in 1..=count {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build();
        println!("race {seed} on {on:?}");
        runtime.expect("a runtime starts").block_on(race(on, seed));
    }
}

/// What the players share, and the replies they received.
struct Arena {
    fixture: Fixture,
    /// The nodes that the players use in turn; the fixture's store is the first.
    nodes: Vec<Store>,
    jobs: Mutex<Vec<JobId>>,
    replies: Mutex<Replies>,
}

/// The replies that callers received, to be compared with the audit trail.
#[derive(Default)]
struct Replies {
    /// Which job each idempotency key led to, and how often it was a new one.
    keys: BTreeMap<String, (BTreeSet<JobId>, usize)>,
    /// Every lease that was handed out, with the number of the attempt.
    claims: Vec<(JobId, Fence, u32)>,
    /// Every report that was taken.
    applied: Vec<(JobId, Fence, JobState)>,
}

async fn race(on: On, seed: u64) {
    let fixture = Fixture::with(on, StoreOptions::default(), seed);
    // Live readers get the events of one node, and a node that has some stores no submission without its turn.
    let is_alone = seed % 2 == 1 || fixture.address.is_empty();
    let events = is_alone.then(|| fixture.store.live_events());
    let others = if is_alone { 0 } else { OTHER_NODES };
    let open = |place| {
        let env = Environment::new(
            fixture.clock.clone(),
            Entropy::seeded(seed * 1_000 + place),
            StoreOptions::default(),
        );
        Store::open_in(&fixture.address, env).expect("another node opens")
    };
    let nodes = std::iter::once(fixture.store.clone()).chain((1..=others).map(open)).collect();
    let (jobs, replies) = (Mutex::default(), Mutex::default());
    let arena = std::sync::Arc::new(Arena { fixture, nodes, jobs, replies });
    arena.prepare().await;
    let players = players::start(&arena, seed);
    for player in players {
        player.await.expect("a player ends well");
    }
    arena.drain().await;
    arena.fixture.verify().await;
    arena.check_listed();
    trail::check(&arena, events).await;
    arena.nodes.iter().for_each(Store::close);
}

impl Arena {
    /// The node that a player uses.
    fn node(&self, player: usize) -> &Store {
        &self.nodes[player % self.nodes.len()]
    }

    /// Everything is audited, and two of the queues have limits.
    async fn prepare(&self) {
        let audited = QueueSettings { audit: Some(AuditLevel::All), ..QueueSettings::default() };
        let limited = QueueSettings {
            max_running: Some(MAIL_RUNNING_MAX),
            max_running_per_key: Some(MAIL_PER_KEY_MAX),
            ..audited.clone()
        };
        for (name, settings) in [("default", audited.clone()), ("mail", limited), ("slow", audited)] {
            let settings = Settings::Queue(queue(name), settings);
            self.fixture.store.configure(&self.fixture.me, settings).await.expect("the settings are allowed");
        }
    }

    async fn worker(&self, heartbeats: bool) -> WorkerId {
        let new = NewWorker { heartbeats, ..NewWorker::default() };
        self.fixture.store.register(&self.fixture.me, new).await.expect("any caller may register").id
    }

    /// Notes what a claim handed out.
    fn note_claims(&self, jobs: &[windlass::store::ClaimedJob]) {
        let mut replies = self.replies.lock().expect("no thread panicked");
        replies
            .claims
            .extend(jobs.iter().map(|claimed| (claimed.job.id, claimed.job.fence, claimed.job.attempt)));
    }

    fn note_finish(&self, job: JobId, fence: Fence, finish: &Finish) {
        if let Finish::Applied(state) = finish {
            self.replies.lock().expect("no thread panicked").applied.push((job, fence, *state));
        }
    }

    /// The players have stopped: everything must come to an end by itself.
    async fn drain(&self) {
        let Fixture { store, me, .. } = &self.fixture;
        for target in
            [PauseTarget::Gate, PauseTarget::Queue(queue("mail")), PauseTarget::Queue(queue("default"))]
        {
            store.resume(me, target, None).await.expect("an admin may");
        }
        let worker = self.worker(false).await;
        for _ in 0..DRAIN_ROUNDS_MAX {
            for (state, act) in [
                (JobState::Suspended, ActionRequest::Resume { reason: None }),
                (JobState::Created, ActionRequest::Submit),
            ] {
                let filter = Filter { states: vec![state], ..Filter::default() };
                store.bulk(me, &filter, BulkAction::Act(act)).await.expect("an admin may");
            }
            self.fixture.advance(Duration::from_secs(60));
            self.fixture.tick().await;
            let claimed = self.fixture.claim(worker, 100).await;
            self.note_claims(&claimed);
            for one in &claimed {
                let outcome = Outcome::Completed { result: None };
                let finish = self.fixture.finish(worker, one.job.id, one.job.fence, outcome).await;
                self.note_finish(one.job.id, one.job.fence, &finish);
            }
            let jobs = snapshot::jobs(store).await.expect("the store answers");
            if jobs.iter().all(|found| found.job.state.is_final()) {
                return;
            }
        }
        let jobs = snapshot::jobs(store).await.expect("the store answers");
        let open: Vec<_> = jobs.iter().filter(|found| !found.job.state.is_final()).collect();
        panic!("{} jobs never end, such as {:?}", open.len(), open.first());
    }

    /// Model: counters-and-fences, idempotency-key, one-lease-at-a-time. One job per key, one holder per lease, one end per lease, one completion per job.
    fn check_listed(&self) {
        let replies = self.replies.lock().expect("no thread panicked");
        assert!(
            replies.keys.len() > 3 && replies.claims.len() > 20,
            "the race was too short to show anything"
        );
        for (key, (jobs, new)) in &replies.keys {
            assert_eq!((jobs.len(), *new), (1, 1), "idempotency key {key} led to {jobs:?}");
        }
        let mut fences: BTreeMap<JobId, BTreeMap<u32, Fence>> = BTreeMap::new();
        for (job, fence, attempt) in &replies.claims {
            let twice = fences.entry(*job).or_default().insert(*attempt, *fence);
            assert_eq!(twice, None, "attempt {attempt} of job {job} was handed out twice");
        }
        for (job, fences) in &fences {
            let fences: Vec<Fence> = fences.values().copied().collect();
            assert!(fences.windows(2).all(|two| two[0] < two[1]), "the fences of job {job} are {fences:?}");
        }
        let mut ends = BTreeSet::new();
        let mut completions = BTreeSet::new();
        for (job, fence, state) in &replies.applied {
            assert!(
                replies.claims.iter().any(|(id, given, _)| (id, given) == (job, fence)),
                "{job} was never given"
            );
            assert!(ends.insert((job, fence)), "two reports for job {job} with {fence:?} were taken");
            if *state == JobState::Completed {
                assert!(completions.insert(job), "job {job} completed twice");
            }
        }
    }
}
