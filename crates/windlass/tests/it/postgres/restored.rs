//! Databases that were put back to an earlier moment, and standbys that took over: a worker from before writes nothing into
//! what another worker runs now, on any node.

mod old_workers;

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::{StoreError, SubmitError, WorkError};
use windlass::job::{GroupStrategy, JobState, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass::store::{
    AttemptWrite, ClaimRequest, ClaimedJob, Finish, LeaseRef, NewGroup, NewWorker, Outcome, Report, Store,
    SubmitOptions,
};

use super::{numbered, open, submit, verify};
use crate::fixture::cluster::{Cluster, schema_at, schema_of};

fn me() -> Caller {
    Caller::local()
}

async fn register(node: &Store) -> WorkerId {
    node.register(&me(), NewWorker::default()).await.unwrap().id
}

async fn claim(node: &Store, worker: WorkerId) -> ClaimedJob {
    let request = ClaimRequest::new(worker, 1);
    let mut jobs = node.claim(&me(), &request, Duration::ZERO).await.unwrap().jobs;
    assert_eq!(jobs.len(), 1, "there is one job to claim");
    jobs.remove(0)
}

async fn finish(node: &Store, worker: WorkerId, claimed: &ClaimedJob) -> Finish {
    let report = Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result: None });
    node.finish(&me(), worker, vec![report]).await.unwrap().remove(0)
}

/// Everything a worker writes for a job that it claimed before the loss: all of it is rejected.
async fn writes_nothing(node: &Store, worker: WorkerId, before: &ClaimedJob) {
    let (job, fence) = (before.job.id, before.job.fence);
    for worker in [Some(worker), None] {
        let lease = LeaseRef { job, fence, worker };
        let checkpoint = AttemptWrite::Checkpoint { step: "charge".into(), value: b"1".to_vec() };
        let refused = node.record(&me(), lease, vec![checkpoint]).await;
        assert_eq!(refused, Err(WorkError::Stale(job)), "a checkpoint by {worker:?}");
        let (name, jobs) = ("children".into(), vec![numbered(99)]);
        let group = NewGroup { name, strategy: GroupStrategy::CollectAll, jobs };
        let refused = node.spawn(&me(), lease, group).await.err();
        assert_eq!(refused, Some(WorkError::Stale(job)), "children by {worker:?}");
    }
    assert_eq!(finish(node, worker, before).await, Finish::Stale);
    assert!(node.checkpoints(&me(), job).await.unwrap().unwrap().is_empty());
}

/// The audit records of the generations that began.
async fn reasons(node: &Store) -> Vec<String> {
    let query =
        RecordQuery { event: Some(AuditEvent::GenerationChanged), limit: 100, ..RecordQuery::default() };
    let records = node.audit(&me(), query).await.unwrap();
    records
        .iter()
        .map(|record| {
            let context: serde_json::Value = serde_json::from_str(&record.context).unwrap();
            context["reason"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// A store with one job and one worker, which no process has open.
async fn with_a_job(address: &str) -> WorkerId {
    let node = open(address);
    submit(&node, 0).await;
    let worker = register(&node).await;
    node.close();
    worker
}

/// A job that a worker claimed after the moment that the database was put back to.
struct Before {
    worker: WorkerId,
    claimed: ClaimedJob,
}

async fn claimed_before(node: &Store, worker: WorkerId) -> Before {
    Before { worker, claimed: claim(node, worker).await }
}

/// Two nodes on the database as it is now: another worker has the job, and the one from before writes nothing.
async fn another_worker_runs_it(address: &str, before: &Before, generation: u64) -> Vec<String> {
    let nodes = [open(address), open(address)];
    let other = register(&nodes[1]).await;
    nodes[1].tick().await.unwrap();
    let again = claim(&nodes[1], other).await;
    assert_eq!(again.job.id, before.claimed.job.id);
    assert_ne!(again.job.fence, before.claimed.job.fence);
    assert_eq!((again.job.failures, again.job.crashes), (0, 0), "nothing counts as a failure");
    for node in &nodes {
        assert_eq!(node.generation().await.unwrap(), generation);
        writes_nothing(node, before.worker, &before.claimed).await;
    }
    assert_eq!(finish(&nodes[0], other, &again).await, Finish::Applied(JobState::Completed));
    let reasons = reasons(&nodes[0]).await;
    verify(&nodes[0]).await;
    nodes.iter().for_each(Store::close);
    reasons
}

async fn is_stopped(node: &Store) -> bool {
    let answer = node.submit(&me(), vec![numbered(1)], SubmitOptions::default()).await;
    matches!(answer, Err(SubmitError::Store(StoreError::Stopped(_))))
}

/// Model: counters-and-fences, store-generation, one-lease-at-a-time. Files of the cluster put back under running nodes. Both find commits missing and stop; the generation begins
/// once, and holds for the nodes that are started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_find_commits_missing_begin_a_new_generation() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let address = schema_at(&cluster.address());
    let worker = with_a_job(&address).await;
    cluster.keep_copy("backup");
    let nodes = [open(&address), open(&address)];
    let before = claimed_before(&nodes[0], worker).await;
    // Both nodes know commits that the copy does not have.
    for node in &nodes {
        register(node).await;
    }
    cluster.put_back("backup");
    for node in &nodes {
        assert!(is_stopped(node).await, "a node that knows of missing commits stops");
        node.close();
    }
    let reasons = another_worker_runs_it(&address, &before, 2).await;
    assert!(matches!(&reasons[..], [reason] if reason.contains("lost commit")), "{reasons:?}");
}

/// Model: counters-and-fences, one-lease-at-a-time. Put back while no node ran, which cannot be noticed. The random bits of the fence still tell the claims apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_differ_after_an_unnoticed_restore() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let address = schema_at(&cluster.address());
    let worker = with_a_job(&address).await;
    cluster.keep_copy("backup");
    let node = open(&address);
    let before = claimed_before(&node, worker).await;
    node.close();
    cluster.put_back("backup");
    assert_eq!(another_worker_runs_it(&address, &before, 1).await, Vec::<String>::new());
    // The operator who restored it says so.
    let node = open(&address);
    submit(&node, 1).await;
    let worker = register(&node).await;
    let held = claim(&node, worker).await;
    let begun = node.begin_generation(&me(), "the database was restored").await.unwrap();
    assert_eq!((begun.number, begun.released), (2, 1));
    writes_nothing(&node, worker, &held).await;
    node.close();
}

/// Model: counters-and-fences, store-generation, one-lease-at-a-time. A dump that is restored is another set of tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_dump_begins_a_new_generation() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let address = schema_at(&cluster.address());
    let worker = with_a_job(&address).await;
    let node = open(&address);
    let dump = cluster.dump(schema_of(&address));
    let before = claimed_before(&node, worker).await;
    node.close();
    cluster.restore_dump(schema_of(&address), &dump);
    let reasons = another_worker_runs_it(&address, &before, 2).await;
    assert!(matches!(&reasons[..], [reason] if reason.contains("tables were created again")), "{reasons:?}");
}

/// Model: store-generation. A standby that takes over is on another timeline: leases of before are over, also where nothing was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_begins_a_new_generation() {
    let (primary, standby, address) = Cluster::pair();
    let worker = with_a_job(&address).await;
    let node = open(&address);
    let before = claimed_before(&node, worker).await;
    let clusters = tokio::task::spawn_blocking(move || {
        primary.crash();
        standby.promote();
        (primary, standby)
    });
    let clusters = clusters.await.unwrap();
    // The same node continues, and finds the other timeline with its first commit.
    node.tick().await.unwrap();
    writes_nothing(&node, worker, &before.claimed).await;
    node.close();
    let reasons = another_worker_runs_it(&address, &before, 2).await;
    assert!(matches!(&reasons[..], [reason] if reason.contains("timeline")), "{reasons:?}");
    drop(clusters);
}

/// A role that may not ask which server it is works nevertheless; a restored dump is still found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_permissions_is_served() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    cluster.query("CREATE ROLE app LOGIN");
    cluster.query("GRANT CREATE ON DATABASE postgres TO app");
    cluster.query("REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_walfile_name(pg_lsn) FROM PUBLIC");
    let address = schema_at(&cluster.address().replace("user=windlass", "user=app"));
    let worker = with_a_job(&address).await;
    let node = open(&address);
    let dump = cluster.dump(schema_of(&address));
    let before = claimed_before(&node, worker).await;
    assert_eq!(node.generation().await.unwrap(), 1);
    node.close();
    cluster.restore_dump(schema_of(&address), &dump);
    let reasons = another_worker_runs_it(&address, &before, 2).await;
    assert!(matches!(&reasons[..], [reason] if reason.contains("tables were created again")), "{reasons:?}");
}
