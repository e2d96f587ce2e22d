//! Somebody's transaction that stands open under load, so that nothing can be cleaned up: the textbook queue walks ever more
//! dead rows. Two stores take the same load in turns, in two databases of one server, one of them with such a transaction;
//! whatever else the machine does meets both alike.

use std::time::Duration;

use tokio::time::Instant;
use windlass::job::WorkerId;
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::claim::ClaimRequest;
use windlass::store::command::finish::{Outcome, Report};
use windlass::store::command::submit::SubmitOptions;
use windlass::store::command::worker::NewWorker;

use super::{numbered, open, verify};
use crate::fixture::cluster::{Cluster, schema_at};

/// How long the load lasts by default; `WINDLASS_SNAPSHOT_SECONDS` says otherwise.
const SECONDS: u64 = 8;
/// Jobs of one round, by how many claims they are taken, and jobs that wait all the time.
const JOBS: usize = 24;
const CLAIMS: usize = 6;
const BACKLOG: usize = 1_000;
/// The 99th percentile of claims beside an open transaction, at most so many times that without.
const RATIO_MAX: f64 = 2.0;

/// One of the two stores.
struct Side {
    store: Store,
    worker: WorkerId,
    /// How long each claim took.
    claims: Vec<Duration>,
}

impl Side {
    async fn new(address: &str) -> Side {
        let store = open(&schema_at(address));
        let worker = store.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
        let side = Side { store, worker, claims: Vec::new() };
        side.submit(BACKLOG).await;
        side
    }

    async fn submit(&self, count: usize) {
        let jobs = (0..count).map(numbered).collect();
        self.store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
    }

    /// Claims and finishes a part of a round.
    async fn work(&mut self) {
        let (me, request) = (Caller::local(), ClaimRequest::new(self.worker, JOBS / CLAIMS));
        let began = Instant::now();
        let claimed = self.store.claim(&me, &request, Duration::ZERO).await.unwrap().jobs;
        self.claims.push(began.elapsed());
        assert_eq!(claimed.len(), JOBS / CLAIMS, "there is always enough to do");
        let done = || Outcome::Completed { result: None };
        let reports = claimed.iter().map(|claimed| Report::new(claimed.job.id, claimed.job.fence, done()));
        self.store.finish(&me, self.worker, reports.collect()).await.unwrap();
    }

    /// The 99th percentile, without the first quarter: the dead rows have to be there first.
    fn slowest(&self) -> Duration {
        let mut claims = self.claims[self.claims.len() / 4..].to_vec();
        claims.sort_unstable();
        claims[claims.len() * 99 / 100]
    }
}

#[tokio::test]
async fn a_transaction_that_stands_open_does_not_slow_claims_down() {
    let seconds = std::env::var("WINDLASS_SNAPSHOT_SECONDS").ok().and_then(|value| value.parse().ok());
    let cluster = Cluster::start(&["-c fsync=off", "-c autovacuum_naptime=1s"]);
    cluster.query("CREATE DATABASE pinned");
    let pinned = cluster.address().replace("/postgres?", "/pinned?");
    let (mut free, mut held) = (Side::new(&cluster.address()).await, Side::new(&pinned).await);
    let (client, connection) = tokio_postgres::connect(&pinned, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
        .await
        .unwrap();

    let (began, time) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(SECONDS)));
    while began.elapsed() < time {
        free.submit(JOBS).await;
        held.submit(JOBS).await;
        for _ in 0..CLAIMS {
            free.work().await;
            held.work().await;
        }
    }
    let dead = "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE relname = 'ready'";
    let dead: usize = client
        .query(&format!("SELECT ({dead})::bigint"), &[])
        .await
        .map_or(0, |rows| usize::try_from(rows[0].get::<_, i64>(0)).unwrap_or(0));
    let jobs = held.claims.len() * JOBS / CLAIMS;
    let (without, with) = (free.slowest(), held.slowest());
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!(
        "{jobs} jobs in {time:?} on each side, {dead} dead rows kept: claim p99 {without:?} without, {with:?} beside an \
         open transaction, {ratio:.2} times"
    );
    assert!(dead > jobs / 2, "the open transaction kept {dead} dead rows of {jobs} jobs");
    assert!(ratio <= RATIO_MAX, "{ratio:.2} times");
    client.batch_execute("ROLLBACK").await.unwrap();
    for side in [&free, &held] {
        verify(&side.store).await;
        side.store.close();
    }
}
