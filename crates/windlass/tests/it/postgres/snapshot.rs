//! Another program's transaction that stays open under load, so that nothing can be cleaned up: the textbook queue walks ever more
//! dead rows. Two stores take the same load in turns, in two databases of one server, one of them with such a transaction;
//! whatever else the machine does meets both alike.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Client;
use windlass::job::WorkerId;
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, ClaimedJob, NewWorker, Outcome, Report, Store, SubmitOptions};

use super::{numbered, open, verify};
use crate::fixture::cluster::{Cluster, schema_at};

/// How long the load lasts by default; `WINDLASS_SNAPSHOT_SECONDS` says otherwise.
const SECONDS: u64 = 8;
/// Jobs of one round, by how many claims they are taken, and jobs that wait all the time.
const JOBS: usize = 24;
const CLAIMS: usize = 6;
const BACKLOG: usize = 1_000;
/// Jobs that come and go before anything is measured, so that a queue which walks dead rows has some to walk.
const CHURN: usize = 5_000;
/// Claims beside an open transaction take at most so many times as long as without, by their percentiles.
const RATIO_MAX: f64 = 2.0;
/// Slowest claims that a percentile must leave out to be compared: one or two of them say what the machine did, not the
/// database.
const SLOWEST_MIN: usize = 20;

/// One of the two stores.
struct Side {
    address: String,
    store: Store,
    worker: WorkerId,
    /// How long each claim took.
    claims: Vec<Duration>,
}

impl Side {
    async fn new(address: &str) -> Side {
        let address = schema_at(address);
        let store = open(&address);
        let worker = store.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
        Side { address, store, worker, claims: Vec::new() }
    }

    /// Lets many jobs come and go, and has some left that wait.
    async fn churn(&self) {
        self.submit(CHURN).await;
        while self.claim_and_finish(500).await > 0 {}
        self.submit(BACKLOG).await;
    }

    async fn submit(&self, count: usize) {
        let jobs = (0..count).map(numbered).collect();
        self.store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
    }

    async fn claim(&self, limit: usize) -> Vec<ClaimedJob> {
        let request = ClaimRequest::new(self.worker, limit);
        self.store.claim(&Caller::local(), &request, Duration::ZERO).await.unwrap().jobs
    }

    async fn finish(&self, claimed: &[ClaimedJob]) {
        let done = || Outcome::Completed { result: None };
        let reports = claimed.iter().map(|claimed| Report::new(claimed.job.id, claimed.job.fence, done()));
        self.store.finish(&Caller::local(), self.worker, reports.collect()).await.unwrap();
    }

    async fn claim_and_finish(&self, limit: usize) -> usize {
        let claimed = self.claim(limit).await;
        if !claimed.is_empty() {
            self.finish(&claimed).await;
        }
        claimed.len()
    }

    /// Claims and finishes a part of a round.
    async fn work(&mut self) {
        let start = Instant::now();
        let claimed = self.claim(JOBS / CLAIMS).await;
        self.claims.push(start.elapsed());
        assert_eq!(claimed.len(), JOBS / CLAIMS, "there is always enough to do");
        self.finish(&claimed).await;
    }

    /// How long the claim took that so many in a hundred were no slower than.
    fn percentile(&self, percent: usize) -> Duration {
        let mut claims = self.claims.clone();
        claims.sort_unstable();
        claims[claims.len() * percent / 100]
    }
}

#[tokio::test]
async fn a_transaction_that_stands_open_does_not_slow_claims_down() {
    let seconds = std::env::var("WINDLASS_SNAPSHOT_SECONDS").ok().and_then(|value| value.parse().ok());
    let cluster = Cluster::start(&["-c fsync=off", "-c autovacuum_naptime=1s"]);
    cluster.query("CREATE DATABASE pinned");
    let pinned = cluster.address().replace("/postgres?", "/pinned?");
    let (mut free, mut held) = (Side::new(&cluster.address()).await, Side::new(&pinned).await);
    let client = connect(&pinned).await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    client.batch_execute(begin).await.unwrap();
    free.churn().await;
    held.churn().await;
    let (start, time) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(SECONDS)));
    while start.elapsed() < time {
        free.submit(JOBS).await;
        held.submit(JOBS).await;
        for _ in 0..CLAIMS {
            free.work().await;
            held.work().await;
        }
    }
    // What a session counted is reported when it ends, at the latest.
    free.store.close();
    held.store.close();
    let other = connect(&cluster.address()).await;
    let dead = count(&client, "n_dead_tup", "pg_stat_user_tables").await;
    let walked = count(&client, "idx_tup_read", "pg_stat_user_indexes").await;
    let walked_without = count(&other, "idx_tup_read", "pg_stat_user_indexes").await;
    let jobs = CHURN + held.claims.len() * JOBS / CLAIMS;
    let ratio = |percent| held.percentile(percent).as_secs_f64() / free.percentile(percent).as_secs_f64();
    println!("{jobs} jobs on each side, {} claims timed, {dead} dead rows kept", held.claims.len());
    println!("entries of the index walked: {walked_without} without, {walked} beside it");
    for percent in [50, 90, 99] {
        let (without, with) = (free.percentile(percent), held.percentile(percent));
        println!("claim p{percent}: {without:?} without, {with:?} beside it, {:.2} times", ratio(percent));
    }
    assert!(dead > jobs / 2, "the open transaction kept {dead} dead rows of {jobs} jobs");
    assert!(walked < 2 * walked_without + jobs, "{walked} entries of the index, {walked_without} without");
    for percent in [50, 90, 99] {
        if held.claims.len() * (100 - percent) / 100 >= SLOWEST_MIN {
            assert!(ratio(percent) <= RATIO_MAX, "p{percent}: {:.2} times", ratio(percent));
        }
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    for address in [&free.address, &held.address] {
        let store = open(address);
        verify(&store).await;
        store.close();
    }
}

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// What the server counted for the table of what can be claimed.
async fn count(client: &Client, what: &str, view: &str) -> usize {
    let sql = format!("SELECT coalesce(sum({what}), 0)::bigint FROM {view} WHERE relname = 'ready'");
    usize::try_from(client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0)).unwrap()
}
