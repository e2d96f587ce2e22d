//! Several nodes whose database is put back under load, started again on it, while workers from before continue writing through every
//! node: all of their writes are refused, and nothing of them is found in what other workers do now.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use windlass::error::WorkError;
use windlass::job::{GroupStrategy, JobState, Progress, WorkerId};
use windlass::store::{
    AttemptWrite, ClaimRequest, ClaimedJob, Directive, Finish, HeartbeatItem, LeaseRef, NewGroup, Outcome,
    Report, Store, SubmitOptions,
};

use super::super::fleet::NODES;
use super::super::{numbered, open, verify};
use super::{finish, is_stopped, me, register};
use crate::fixture::cluster::{Cluster, schema_at, schema_of};

const JOBS: usize = 24;
const WORKERS: usize = 4;
/// More than the commits that are lost.
const LOST_MAX: usize = 60;
/// Writes that each worker from before tries.
const WRITES: usize = 40;

/// How the database is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PutBack {
    /// By its files, under running nodes.
    Files,
    /// By its files, while no node runs: it cannot be noticed.
    FilesUnseen,
    /// By a dump, under running nodes.
    Dump,
    /// By a dump, while no node runs.
    DumpUnseen,
}

impl PutBack {
    fn is_by_files(self) -> bool {
        matches!(self, PutBack::Files | PutBack::FilesUnseen)
    }

    fn is_under_nodes(self) -> bool {
        matches!(self, PutBack::Files | PutBack::Dump)
    }
}

/// A worker and what it has claimed: before the moment to which the database is put back, or after it.
struct OldWorker {
    id: WorkerId,
    early: Vec<ClaimedJob>,
    late: Vec<ClaimedJob>,
}

struct Scene {
    cluster: Cluster,
    address: String,
    nodes: Vec<Store>,
    workers: Vec<OldWorker>,
    dice: StdRng,
}

async fn claim(node: &Store, worker: WorkerId, limit: usize) -> Vec<ClaimedJob> {
    node.claim(&me(), &ClaimRequest::new(worker, limit), Duration::ZERO).await.unwrap().jobs
}

fn checkpoint(value: &str) -> AttemptWrite {
    AttemptWrite::Checkpoint { step: "charge".into(), value: format!("\"{value}\"").into_bytes() }
}

impl Scene {
    async fn new(seed: u64) -> Scene {
        let cluster = Cluster::start(&["-c fsync=off"]);
        let address = schema_at(&cluster.address());
        let nodes: Vec<Store> = (0..NODES).map(|_| open(&address)).collect();
        nodes[0].submit(&me(), (0..JOBS).map(numbered).collect(), SubmitOptions::default()).await.unwrap();
        let (mut dice, mut workers) = (StdRng::seed_from_u64(seed), Vec::new());
        for number in 0..WORKERS {
            let node = &nodes[number % NODES];
            let id = register(node).await;
            let early = claim(node, id, dice.random_range(0..3)).await;
            workers.push(OldWorker { id, early, late: Vec::new() });
        }
        Scene { cluster, address, nodes, workers, dice }
    }

    /// What happens after the moment to which the database is put back.
    async fn continue_run(&mut self) {
        for worker in &mut self.workers {
            let node = self.nodes.choose(&mut self.dice).expect("there are nodes");
            worker.late = claim(node, worker.id, self.dice.random_range(1..4)).await;
            for held in worker.late.iter().chain(&worker.early) {
                let lease = LeaseRef { job: held.job.id, fence: held.job.fence, worker: Some(worker.id) };
                node.record(&me(), lease, vec![checkpoint("before")]).await.unwrap();
            }
        }
        for node in &self.nodes {
            // Every node knows commits that will be missing.
            node.submit(&me(), vec![numbered(JOBS)], SubmitOptions::default()).await.unwrap();
        }
    }

    async fn put_back(&mut self, how: PutBack) {
        let dump = if how.is_by_files() {
            self.cluster.keep_copy("backup");
            None
        } else {
            Some(self.cluster.dump(schema_of(&self.address)))
        };
        self.continue_run().await;
        if !how.is_under_nodes() {
            self.nodes.iter().for_each(Store::close);
        }
        match &dump {
            None => self.cluster.put_back("backup"),
            Some(dump) => self.cluster.restore_dump(schema_of(&self.address), dump),
        }
        if how.is_under_nodes() {
            if self.dice.random_bool(0.5) {
                // Others continue before the old nodes look, beyond the last commit that these know.
                let other = open(&self.address);
                for _ in 0..LOST_MAX {
                    register(&other).await;
                }
                other.close();
            }
            for node in &self.nodes {
                assert!(is_stopped(node).await, "a node that knows of missing commits stops");
                node.close();
            }
        }
        self.nodes = (0..NODES).map(|_| open(&self.address)).collect();
    }
}

/// Whether a worker's call was refused because it does not hold what it thinks it holds.
fn is_refused<T>(answer: Result<T, WorkError>) -> bool {
    match answer {
        Ok(_) => false,
        Err(WorkError::Stale(_) | WorkError::NoSuchJob(_) | WorkError::NoSuchWorker(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// One write of some kind for a claim from before; true if it was refused.
async fn write(node: &Store, worker: WorkerId, held: &ClaimedJob, kind: usize) -> bool {
    let (job, fence, me) = (held.job.id, held.job.fence, me());
    let lease = LeaseRef { job, fence, worker: kind.is_multiple_of(2).then_some(worker) };
    match kind / 2 {
        0 => is_refused(node.record(&me, lease, vec![checkpoint("old")]).await),
        1 => is_refused(node.record(&me, lease, vec![AttemptWrite::Logs(vec!["old".into()])]).await),
        2 => is_refused(
            node.record(&me, lease, vec![AttemptWrite::Progress(Progress { percent: 1.0, message: None })])
                .await,
        ),
        3 => {
            let (name, jobs) = ("old".into(), vec![numbered(99)]);
            let group = NewGroup { name, strategy: GroupStrategy::CollectAll, jobs };
            is_refused(node.spawn(&me, lease, group).await)
        }
        4 => match node.heartbeat(&me, worker, vec![HeartbeatItem::new(job, fence)]).await {
            Ok(reply) => reply.directives == [(job, Directive::Lost)],
            refused => is_refused(refused),
        },
        _ => {
            let report = Report::new(job, fence, Outcome::Completed { result: None });
            match node.finish(&me, worker, vec![report]).await {
                Ok(answers) => matches!(answers[0], Finish::Stale),
                refused => is_refused(refused),
            }
        }
    }
}

/// A worker from before that continues writing.
async fn write_on(nodes: Vec<Store>, worker: WorkerId, held: Vec<ClaimedJob>, mut dice: StdRng) {
    for _ in 0..WRITES {
        let (node, kind) = (nodes.choose(&mut dice).unwrap(), dice.random_range(0..12));
        let held = held.choose(&mut dice).unwrap();
        assert!(write(node, worker, held, kind).await, "a write of kind {kind} was taken");
    }
}

/// Workers of now do all jobs that can be had; says how many.
async fn work(nodes: Vec<Store>) -> usize {
    let mut done = 0;
    for node in nodes.iter().cycle() {
        let worker = register(node).await;
        while node.tick().await.unwrap().has_more {}
        let claimed = claim(node, worker, 3).await;
        if claimed.is_empty() {
            break;
        }
        for claimed in &claimed {
            let lease = LeaseRef { job: claimed.job.id, fence: claimed.job.fence, worker: Some(worker) };
            node.record(&me(), lease, vec![checkpoint("now")]).await.unwrap();
            assert_eq!(finish(node, worker, claimed).await, Finish::Applied(JobState::Completed));
            done += 1;
        }
    }
    done
}

async fn old_workers_write_nothing(how: PutBack, seed: u64) {
    println!("{how:?}, seed {seed}");
    let mut scene = Scene::new(seed).await;
    scene.put_back(how).await;
    // An unnoticed restore cannot be distinguished from a pause: claims that are in it count.
    let counts_early = how == PutBack::FilesUnseen;
    let mut writing = tokio::task::JoinSet::new();
    let mut kept = 0;
    for worker in &scene.workers {
        let mut held = worker.late.clone();
        if counts_early {
            kept += worker.early.len();
        } else {
            held.extend(worker.early.clone());
        }
        let dice = StdRng::seed_from_u64(scene.dice.random());
        writing.spawn(write_on(scene.nodes.clone(), worker.id, held, dice));
    }
    let done = work(scene.nodes.clone()).await;
    writing.join_all().await;
    let done = done + work(scene.nodes.clone()).await;
    assert_eq!(done, JOBS - kept, "every other job is done, once");
    for node in &scene.nodes {
        for job in scene.workers.iter().flat_map(|worker| &worker.late) {
            let Some(found) = node.checkpoints(&me(), job.job.id).await.unwrap() else { continue };
            assert!(found.iter().all(|found| &*found.value == b"\"now\""), "{found:?}");
        }
        let stats = node.stats(&me()).await.unwrap().states;
        assert_eq!(stats.get(&JobState::Completed).copied(), Some(done as u64));
        verify(node).await;
    }
    scene.nodes.iter().for_each(Store::close);
}

/// Model: counters-and-fences, store-generation, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_from_before_write_nothing_into_a_database_whose_files_were_put_back() {
    for seed in 0..2 {
        old_workers_write_nothing(PutBack::Files, seed).await;
        old_workers_write_nothing(PutBack::FilesUnseen, seed).await;
    }
}

/// Model: counters-and-fences, store-generation, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_from_before_write_nothing_into_a_restored_dump() {
    for seed in 0..2 {
        old_workers_write_nothing(PutBack::Dump, seed).await;
        old_workers_write_nothing(PutBack::DumpUnseen, seed).await;
    }
}
