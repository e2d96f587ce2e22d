//! Simulation of the worker itself: its real loops, and those of maintenance, on virtual time. Messages take time, are lost, or
//! lose their answers; nodes crash, are cut off and start again; clocks are set; disks are full. Handlers run steps, fail
//! and sleep. Whatever happens, two handlers do not run one job at a time, what a step returned stays, and every job ends.
//!
//! A seed decides what happens to nodes and messages, but not which of several ready branches tokio polls first: a seed that
//! failed mostly fails again, and need not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass::client::Client;
use windlass::clock::{Clock, Reading, Timestamp};
use windlass::context::{CancelReason, Cx};
use windlass::entropy::Entropy;
use windlass::error::StoreError;
use windlass::job::{Fence, JobId, JobState, NewJob, RetryPolicy};
use windlass::store::caller::Caller;
use windlass::store::engine::{Engine, ReadTask, WriteTask};
use windlass::store::engines::memory::MemoryEngine;
use windlass::store::{Environment, ListRequest, Order, Store, StoreOptions, SubmitOptions};
use windlass::worker::Worker;

use crate::fixture::{START, new_job};
use crate::random::rng::Dice;

const NODES: usize = 3;
const JOBS: usize = 8;
/// How long there are faults, and how long everything may take to end afterwards.
const FAULTS: Duration = Duration::from_secs(400);
const CALM: Duration = Duration::from_secs(4 * 3600);
/// A worker that claims a job has an answer of the store then, and must not say otherwise for this long.
const SILENCE_MIN: Duration = Duration::from_secs(16);
const STEPS: [&str; 3] = ["first", "second", "third"];

/// What all in the world can reach.
struct Shared {
    dice: Mutex<Dice>,
    began: Instant,
    /// Milliseconds by which the database's clock was set.
    set_by: AtomicI64,
    is_calm: AtomicBool,
    /// The handlers that run, by job: where, and with which fence.
    runs: Mutex<BTreeMap<JobId, Vec<(u64, Fence)>>>,
    /// What each step of each job returned.
    returned: Mutex<BTreeMap<(JobId, &'static str), u64>>,
    story: Mutex<Vec<String>>,
    findings: Mutex<Vec<String>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn passed(&self) -> Duration {
        self.began.elapsed()
    }

    fn below(&self, end: usize) -> usize {
        lock(&self.dice).below(end)
    }

    fn tell(&self, what: &str) {
        lock(&self.story).push(format!("{:>9.3} s  {what}", self.passed().as_secs_f64()));
    }

    fn find(&self, what: &str) {
        self.tell(what);
        lock(&self.findings).push(what.to_owned());
    }

    fn database(&self) -> Timestamp {
        let passed = i64::try_from(self.passed().as_millis()).expect("hours");
        Timestamp::from_millis(START + passed + self.set_by.load(Ordering::SeqCst))
    }
}

/// The clocks of a node: its own, which runs at another rate, and the database's.
struct NodeClock {
    shared: Arc<Shared>,
    rate: u32,
    ahead: i64,
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.shared.database()
    }

    fn reading(&self) -> Option<Reading> {
        let passed = i64::try_from(self.shared.passed().as_millis()).expect("hours");
        let wall = Timestamp::from_millis(START + passed + self.ahead);
        Some(Reading { elapsed: self.shared.passed() * self.rate / 100, wall, boot: None })
    }

    fn database(&self, _read: Timestamp) -> Timestamp {
        self.shared.database()
    }
}

/// The database as one node reaches it.
struct Wire {
    shared: Arc<Shared>,
    node: Arc<Node>,
    connection: Arc<MemoryEngine>,
}

#[derive(Default)]
struct Node {
    number: u64,
    /// Its process is gone: nothing that it sends arrives, and nothing is answered.
    is_dead: AtomicBool,
    is_cut_off: AtomicBool,
}

enum Task {
    Write(Box<dyn WriteTask>),
    Read(Box<dyn ReadTask>),
}

impl Task {
    fn run(self, on: &MemoryEngine) {
        match self {
            Task::Write(task) => on.write(task),
            Task::Read(task) => on.read(task),
        }
    }

    fn lose(self) {
        let lost = Err(StoreError::Unavailable("the connection was lost".to_owned()));
        match self {
            Task::Write(task) => task.done(lost),
            Task::Read(task) => task.done(lost),
        }
    }

    /// Its answer will be lost.
    fn unanswered(self) -> Task {
        match self {
            Task::Write(task) => Task::Write(Box::new(super::network::Unanswered(task))),
            read @ Task::Read(_) => read,
        }
    }
}

impl Wire {
    fn send(&self, task: Task) {
        let (shared, node, connection) = (self.shared.clone(), self.node.clone(), self.connection.clone());
        let delay = Duration::from_millis(shared.below(40) as u64);
        tokio::spawn(async move {
            sleep(delay).await;
            if node.is_dead.load(Ordering::SeqCst) {
                let _never_answered = Box::leak(Box::new(task));
                return;
            }
            if node.is_cut_off.load(Ordering::SeqCst) {
                sleep(Duration::from_secs(1)).await;
                return task.lose();
            }
            let is_calm = shared.is_calm.load(Ordering::SeqCst);
            match shared.below(100) {
                0..=2 if !is_calm => task.lose(),
                3..=5 if !is_calm => task.unanswered().run(&connection),
                6 if !is_calm => {
                    connection.fail_next_commit(StoreError::Full);
                    task.run(&connection);
                }
                _ => task.run(&connection),
            }
        });
    }
}

impl Engine for Wire {
    fn write(&self, task: Box<dyn WriteTask>) {
        self.send(Task::Write(task));
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.send(Task::Read(task));
    }

    fn close(&self) {}
}

/// A handler that runs.
struct Run {
    shared: Arc<Shared>,
    node: u64,
    job: JobId,
    fence: Fence,
    began: Duration,
    cx: Cx,
}

impl Run {
    fn begin(shared: &Arc<Shared>, node: &Node, cx: &Cx) -> Run {
        let (job, fence) = (cx.job_id(), cx.fence());
        let mut runs = lock(&shared.runs);
        let others = runs.entry(job).or_default();
        if !node.is_dead.load(Ordering::SeqCst) {
            if let Some((other, earlier)) = others.first() {
                let number = node.number;
                shared.find(&format!(
                    "node {number} runs job {job} with {fence:?}, and node {other} still runs it with {earlier:?}"
                ));
            }
            others.push((node.number, fence));
            shared.tell(&format!("node {} runs job {job}, attempt {}", node.number, cx.attempt()));
        }
        drop(runs);
        Run { shared: shared.clone(), node: node.number, job, fence, began: shared.passed(), cx: cx.clone() }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut runs = lock(&self.shared.runs);
        if let Some(others) = runs.get_mut(&self.job) {
            others.retain(|one| *one != (self.node, self.fence));
        }
        let ran = self.shared.passed().saturating_sub(self.began);
        let is_silent = self.cx.interruption() == Some(CancelReason::StoreUnreachable);
        if is_silent && ran < SILENCE_MIN {
            let (node, job) = (self.node, self.job);
            self.shared
                .find(&format!("node {node} took the store for silent {ran:?} after it claimed job {job}"));
        }
    }
}

async fn handle(shared: Arc<Shared>, node: Arc<Node>, cx: Cx) -> anyhow::Result<u64> {
    let run = Run::begin(&shared, &node, &cx);
    let mut sum = 0_u64;
    for name in STEPS {
        if shared.below(8) == 0 {
            // Work that does not notice that it was asked to stop.
            sleep(Duration::from_millis(shared.below(60_000) as u64)).await;
        }
        let (took, fails) = (Duration::from_millis(100 + shared.below(9_000) as u64), shared.below(12) == 0);
        let value = shared.below(1 << 20) as u64;
        let work = async {
            sleep(took).await;
            anyhow::ensure!(!fails || shared.is_calm.load(Ordering::SeqCst), "the step has failed");
            Ok(value)
        };
        let value = cx.step(name, work).await?;
        let first = *lock(&shared.returned).entry((run.job, name)).or_insert(value);
        if first != value && !node.is_dead.load(Ordering::SeqCst) {
            shared.find(&format!("step {name} of job {} returned {first}, and now {value}", run.job));
        }
        sum += value;
        if name == "second" {
            cx.sleep(Duration::from_secs(20)).await?;
        }
    }
    Ok(sum)
}

struct World {
    shared: Arc<Shared>,
    database: MemoryEngine,
    nodes: Vec<(Arc<Node>, Store)>,
    started: u64,
    seed: u64,
}

impl World {
    fn start_node(&mut self) -> (Arc<Node>, Store) {
        self.started += 1;
        let node = Arc::new(Node { number: self.started, ..Node::default() });
        let (shared, wire_node) = (self.shared.clone(), node.clone());
        let rate = [100, 100, 99, 101][shared.below(4)];
        // Never wrong in the same way as the database's clock.
        let ahead = [0, 0, -3_000, 1_234_567][shared.below(4)];
        let clock = Arc::new(NodeClock { shared: shared.clone(), rate, ahead });
        let entropy = Entropy::seeded(self.seed.wrapping_mul(1_000_003) ^ self.started);
        let env = Environment::new(clock, entropy, StoreOptions::default());
        let store = Store::with_engine(env, |env| {
            let connection = Arc::new(self.database.connect(env));
            Ok::<_, ()>(Wire { shared: shared.clone(), node: wire_node, connection })
        });
        let store = store.expect("nothing fails");
        let (running, own) = (store.clone(), node.clone());
        tokio::spawn(async move {
            loop {
                let client = Client::from_store(running.clone());
                let (shared, node) = (shared.clone(), own.clone());
                let grace = [0, 5, 20, 60][shared.below(4)];
                let worker = Worker::new(&client).queue("default", 3).grace(Duration::from_secs(grace));
                let handler = move |cx| handle(shared.clone(), node.clone(), cx);
                // It may fail to register; a supervisor starts it again.
                let _ended = worker.handle_type("simulated", handler).run().await;
                sleep(Duration::from_secs(2)).await;
            }
        });
        (node, store)
    }

    async fn submit_all(&self) {
        for number in 0..JOBS {
            let new = NewJob {
                idempotency_key: Some(format!("job-{number}")),
                retry: Some(RetryPolicy::standard().attempts(40)),
                ..new_job("simulated")
            };
            loop {
                let (_, store) = &self.nodes[self.shared.below(NODES)];
                let sent = store.submit(&Caller::local(), vec![new.clone()], SubmitOptions::default()).await;
                if sent.is_ok() {
                    break;
                }
                sleep(Duration::from_millis(300)).await;
            }
            sleep(Duration::from_millis(self.shared.below(20_000) as u64)).await;
        }
    }

    async fn faults(&mut self) {
        while self.shared.passed() < FAULTS {
            sleep(Duration::from_millis(1_000 + self.shared.below(20_000) as u64)).await;
            let at = self.shared.below(NODES);
            let number = self.nodes[at].0.number;
            match self.shared.below(10) {
                0..=2 => {
                    self.shared.tell(&format!("node {number} crashes"));
                    self.nodes[at].0.is_dead.store(true, Ordering::SeqCst);
                    for others in lock(&self.shared.runs).values_mut() {
                        others.retain(|(node, _)| *node != number);
                    }
                    self.nodes[at] = self.start_node();
                }
                3..=6 => {
                    let long = Duration::from_millis(2_000 + self.shared.below(50_000) as u64);
                    self.shared.tell(&format!("node {number} is cut off for {long:?}"));
                    let node = self.nodes[at].0.clone();
                    node.is_cut_off.store(true, Ordering::SeqCst);
                    tokio::spawn(async move {
                        sleep(long).await;
                        node.is_cut_off.store(false, Ordering::SeqCst);
                    });
                }
                _ => {
                    let by = [-60_000, -5_000, 5_000, 40_000, 60_000, 3_600_000][self.shared.below(6)];
                    self.shared.tell(&format!("the database's clock is set by {by} ms"));
                    self.shared.set_by.fetch_add(by, Ordering::SeqCst);
                }
            }
        }
    }

    async fn end(&self) {
        self.shared.tell("the faults end");
        self.shared.is_calm.store(true, Ordering::SeqCst);
        for (node, _) in &self.nodes {
            node.is_cut_off.store(false, Ordering::SeqCst);
        }
        let me = Caller::local();
        let until = self.shared.passed() + CALM;
        let (_, store) = &self.nodes[0];
        loop {
            let request = ListRequest { order: Order::Oldest, limit: 500, ..ListRequest::default() };
            let jobs = store.list(&me, request).await.map(|page| page.jobs).unwrap_or_default();
            let live = jobs.iter().find(|found| !found.job.state.is_final());
            match live {
                None if jobs.len() == JOBS => break,
                Some(live) if self.shared.passed() > until => {
                    self.shared.find(&format!("job {} does not end: {:?}", live.job.id, live.job));
                    return;
                }
                _ => sleep(Duration::from_secs(5)).await,
            }
        }
        for report in store.verify().await.expect("the store can be read") {
            if !report.holds() {
                self.shared.find(&format!("{}: {:?}", report.code, report.findings));
            }
        }
    }
}

/// The story of a seed, and what was found.
fn simulate(seed: u64) -> (Vec<String>, Vec<String>, usize) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let shared = Arc::new(Shared {
            dice: Mutex::new(Dice::new(seed)),
            began: Instant::now(),
            set_by: AtomicI64::new(0),
            is_calm: AtomicBool::new(false),
            runs: Mutex::default(),
            returned: Mutex::default(),
            story: Mutex::default(),
            findings: Mutex::default(),
        });
        let clock = Arc::new(NodeClock { shared: shared.clone(), rate: 100, ahead: 0 });
        let env = Environment::new(clock, Entropy::seeded(seed), StoreOptions::default());
        let database = MemoryEngine::new(Arc::new(env));
        let mut world = World { shared: shared.clone(), database, nodes: Vec::new(), started: 0, seed };
        for _ in 0..NODES {
            let node = world.start_node();
            world.nodes.push(node);
        }
        world.submit_all().await;
        world.faults().await;
        world.end().await;
        let completed = {
            let request = ListRequest { limit: 500, ..ListRequest::default() };
            let page = world.nodes[0].1.list(&Caller::local(), request).await.expect("it can be read");
            page.jobs.iter().filter(|found| found.job.state == JobState::Completed).count()
        };
        let (story, findings) = (lock(&shared.story).clone(), lock(&shared.findings).clone());
        (story, findings, completed)
    })
}

/// Model: one-lease-at-a-time, sleeps-and-signals, steps.
#[test]
fn real_workers_run_a_job_once_at_a_time_and_end_it() {
    let seeds = super::setting("WINDLASS_SIMULATED_WORKERS").unwrap_or(20);
    let mut completed = 0;
    for seed in 1..=seeds {
        let (story, findings, ended_well) = simulate(seed);
        completed += ended_well;
        let from = story.len().saturating_sub(super::SHOWN);
        assert!(findings.is_empty(), "seed {seed}: {findings:#?}\n  {}", story[from..].join("\n  "));
    }
    println!("seeds 1..={seeds}: {completed} jobs completed");
    assert!(completed as u64 > seeds * JOBS as u64 / 2, "most jobs complete: {completed}");
}
