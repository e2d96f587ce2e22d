//! Connections that are cut while a commit is under way: whatever was answered is there once, and nothing is there twice.

use std::time::Duration;

use windlass::store::caller::Caller;
use windlass::store::command::claim::ClaimRequest;
use windlass::store::command::finish::{Finish, Outcome, Report};
use windlass::store::command::worker::NewWorker;

use super::proxy::{Cut, Proxy};
use super::{numbers, open, submit, verify};
use crate::fixture::cluster::{Cluster, schema_at};

/// Connections that are cut in each of the two ways.
const CUTS: usize = 100;

/// M3, M100: a commit that nobody answered for is looked up, and done again only if it did not happen.
#[tokio::test]
async fn a_connection_cut_at_the_commit_loses_nothing_and_does_nothing_twice() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let store = open(&schema_at(&proxy.address()));
    let me = Caller::local();
    let worker = store.register(&me, NewWorker::default()).await.unwrap().id;
    for round in 0..CUTS {
        for (place, cut) in [Cut::BeforeCommit, Cut::AfterCommit].into_iter().enumerate() {
            proxy.arm(cut);
            submit(&store, 2 * round + place).await;
        }
    }
    assert_eq!(proxy.cuts(), 2 * CUTS, "every commit was cut once");
    assert_eq!(numbers(&store).await, (0..2 * CUTS).collect::<Vec<_>>());
    for round in 0..CUTS / 10 {
        let cut = if round % 2 == 0 { Cut::BeforeCommit } else { Cut::AfterCommit };
        proxy.arm(cut);
        let request = ClaimRequest::new(worker, 10);
        let claimed = store.claim(&me, &request, Duration::ZERO).await.unwrap().jobs;
        assert!(claimed.iter().all(|claimed| claimed.job.attempt == 1), "no job was claimed twice");
        let outcome = || Outcome::Completed { result: None };
        let reports: Vec<Report> =
            claimed.iter().map(|claimed| Report::new(claimed.job.id, claimed.job.fence, outcome())).collect();
        proxy.arm(cut);
        let answers = store.finish(&me, worker, reports).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Finish::Applied(_))), "{answers:?}");
    }
    verify(&store).await;
    store.close();
}
