//! Workers in processes of their own that are stopped, terminated and killed. The test binary runs itself again as such a
//! process; both talk in lines over its pipes. Only here does real time pass.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use windlass::client::{Client, JobBuilder};
use windlass::context::Cx;
use windlass::entropy::Entropy;
use windlass::handler::State;
use windlass::job::{AttemptOutcome, GroupStrategy, JobState, RetryPolicy};
use windlass::store::caller::Caller;
use windlass::store::{PauseMode, Store, StoreOptions};
use windlass::worker::Worker;

use crate::fixture::{On, secs};
use crate::worker::harness::{Bench, EventSender, Started, events};
use crate::worker::hosts::lost;
use crate::worker::job_types::{Add, Greet, greet};

const ROLE: &str = "WINDLASS_TEST_ROLE";
const ADDRESS: &str = "WINDLASS_TEST_ADDRESS";
const QUEUE: &str = "WINDLASS_TEST_QUEUE";
/// Longer than anything here takes, however slow the machine.
const LONG: Duration = Duration::from_secs(60);
/// The shortest lease there is, so that the test does not wait long for what died.
const LEASE: Duration = Duration::from_secs(1);

/// A process that works; it dies with this at the latest.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(role: &str, bench: &Bench) -> Process {
        Process::start_on("default", role, bench)
    }

    fn start_on(queue: &str, role: &str, bench: &Bench) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::hosts::processes::child", "--nocapture"])
            .env(ROLE, role)
            .env(ADDRESS, &bench.address)
            .env(QUEUE, queue)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, lines) = sync_channel(100_000);
        let spoken = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        std::thread::spawn(move || spoken.for_each(|line| said.try_send(line).unwrap_or_default()));
        Process { child, lines }
    }

    /// Waits for it to say this, and nothing else before; what the test harness says does not count.
    fn expect(&mut self, what: &str) {
        loop {
            let line = self.lines.recv_timeout(LONG).expect("the process says something");
            if let Some(said) = line.strip_prefix('@') {
                return assert_eq!(said, what);
            }
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and makes sure that it did so in peace.
    fn terminate(mut self) {
        self.signal("TERM");
        let rest: Vec<String> = std::iter::from_fn(|| self.lines.recv_timeout(LONG).ok()).collect();
        assert!(self.child.wait().unwrap().success(), "{rest:#?}");
    }
}

fn say(what: impl std::fmt::Display) {
    eprintln!("@{what}");
}

/// The other process; nothing when it runs as an ordinary test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let store = Store::open(&std::env::var(ADDRESS).unwrap(), StoreOptions::default()).unwrap();
    // A process that is stopped must not be stopped while it writes, so the zombie does nothing by itself.
    let queue = if role == "zombie" {
        Client::from_store_without_maintenance(store)
    } else {
        Client::from_store(store)
    };
    if role == "ahead" {
        return hold_ahead(&queue).await;
    }
    let worker = Worker::new(&queue).name(&role).heartbeat_every(Duration::from_millis(200));
    let moment = Duration::from_millis(2);
    let own = std::env::var(QUEUE).unwrap();
    let worker = match &*role {
        "drained" => worker.handle(brief).queue(&own, 8),
        "interrupted" => worker.handle(endless).queue(&own, 8).drain(moment).grace(moment),
        "stuck" => worker.handle(stuck),
        "zombie" => worker.handle(zombie).queue("default", 1).heartbeat_every(secs(15)).grace(LONG),
        "family" => worker.handle(parent).handle(brief).queue("default", 8),
        other => panic!("no role {other}"),
    };
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    worker.run_until(async { _ = term.recv().await }).await.unwrap();
    queue.close();
}

async fn brief(job: Greet) -> anyhow::Result<String> {
    say("started");
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(job.name)
}

/// Always in the middle of its work, however long it takes until it is asked to end.
async fn endless(_: Greet) -> anyhow::Result<String> {
    say("started");
    std::future::pending().await
}

/// Model: crashes-and-poison, leases-and-heartbeats, worker-pause. A hundred processes are asked to end in the middle of their work, and not one attempt is burnt.
async fn a_hundred_terminations_burn_no_attempt(bench: Bench) {
    const QUEUES: [&str; 4] = ["north", "east", "south", "west"];
    let seed = u64::try_from(Entropy::from_system().bits() >> 64).unwrap();
    println!("seed {seed}");
    let chance = Entropy::seeded(seed);
    let mut jobs = Vec::new();
    for _ in 0..25 {
        // More than enough for each to be in the middle of eight when it is asked to end.
        let drafts = (0..96).map(|number| JobBuilder::new(&greet("x")).queue(QUEUES[number % 4]));
        jobs.extend(bench.client.submit_all(drafts).await.unwrap());
        let mut processes = ["drained", "interrupted", "drained", "interrupted"].into_iter().zip(QUEUES);
        let mut processes = [(); 4].map(|()| {
            let (role, queue) = processes.next().expect("there are four");
            Process::start_on(queue, role, &bench)
        });
        for process in &mut processes {
            for _ in 0..=chance.bits() % 8 {
                process.expect("started");
            }
        }
        processes.into_iter().for_each(Process::terminate);
    }
    let config = bench.client.api().config(&Caller::local()).await.unwrap();
    assert_eq!(config.workers.len(), 0, "all workers have deregistered");
    let quick = |job: Greet| async move { anyhow::Ok(job.name) };
    let last = QUEUES.iter().fold(bench.worker(), |worker, queue| worker.queue(queue, 50));
    let last = Started::new(last.handle(quick));
    let mut released = 0;
    for job in &jobs {
        assert_eq!(job.result(LONG).await.unwrap(), "x");
        let mut ended = bench.outcomes(job.id()).await;
        assert_eq!(ended.pop(), Some(AttemptOutcome::Completed));
        assert!(ended.iter().all(|outcome| *outcome == AttemptOutcome::Released), "{ended:?}");
        released += ended.len();
    }
    assert!(released >= 50, "{released} were interrupted, at least one by each of fifty processes");
    last.stop().await;
    bench.verify().await;
}

async fn stuck(_: Greet, cx: Cx) -> anyhow::Result<String> {
    let one = cx.step("one", async { anyhow::Ok(std::process::id()) }).await?;
    let two = cx.step("two", async {
        say(format!("stuck after {one}"));
        std::future::pending::<anyhow::Result<u32>>().await
    });
    Ok(two.await?.to_string())
}

/// Model: crashes-and-poison, leases-and-heartbeats, steps, one-lease-at-a-time
async fn a_worker_killed_in_mid_step_is_continued_by_another(bench: Bench) {
    let job = bench.client.submit(greet("x")).lease(LEASE).await.unwrap();
    let mut process = Process::start("stuck", &bench);
    let theirs = process.child.id();
    process.expect(&format!("stuck after {theirs}"));
    process.kill();
    let here = |_: Greet, cx: Cx| async move {
        let one = cx.step("one", async { anyhow::Ok(std::process::id()) }).await?;
        let two = cx.step("two", async { anyhow::Ok(std::process::id()) }).await?;
        anyhow::Ok(format!("{one} {two}"))
    };
    let running = Started::new(bench.worker().handle(here));
    assert_eq!(job.result(LONG).await.unwrap(), format!("{theirs} {}", std::process::id()));
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Lost, AttemptOutcome::Completed]);
    assert_eq!(bench.job(job.id()).await.job.crashes, 1);
    running.stop().await;
    bench.verify().await;
}

async fn zombie(_: Greet, cx: Cx) -> anyhow::Result<String> {
    cx.log("alive").await?;
    // What was written is on disk and all readers have seen it; now nothing moves in this process.
    tokio::time::sleep(Duration::from_millis(300)).await;
    say("started");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    let refused = |name: &str, is_refused: bool| say(format!("{name} {is_refused}"));
    refused("checkpoint", cx.checkpoint(&"undead").await.is_err());
    refused("log", cx.log("undead").await.is_err());
    refused("progress", cx.progress(99.0, "undead").await.is_err());
    refused("limit", cx.limit_to(LONG).await.is_err());
    refused("step", cx.step("undead", async { anyhow::Ok(1) }).await.is_err());
    refused("children", cx.spawn_all([greet("undead")], GroupStrategy::FailFast).await.is_err());
    cx.cost(1_000_000);
    Ok("undead".into())
}

/// A worker that stands still while it holds jobs that were claimed ahead, until it is killed.
async fn hold_ahead(queue: &Client) {
    let (_alive, end) = sync_channel(1);
    let (_runtime, control) = lost::doomed(queue, || say("held"), end);
    let read = || tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    read().await.unwrap().unwrap();
    control.pause(PauseMode::Graceful);
    say("paused");
    read().await.unwrap().unwrap();
    control.resume();
    std::future::pending::<()>().await;
}

/// Model: counters-and-fences, crashes-and-poison, leases-and-heartbeats. Of a process that is killed only what it had started is charged with a crash.
async fn a_killed_process_costs_nothing_that_it_had_claimed_ahead(bench: Bench) {
    let mut process = Process::start("ahead", &bench);
    lost::warm_up(&bench).await;
    process.say("pause");
    process.expect("paused");
    let jobs = lost::submit_slow(&bench).await;
    process.say("go");
    process.expect("held");
    let (started, _) = lost::split(&bench, &jobs).await;
    process.kill();
    lost::run_again(&bench, jobs, &started).await;
    bench.verify().await;
}

/// Model: counters-and-fences, one-lease-at-a-time. A process that was stopped past its lease and continues writes nothing.
async fn a_zombie_writes_nothing(bench: Bench) {
    let job = bench.client.submit(greet("x")).lease(LEASE).await.unwrap();
    let mut process = Process::start("zombie", &bench);
    process.expect("started");
    process.signal("STOP");
    let running = Started::new(bench.worker().handle(|_: Greet| async { anyhow::Ok("alive".to_owned()) }));
    assert_eq!(job.result(LONG).await.unwrap(), "alive");
    let before = bench.job(job.id()).await;
    process.signal("CONT");
    process.say("go");
    for write in ["checkpoint", "log", "progress", "limit", "step", "children"] {
        process.expect(&format!("{write} true"));
    }
    // Its outcome is on its way before it deregisters.
    process.terminate();
    assert_eq!(bench.job(job.id()).await, before);
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "alive");
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Lost, AttemptOutcome::Completed]);
    let logs = bench.client.api().logs(bench.client.caller(), job.id(), 0).await.unwrap().unwrap();
    assert_eq!(logs.iter().map(|(_, line)| &*line.text).collect::<Vec<_>>(), ["alive"]);
    assert!(
        bench.client.api().checkpoints(bench.client.caller(), job.id()).await.unwrap().unwrap().is_empty()
    );
    let states = bench.client.api().stats(bench.client.caller()).await.unwrap().states;
    assert_eq!(states.values().sum::<u64>(), 1, "no child was born: {states:?}");
    running.stop().await;
    bench.verify().await;
}

const CHILDREN: u64 = 100;

async fn parent(_: Add, cx: Cx) -> anyhow::Result<u64> {
    let policy = RetryPolicy { max_attempts: 10, ..RetryPolicy::fixed() };
    let drafts = (0..CHILDREN)
        .map(|number| JobBuilder::new(&greet(&number.to_string())).lease(LEASE).retry(policy.clone()));
    let results = cx.spawn_all(drafts, GroupStrategy::FailFast).await?.all()?;
    say(format!("resumed in attempt {}", cx.attempt()));
    if let Ok(State(sender)) = <State<EventSender> as windlass::handler::Extract>::extract(&cx) {
        sender.say(format!("resumed in attempt {}", cx.attempt()));
    }
    Ok(results.len() as u64)
}

/// Model: crashes-and-poison, child-groups
async fn a_fan_out_survives_the_death_of_its_workers(bench: Bench) {
    let (sender, mut received) = events();
    let job = bench.client.submit(Add { numbers: vec![] }).lease(LEASE).await.unwrap();
    for _ in 0..2 {
        let mut process = Process::start("family", &bench);
        for _ in 0..20 {
            process.expect("started");
        }
        process.kill();
    }
    assert_eq!(bench.job(job.id()).await.job.state, JobState::Waiting);
    let running = Started::new(bench.worker().with(sender).queue("default", 8).handle(parent).handle(brief));
    assert_eq!(job.result(LONG).await.unwrap(), CHILDREN);
    received.expect("resumed in attempt 2").await;
    assert_eq!(received.all(), [""; 0], "and only once");
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Parked, AttemptOutcome::Completed]);
    let groups = bench.client.api().groups(bench.client.caller(), job.id()).await.unwrap().unwrap();
    assert_eq!((groups.len(), groups[0].children.len() as u64), (1, CHILDREN));
    running.stop().await;
    bench.verify().await;
}

/// Runs each test on every engine that several processes can share.
macro_rules! on_every_shared_engine {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Bench::new(super::On::Sqlite)).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Bench::new(super::On::Postgres)).await;
            })*
        }
    };
}

on_every_shared_engine!(
    a_hundred_terminations_burn_no_attempt,
    a_worker_killed_in_mid_step_is_continued_by_another,
    a_killed_process_costs_nothing_that_it_had_claimed_ahead,
    a_zombie_writes_nothing,
    a_fan_out_survives_the_death_of_its_workers,
);
