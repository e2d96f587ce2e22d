//! A database server whose clock jumps, with two nodes on it: eight days ahead for a moment, ten minutes each way. Real
//! servers and real time; the nodes' own clocks are right.

mod load;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use windlass::job::{JobId, JobState, NewJob, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{
    ClaimRequest, ClaimedJob, Directive, HeartbeatItem, NewWorker, Outcome, Report, Store, SubmitOptions,
};

use super::sql_submit::stranger;
use super::turns::{hold, waiting};
use super::{LONG, numbered, open, submit, verify};
use crate::fixture::cluster::{Cluster, schema_at};
use crate::fixture::faketime;
use crate::fixture::observed::agree;

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// Two nodes that keep a store, and a worker that beats at the first.
struct Fleet {
    nodes: [Store; 2],
    worker: WorkerId,
    held: Vec<ClaimedJob>,
}

impl Fleet {
    async fn start(address: &str) -> Fleet {
        let nodes = [open(address), open(address)];
        let me = Caller::local();
        let worker = nodes[0].register(&me, NewWorker::default()).await.unwrap().id;
        let mut fleet = Fleet { nodes, worker, held: Vec::new() };
        fleet.submit((0..100).map(numbered).collect()).await;
        for done in fleet.claim(10).await {
            let report = Report::new(done.job.id, done.job.fence, Outcome::Completed { result: None });
            fleet.nodes[0].finish(&me, worker, vec![report]).await.unwrap();
        }
        fleet.held = fleet.claim(20).await;
        fleet
    }

    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let receipts = self.nodes[1].submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
        receipts.into_iter().map(|receipt| receipt.job.id).collect()
    }

    async fn claim(&self, limit: usize) -> Vec<ClaimedJob> {
        let request = ClaimRequest::new(self.worker, limit);
        self.nodes[0].claim(&Caller::local(), &request, Duration::ZERO).await.unwrap().jobs
    }

    /// Keeps the store on both nodes for some time, and until `is_enough`; every lease is held all along.
    async fn continue_run(&self, time: Duration, mut is_enough: impl FnMut(&Fleet) -> bool) {
        let began = Instant::now();
        let mut rounds = interval(Duration::from_millis(200));
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while began.elapsed() < time || !is_enough(self) {
            assert!(began.elapsed() < LONG, "{:?}", self.nodes[0].clock());
            rounds.tick().await;
            for node in &self.nodes {
                while node.tick().await.unwrap().has_more {}
            }
            let beats =
                self.held.iter().map(|held| HeartbeatItem::new(held.job.id, held.job.fence)).collect();
            let reply = self.nodes[0].heartbeat(&Caller::local(), self.worker, beats).await.unwrap();
            let lost =
                reply.directives.iter().filter(|(_, directive)| *directive != Directive::Continue).count();
            assert_eq!(lost, 0, "leases are lost");
        }
        for node in &self.nodes {
            assert_eq!(node.prune().await.unwrap(), 0);
        }
    }

    fn are_believing(&self, is_believed: bool) -> bool {
        self.nodes.iter().all(|node| node.clock().is_believed == is_believed)
    }

    async fn count(&self, state: JobState) -> u64 {
        self.nodes[0].stats(&Caller::local()).await.unwrap().states.get(&state).copied().unwrap_or(0)
    }

    async fn assert_whole(&self) {
        let counts = [self.count(JobState::Running).await, self.count(JobState::Completed).await];
        assert_eq!((counts, self.count(JobState::DeadLetter).await), ([20, 10], 0));
        verify(&self.nodes[0]).await;
    }
}

/// A server whose clock is off by what a file says, and that file.
fn clocked(options: &[&str]) -> (Cluster, PathBuf) {
    let options = [&["-c fsync=off"], options].concat();
    let cluster = Cluster::start_in(&options, &|folder| {
        faketime::set(&folder.join("clock"), 0);
        faketime::by_file(&folder.join("clock"))
    });
    let file = cluster.folder().join("clock");
    (cluster, file)
}

/// A job that is due in a second becomes due, by a clock that continues.
async fn time_continues(fleet: &Fleet) {
    let mut job = numbered(1_000);
    job.delay = Some(Duration::from_secs(1));
    let id = fleet.submit(vec![job]).await[0];
    let began = Instant::now();
    loop {
        fleet.continue_run(Duration::from_millis(200), |_| true).await;
        let found = fleet.nodes[1].get(&Caller::local(), id).await.unwrap().expect("the job is there");
        if found.job.state == JobState::Scheduled {
            return;
        }
        assert!(began.elapsed() < LONG, "it is {} at {}", found.job.state, fleet.nodes[1].clock().now);
    }
}

async fn jump(fleet: &Fleet, clock: &Path, seconds: i64, time: Duration) {
    let before = fleet.nodes[0].clock().now;
    let began = Instant::now();
    faketime::set(clock, seconds);
    fleet.continue_run(time, |fleet| fleet.are_believing(false)).await;
    let (moved, passed) = (fleet.nodes[0].clock().now.since(before), began.elapsed());
    assert!(moved <= passed * 2 + Duration::from_secs(1), "{seconds}: {moved:?} in {passed:?}");
    time_continues(fleet).await;
    faketime::set(clock, 0);
    fleet.continue_run(Duration::ZERO, |fleet| fleet.are_believing(true)).await;
    fleet.assert_whole().await;
}

/// Model: store-time, leases-and-heartbeats, lifetime, timer-precision, retention
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_clock_that_jumps_destroys_nothing() {
    let (cluster, clock) = clocked(&[]);
    let fleet = Fleet::start(&schema_at(&cluster.address())).await;
    jump(&fleet, &clock, 8 * DAY, Duration::from_secs(3)).await;
    jump(&fleet, &clock, 10 * MINUTE, Duration::from_secs(1)).await;
    jump(&fleet, &clock, -10 * MINUTE, Duration::from_secs(1)).await;
    fleet.nodes.iter().for_each(Store::close);
}

/// Model: store-time. A node that is started while the database's clock is wrong does not believe it; once an operator accepts it, every node
/// does, and no lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_started_on_a_database_with_a_wrong_clock_does_not_believe_it_until_it_is_accepted() {
    let (cluster, clock) = clocked(&[]);
    let address = schema_at(&cluster.address());
    let mut fleet = Fleet::start(&address).await;
    faketime::set(&clock, 10 * MINUTE);
    fleet.continue_run(Duration::ZERO, |fleet| fleet.are_believing(false)).await;
    fleet.nodes[1].close();
    fleet.nodes[1] = open(&address);
    assert!(!fleet.nodes[1].clock().is_believed, "its own clock says otherwise");
    fleet.continue_run(Duration::from_secs(1), |fleet| fleet.are_believing(false)).await;
    let before = fleet.nodes[0].clock().now;
    let accepted = fleet.nodes[1].accept_clock(&Caller::local()).await.unwrap();
    assert!(accepted.is_believed && accepted.now.since(before) >= Duration::from_secs(590), "{accepted:?}");
    fleet.continue_run(Duration::from_secs(2), |fleet| fleet.are_believing(true)).await;
    fleet.assert_whole().await;
    fleet.nodes.iter().for_each(Store::close);
}

/// Model: answer-time. The server measures waits by its wall clock. If that jumps while a node waits for its turn, the wait continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_does_not_cut_short_the_wait_for_a_turn() {
    // The server looks at its clock this long after a wait began.
    let (cluster, clock) = clocked(&["-c deadlock_timeout=500ms"]);
    let address = schema_at(&cluster.address());
    let nodes = [open(&address), open(&address)];
    nodes[0].tick().await.unwrap();
    let (client, schema) = stranger(&address).await;
    hold(&client, &schema, true).await;
    // A read of the clock within a wait shows the right time: the clock jumps ahead while the server waits.
    faketime::set(&clock, -DAY);
    let submitting = nodes.clone().map(|node| tokio::spawn(async move { submit(&node, 1).await }));
    waiting(&client, &schema, 2).await;
    let oldest = async || -> (i64, i64) {
        let sql = "SELECT count(*), (coalesce(min(extract(epoch FROM xact_start)), 0) * 1000)::bigint \
                   FROM pg_stat_activity WHERE wait_event = 'advisory'";
        let row = client.query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1))
    };
    let (first, began) = (oldest().await.1, Instant::now());
    // Both begin again, and wait for the same lock.
    while oldest().await.0 < 2 || oldest().await.1 < first + 400 {
        assert!(submitting.iter().all(|submitting| !submitting.is_finished()), "no call had a turn");
        assert!(began.elapsed() < LONG, "the server looks at its clock");
        tokio::task::yield_now().await;
    }
    hold(&client, &schema, false).await;
    for submitting in submitting {
        submitting.await.expect("it had its turn");
    }
    faketime::set(&clock, 0);
    agree(&nodes, &[1, 1]).await;
    nodes.iter().for_each(Store::close);
}
