//! Several nodes on one database: no node claims what another has, each learns what another did, one clock rules.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;
use windlass::clock::{Clock, Reading, SystemClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::error::WorkError;
use windlass::internal::Timing;
use windlass::job::{JobState, SuspendMode, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{
    ActionRequest, ClaimRequest, Environment, Fallback, Finish, HeartbeatItem, NewWorker, Outcome, Pause,
    PauseTarget, Report, Store, StoreOptions, SubmitOptions, Suspend,
};

use super::proxy::Proxy;
use super::sql_submit::stranger;
use super::{LONG, numbered, open, open_with, submit, verify};
use crate::fixture::cluster::{Cluster, new_schema, schema_at};
use crate::fixture::queue;

/// Jobs and claimers of the race.
const JOBS: usize = 100_000;
const NODES: usize = 4;
const CLAIMERS_PER_NODE: usize = 16;

/// Model: counters-and-fences, one-lease-at-a-time. Sixty-four claimers on four nodes share the work, and none of it is handed out twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_claimers_on_many_nodes_claim_each_job_once() {
    let address = new_schema();
    let nodes: Vec<Store> = (0..NODES).map(|_| open(&address)).collect();
    let me = Caller::local();
    for first in (0..JOBS).step_by(10_000) {
        let jobs = (first..first + 10_000).map(numbered).collect();
        nodes[0].submit(&me, jobs, SubmitOptions::default()).await.unwrap();
    }
    let mut claimers = Vec::new();
    for node in &nodes {
        let worker = node.register(&me, NewWorker::default()).await.unwrap().id;
        for _ in 0..CLAIMERS_PER_NODE {
            let (node, me) = (node.clone(), me.clone());
            claimers.push(tokio::spawn(async move {
                let mut own = Vec::new();
                loop {
                    let request = ClaimRequest::new(worker, 100);
                    let claimed = node.claim(&me, &request, Duration::ZERO).await?.jobs;
                    if claimed.is_empty() {
                        return Ok::<_, WorkError>(own);
                    }
                    let done = |job: &windlass::job::JobRecord| {
                        Report::new(job.id, job.fence, Outcome::Completed { result: None })
                    };
                    let reports = claimed.iter().map(|claimed| done(&claimed.job)).collect();
                    own.extend(claimed.iter().map(|claimed| claimed.job.id));
                    node.finish(&me, worker, reports).await?;
                }
            }));
        }
    }
    let mut all = HashSet::new();
    let mut total = 0;
    for claimer in claimers {
        let own = claimer.await.unwrap().expect("claims are answered");
        total += own.len();
        all.extend(own);
    }
    assert_eq!((total, all.len()), (JOBS, JOBS), "each job was claimed, and by one");
    let stats = nodes[1].stats(&me).await.unwrap();
    assert_eq!(stats.states.get(&JobState::Completed).copied(), Some(JOBS as u64));
    verify(&nodes[2]).await;
    nodes.iter().for_each(Store::close);
}

/// Model: wake-ups. A caller that waits on one node is woken by a submission on another, with notifications and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waits_is_woken_by_another_node() {
    for option in ["", "&notify=off", "&statement_cache=off", "&statement_cache=off&notify=on"] {
        let address = format!("{}{option}", new_schema());
        let (here, there) = (open(&address), open(&address));
        let me = Caller::local();
        let worker = there.register(&me, NewWorker::default()).await.unwrap().id;
        for number in 0..5 {
            let (there, me) = (there.clone(), me.clone());
            let waiting = tokio::spawn(async move {
                there.claim(&me, &ClaimRequest::new(worker, 1), Duration::from_secs(30)).await
            });
            submit(&here, number).await;
            let claimed = tokio::time::timeout(LONG, waiting).await.expect("in time").unwrap().unwrap();
            assert_eq!(claimed.jobs.len(), 1, "{option}");
        }
        here.close();
        there.close();
    }
}

/// Polling that no test waits for.
fn seldom() -> Timing {
    Timing { backstop_every: Duration::from_secs(3600), ..Timing::default() }
}

/// Nothing was found by polling that a notification should have reported.
fn assert_nothing_was_polled(store: &Store) {
    for what in Fallback::ALL {
        assert_eq!(store.environment().metrics.fallbacks(what), 0, "{what:?}");
    }
}

/// A claim that waits on one node gets what another submits.
async fn picks_up(there: &Store, worker: WorkerId, submitting: impl Future<Output = ()>) {
    let (waiting, me) = (there.clone(), Caller::local());
    let claim = tokio::spawn(async move {
        waiting.claim(&me, &ClaimRequest::new(worker, 1), Duration::from_secs(30)).await
    });
    while !there.environment().wakeups.has_waiters() && !claim.is_finished() {
        tokio::task::yield_now().await;
    }
    submitting.await;
    let claimed = tokio::time::timeout(LONG, claim).await.expect("in time").unwrap().unwrap();
    assert_eq!(claimed.jobs.len(), 1, "it was woken");
}

/// Model: wake-ups. Notifications alone are enough, from the first commit of a node on, and after its change listener was cut off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_is_picked_up_on_another_node_without_polling() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let address = schema_at(&cluster.address());
    let (here, there) = (open_with(&address, seldom()), open_with(&address, seldom()));
    let me = Caller::local();
    // Both commit before their change listeners are connected.
    let worker = there.register(&me, NewWorker::default()).await.unwrap().id;
    submit(&here, 0).await;
    picks_up(&there, worker, async {}).await;
    for number in 1..10 {
        picks_up(&there, worker, submit(&here, number)).await;
    }
    // The change listeners lose their connections, and reconnect.
    let listening = "FROM pg_stat_activity WHERE (query LIKE '%pg_notify%' OR query LIKE '%LISTEN%' \
                     OR query LIKE '%inbox%' OR query LIKE '%GROUP BY 1%') AND pid <> pg_backend_pid()";
    cluster.query(&format!("SELECT count(pg_terminate_backend(pid)) {listening}"));
    submit(&here, 10).await;
    picks_up(&there, worker, async {}).await;
    for number in 11..20 {
        picks_up(&there, worker, submit(&here, number)).await;
    }
    // A store that is opened only to submit.
    picks_up(&there, worker, async {
        let short = open_with(&address, seldom());
        submit(&short, 20).await;
        short.close();
    })
    .await;
    assert_nothing_was_polled(&here);
    assert_nothing_was_polled(&there);
    verify(&here).await;
    here.close();
    there.close();
}

/// How many nodes say that a caller waits there.
async fn waiting_nodes(client: &Client, schema: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock' \
         AND (classid::bigint << 32 | objid::bigint) = \
         ('x' || left(encode(sha256('windlass {schema} waiting'), 'hex'), 16))::bit(64)::bigint"
    );
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Model: wake-ups. Commits are announced only while a caller waits on another node, who then misses none; polling is not needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_announced_while_no_node_waits() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    let here = open_with(&address.replace(&cluster.address(), &proxy.address()), seldom());
    let there = open_with(&address, seldom());
    let worker = there.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
    submit(&here, 0).await;
    // The change listener is connected, and says so once.
    while proxy.announcements() == 0 {
        tokio::task::yield_now().await;
    }
    let before = proxy.announcements();
    for number in 1..500 {
        submit(&here, number).await;
    }
    let announced = proxy.announcements() - before;
    assert!(announced < 8, "{announced} announcements without a listener");
    let (client, schema) = stranger(&address).await;
    assert_eq!(waiting_nodes(&client, &schema).await, 0);
    let all = ClaimRequest::new(worker, 1_000);
    assert_eq!(there.claim(&Caller::local(), &all, Duration::ZERO).await.unwrap().jobs.len(), 500);
    for number in 500..520 {
        picks_up(&there, worker, submit(&here, number)).await;
    }
    assert!(proxy.announcements() > before + announced, "a caller waits");
    assert_eq!(waiting_nodes(&client, &schema).await, 1, "and not here");
    assert_nothing_was_polled(&here);
    assert_nothing_was_polled(&there);
    here.close();
    there.close();
}

/// A node where no caller waits any more says so after a few polls, and again that one does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_is_over_some_time_after_the_last_waiter() {
    let address = new_schema();
    let store =
        open_with(&address, Timing { backstop_every: Duration::from_millis(10), ..Timing::default() });
    let (client, schema) = stranger(&address).await;
    for _ in 0..3 {
        let events = store.events(&Caller::local(), 0);
        let all = async {
            while waiting_nodes(&client, &schema).await != 1 {}
            drop(events);
            while waiting_nodes(&client, &schema).await != 0 {}
        };
        tokio::time::timeout(LONG, all).await.expect("in time");
    }
    store.close();
}

/// Claims that wait, heartbeats and maintenance of idle nodes leave the store's lock to others: they look at a snapshot, except when a sign
/// of life is to be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_nodes_with_workers_hardly_take_the_lock() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&proxy.address());
    let timing = Timing { backstop_every: Duration::from_millis(10), ..Timing::default() };
    let nodes: Vec<Store> = (0..NODES).map(|_| open_with(&address, timing)).collect();
    let me = Caller::local();
    let mut workers = Vec::new();
    for node in &nodes {
        let worker = node.register(&me, NewWorker::default()).await.unwrap().id;
        node.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap();
        node.tick().await.unwrap();
        workers.push((node.clone(), worker, node.events(&me, 0)));
    }
    let (turns, looks) = (proxy.turns(), proxy.looks());
    while proxy.looks() < looks + 200 {
        let mut idle = tokio::task::JoinSet::new();
        for (node, worker, _) in &workers {
            let (node, me, worker) = (node.clone(), me.clone(), *worker);
            idle.spawn(async move {
                let request = ClaimRequest::new(worker, 1);
                let claimed = node.claim(&me, &request, Duration::from_millis(500)).await.unwrap();
                assert!(claimed.jobs.is_empty());
                node.heartbeat(&me, worker, Vec::new()).await.unwrap();
                node.tick().await.unwrap();
            });
        }
        idle.join_all().await;
    }
    let (turns, looks) = (proxy.turns() - turns, proxy.looks() - looks);
    println!("{turns} turns beside {looks} looks");
    assert!(turns * 3 < looks, "{turns} turns beside {looks} looks");
    // What arrives is claimed nevertheless.
    submit(&nodes[0], 0).await;
    picks_up(&nodes[1], workers[1].1, async {}).await;
    verify(&nodes[2]).await;
    nodes.iter().for_each(Store::close);
}

/// Model: leases-and-heartbeats, wake-ups. A worker on one node learns what another node does to its job, also among many submissions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interruption_arrives_on_another_node_without_polling() {
    let suspend = Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() };
    // Only the first ends the job, which others wait for, too.
    for act in [ActionRequest::Cancel { reason: None }, ActionRequest::Suspend(suspend)] {
        is_seen_on_another_node(act).await;
    }
}

async fn is_seen_on_another_node(act: ActionRequest) {
    let address = new_schema();
    let (here, there) = (open_with(&address, seldom()), open_with(&address, seldom()));
    let me = Caller::local();
    let worker = there.register(&me, NewWorker::default()).await.unwrap().id;
    submit(&here, 0).await;
    let mut claimed = Vec::new();
    while claimed.is_empty() {
        claimed = there.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap().jobs;
    }
    let job = claimed[0].job.clone();
    let (waiting, caller) = (there.clone(), me.clone());
    let beating = tokio::spawn(async move {
        loop {
            let beats = vec![HeartbeatItem::new(job.id, job.fence)];
            let reply = waiting.heartbeat_wait(&caller, worker, beats, Duration::from_secs(20)).await?;
            // The change listener wakes all waiting callers when it connects.
            if reply.is_interrupted() {
                return Ok::<_, WorkError>(());
            }
        }
    });
    while !there.environment().wakeups.has_waiters() {
        tokio::task::yield_now().await;
    }
    for number in 1..200 {
        submit(&here, number).await;
    }
    here.act(&me, claimed[0].job.id, act).await.unwrap();
    tokio::time::timeout(LONG, beating).await.expect("in time").unwrap().unwrap();
    assert_nothing_was_polled(&there);
    here.close();
    there.close();
}

/// Polling finds what no notification reported, and counts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unannounced_commit_is_found_by_polling_and_counted() {
    let address = new_schema();
    let (mute, there) = (open(&format!("{address}&notify=off")), open(&address));
    let me = Caller::local();
    let worker = there.register(&me, NewWorker::default()).await.unwrap().id;
    let counted = async {
        for number in 0.. {
            picks_up(&there, worker, submit(&mute, number)).await;
            if there.environment().metrics.fallbacks(Fallback::Node) > 0 {
                break;
            }
        }
    };
    tokio::time::timeout(LONG, counted).await.expect("it is counted");
    mute.close();
    there.close();
}

/// Model: pause-reason-and-expiry. A pause made on one node binds the next claim on every other.
#[tokio::test]
async fn a_pause_binds_every_node_at_once() {
    let address = new_schema();
    let (here, there) = (open(&address), open(&address));
    let me = Caller::local();
    let worker = there.register(&me, NewWorker::default()).await.unwrap().id;
    submit(&here, 1).await;
    here.pause(&me, PauseTarget::Queue(queue("default")), Pause::default()).await.unwrap();
    let claimed = there.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap();
    assert!(claimed.jobs.is_empty(), "the queue is paused");
    here.close();
    there.close();
}

/// Model: audit-trail. Events of one node reach those who listen on another, in order and without a gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_reach_every_node_in_order() {
    let address = new_schema();
    let (here, there) = (open(&address), open(&address));
    let me = Caller::local();
    let mut events = there.events(&me, 0);
    let worker = here.register(&me, NewWorker::default()).await.unwrap().id;
    for number in 0..20 {
        submit(&here, number).await;
        let claimed = here.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap().jobs;
        let job = &claimed[0].job;
        let report = Report::new(job.id, job.fence, Outcome::Completed { result: None });
        here.finish(&me, worker, vec![report]).await.unwrap();
    }
    for number in 1..=20 {
        let event = tokio::time::timeout(LONG, events.next()).await.expect("in time").unwrap();
        assert_eq!(event.seq, number);
    }
    here.close();
    there.close();
}

/// Model: store-time. A node whose clock is off by an hour stamps what it does with the database's time nevertheless.
#[tokio::test]
async fn a_node_with_a_wrong_clock_goes_by_the_databases() {
    let address = new_schema();
    let right = SystemClock::new();
    for wrong_by in [3_600_000, -3_600_000] {
        let clock = WrongClock { by: wrong_by, machine: SystemClock::new() };
        let env = Environment::new(Arc::new(clock), Entropy::from_system(), StoreOptions::default());
        let store = Store::open_in(&address, env).unwrap();
        let receipts =
            store.submit(&Caller::local(), vec![numbered(1)], SubmitOptions::default()).await.unwrap();
        let (stamped, now) = (receipts[0].job.created_at, right.now());
        assert!(stamped.since(now).max(now.since(stamped)) < LONG, "{stamped} is not near {now}");
        store.close();
    }
}

/// The clocks of a machine whose wall clock is off.
struct WrongClock {
    /// In milliseconds.
    by: i64,
    machine: SystemClock,
}

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.machine.now().as_millis() + self.by)
    }

    fn reading(&self) -> Option<Reading> {
        let reading = self.machine.reading()?;
        Some(Reading { wall: Timestamp::from_millis(reading.wall.as_millis() + self.by), ..reading })
    }
}

/// Model: one-lease-at-a-time. A node keeps the jobs that it claimed at hand while others commit, but not those that others have changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_job_that_another_node_changed_is_not_taken_from_the_cache() {
    let address = new_schema();
    let (here, there) = (open(&address), open(&address));
    let (me, none) = (Caller::local(), Duration::ZERO);
    for number in 0..3 {
        submit(&there, number).await;
    }
    let worker = here.register(&me, NewWorker::default()).await.unwrap().id;
    let claimed = here.claim(&me, &ClaimRequest::new(worker, 3), none).await.unwrap().jobs;
    let report = |at: usize, outcome| Report::new(claimed[at].job.id, claimed[at].job.fence, outcome);
    let completed = |at: usize| report(at, Outcome::Completed { result: None });
    // Through the other node one is given back and claimed again, and one is finished.
    there.finish(&me, worker, vec![report(0, Outcome::Released), completed(1)]).await.unwrap();
    let other = there.register(&me, NewWorker::default()).await.unwrap().id;
    let again = there.claim(&me, &ClaimRequest::new(other, 1), none).await.unwrap().jobs;
    assert_eq!(again[0].job.id, claimed[0].job.id);
    let answers = here.finish(&me, worker, (0..3).map(completed).collect()).await.unwrap();
    assert_eq!(answers, [Finish::Stale, Finish::Stale, Finish::Applied(JobState::Completed)]);
    // What was read here is at hand here from now on, and what was claimed there is there.
    let job = &again[0].job;
    let beats = vec![HeartbeatItem::new(job.id, job.fence)];
    here.heartbeat(&me, other, beats).await.unwrap();
    let report = Report::new(job.id, job.fence, Outcome::Completed { result: None });
    assert_eq!(there.finish(&me, other, vec![report]).await.unwrap(), [Finish::Applied(JobState::Completed)]);
    verify(&here).await;
    [here, there].iter().for_each(Store::close);
}
