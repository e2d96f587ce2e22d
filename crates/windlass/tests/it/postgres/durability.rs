//! Commits that others can see before they are on disk: the store's lock is released early, but no caller is answered
//! early.

use std::time::Duration;

use tokio::task::JoinHandle;
use windlass::internal::Timing;
use windlass::job::{NewJob, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{
    AttemptWrite, ClaimRequest, ClaimedJob, HeartbeatItem, NewWorker, Outcome, Report, Store, SubmitOptions,
};

use super::proxy::{Cut, Proxy};
use super::{LONG, in_turn, numbered, numbers_of_jobs, open_with, submit, verify};
use crate::fixture::cluster::{Cluster, schema_at, schema_of};
use crate::fixture::lease_ref;
use crate::fixture::observed::agree;

/// Submissions until each node knows that it is not alone, and has prepared its statements.
const ROUNDS: usize = 3;

/// Two nodes that know of each other, on a server that can be kept from writing its log unless it is asked to.
struct Pair {
    cluster: Cluster,
    proxy: Proxy,
    schema: String,
    here: Store,
    there: Store,
}

impl Pair {
    async fn start() -> Pair {
        // Pages that are written take the log with them.
        let cluster = Cluster::start(&["-c autovacuum=off -c bgwriter_lru_maxpages=0"]);
        let proxy = Proxy::before(cluster.folder());
        let address = schema_at(&cluster.address());
        // Callers wait for the server however long it takes to come back.
        let patient = Timing { request_max: LONG, outage_max: LONG, ..Timing::default() };
        // Submissions that wait for no turn are on disk before any caller sees them.
        let there = in_turn(&address);
        let here = open_with(&there.replace(&cluster.address(), &proxy.address()), patient);
        let there = open_with(&there, patient);
        for number in 0..ROUNDS {
            submit(&here, 2 * number).await;
            submit(&there, 2 * number + 1).await;
        }
        Pair { cluster, proxy, schema: schema_of(&address).to_owned(), here, there }
    }

    fn commits(&self) -> usize {
        self.cluster.query(&format!("SELECT max(n) FROM {}.commits", self.schema)).parse().unwrap()
    }

    /// Commits one more job here. The connection breaks before the disk is asked for, and the node gets no other one.
    async fn commit_without_flush(&self) -> JoinHandle<()> {
        self.cluster.freeze_wal_writer();
        let (before, here) = (self.commits(), self.here.clone());
        self.proxy.arm_and_shut(Cut::AfterCommit);
        let submitting = tokio::spawn(async move { submit(&here, 2 * ROUNDS).await });
        let seen = async {
            while self.commits() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, seen).await.expect("the commit is seen");
        let sql = "SELECT pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()";
        assert_eq!(self.cluster.query(sql), "t", "it is not on disk");
        submitting
    }

    /// The node is answered once it is connected again, and both show every job once.
    async fn end(self, submitting: JoinHandle<()>) {
        self.proxy.shut(false);
        tokio::time::timeout(LONG, submitting).await.expect("in time").unwrap();
        agree(&[self.here.clone(), self.there.clone()], &(0..=2 * ROUNDS).collect::<Vec<_>>()).await;
        verify(&self.there).await;
        self.here.close();
        self.there.close();
    }
}

/// Model: at-least-once. What a node has shown is there after a crash of the server, although the node that committed it never asked
/// for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_shown_is_on_disk() {
    let pair = Pair::start().await;
    let submitting = pair.commit_without_flush().await;
    assert_eq!(numbers_of_jobs(&pair.there).await, 2 * ROUNDS as u64 + 1);
    let commits = pair.commits();
    pair.cluster.restart("immediate");
    assert_eq!(pair.commits(), commits, "what was shown was not lost");
    assert_eq!(numbers_of_jobs(&pair.there).await, 2 * ROUNDS as u64 + 1);
    pair.end(submitting).await;
}

/// Model: at-least-once, atomic-changes. What a crash takes away was neither shown nor answered: nodes continue, and the change is made
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_a_crash_takes_away_was_answered_to_no_caller() {
    let pair = Pair::start().await;
    let submitting = pair.commit_without_flush().await;
    let commits = pair.commits();
    pair.cluster.restart("immediate");
    assert_eq!(pair.commits(), commits - 1, "it was not on disk");
    assert_eq!(numbers_of_jobs(&pair.there).await, 2 * ROUNDS as u64);
    assert!(!submitting.is_finished(), "no caller was answered");
    pair.end(submitting).await;
}

/// What a node is asked to do while its round trips are counted.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Submit,
    SubmitKeyed,
    Claim,
    Heartbeat,
    Checkpoint,
    Finish,
}

impl Verb {
    /// Everything that is frequent, with its round trips beside other nodes: that of the lock and the first reads, those of
    /// other reads, and that of the writes and the commit.
    const ALL: [(Verb, usize); 6] = [
        (Verb::Submit, 2),
        (Verb::SubmitKeyed, 5),
        (Verb::Claim, 2),
        (Verb::Heartbeat, 2),
        (Verb::Checkpoint, 3),
        (Verb::Finish, 2),
    ];

    async fn run(self, store: &Store, worker: WorkerId, held: &mut Vec<ClaimedJob>, number: usize) {
        let me = Caller::local();
        let keyed = || NewJob { idempotency_key: Some(format!("key {number}")), ..numbered(number) };
        match self {
            Verb::Submit => submit(store, number).await,
            Verb::SubmitKeyed => {
                store.submit(&me, vec![keyed()], SubmitOptions::default()).await.expect("is taken");
            }
            Verb::Claim => {
                let request = ClaimRequest::new(worker, 1);
                held.extend(store.claim(&me, &request, Duration::ZERO).await.expect("is possible").jobs);
            }
            Verb::Heartbeat => {
                let beats = held.iter().map(|held| HeartbeatItem::new(held.job.id, held.job.fence)).collect();
                store.heartbeat(&me, worker, beats).await.expect("is possible");
            }
            Verb::Checkpoint => {
                let step = AttemptWrite::Checkpoint { step: format!("step {number}"), value: b"1".to_vec() };
                store.record(&me, lease_ref(&held[0]), vec![step]).await.expect("is possible");
            }
            Verb::Finish => {
                let job = held.pop().expect("one is held").job;
                let report = Report::new(job.id, job.fence, Outcome::Completed { result: None });
                store.finish(&me, worker, vec![report]).await.expect("is possible");
            }
        }
    }
}

/// Beside other nodes the lock is held over one round trip by what is most frequent: the reads come with it, and the writes are sent
/// with the commit. A checkpoint compares names in another one, and keys take three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_other_nodes_the_lock_is_held_over_few_round_trips() {
    let pair = Pair::start().await;
    let worker = pair.here.register(&Caller::local(), NewWorker::default()).await.expect("is possible").id;
    let (mut held, mut number) = (Vec::new(), 2 * ROUNDS);
    // One that is held to the end, and claims whose habits are known.
    for _ in 0..2 * ROUNDS {
        Verb::Claim.run(&pair.here, worker, &mut held, 0).await;
    }
    let mut counted = Vec::new();
    for (verb, _) in Verb::ALL {
        let mut least = usize::MAX;
        for _ in 0..ROUNDS {
            submit(&pair.there, number).await;
            pair.proxy.count_round_trips(true);
            verb.run(&pair.here, worker, &mut held, number + 1).await;
            // The least of all: on a busy machine a message may arrive in two parts.
            least = least.min(pair.proxy.count_round_trips(false));
            number += 2;
        }
        counted.push(least);
    }
    assert_eq!(counted, Verb::ALL.map(|(_, expected)| expected), "{:?}", Verb::ALL.map(|(verb, _)| verb));
    verify(&pair.there).await;
    pair.here.close();
    pair.there.close();
}
