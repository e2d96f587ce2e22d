//! Through a pooler in transaction mode, where nothing that is said of a session can be relied on, nor may be left behind.

use std::process::Command;
use std::time::Duration;

use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, NewWorker};

use super::{LONG, open, submit, verify};
use crate::fixture::cluster::{Cluster, schema_at};
use crate::fixture::pooler::{Pooler, encoded};

/// Fewer than the suite has; a filter that finds none would pass.
const TESTS_MIN: usize = 400;

/// The tests that run on every engine, those on PostgreSQL: what a caller can see of a store, and a walk through it.
fn suite() -> Vec<String> {
    let listed = Command::new(std::env::current_exe().unwrap()).args(["--list", "--format=terse"]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let is_meant = |name: &&str| {
        (name.starts_with("conformance::") && name.contains("::postgres::"))
            || *name == "random::any_walk_looks_the_same_on_postgres_as_in_memory"
    };
    listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(is_meant)
        .map(str::to_owned)
        .collect()
}

/// Model: at-least-once, one-lease-at-a-time, wake-ups. The same suite, with a way past the pooler for notifications.
#[test]
fn the_whole_suite_passes_through_a_pooler() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let pooler = Pooler::before(&cluster);
    let names = suite();
    assert!(names.len() >= TESTS_MIN, "{} tests", names.len());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--exact").args(&names).env("WINDLASS_WALK_SEEDS", "1");
    let address = format!("{}&listen={}", pooler.address(), encoded(&cluster.address()));
    let output = command.env("WINDLASS_TEST_POSTGRES", address).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let interesting: Vec<&str> = said.lines().filter(|line| !line.ends_with("... ok")).collect();
    assert!(output.status.success(), "{}", interesting.join("\n"));
    assert!(said.contains(&format!("{} passed; 0 failed; 0 ignored", names.len())), "{interesting:?}");
    let transactions = pooler.transactions();
    assert!(transactions > 10 * names.len() as u64, "{transactions} transactions went through the pooler");
    assert_eq!(left_behind(&cluster), "", "nothing stayed behind on a connection");
}

/// Sessions that hold a lock while all nodes are idle.
fn left_behind(cluster: &Cluster) -> String {
    cluster.query("SELECT locktype, pid FROM pg_locks WHERE locktype = 'advisory'")
}

/// Model: wake-ups. Without that way there are no notifications; waiting callers are woken nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_know_only_the_pooler_find_each_others_work_by_looking() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let pooler = Pooler::before(&cluster);
    let address = schema_at(&pooler.address());
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
        assert_eq!(claimed.jobs.len(), 1);
    }
    verify(&here).await;
    assert_eq!(cluster.query("SELECT * FROM pg_listening_channels()"), "");
    let listening = "SELECT query FROM pg_stat_activity WHERE query ILIKE 'listen%' OR query ILIKE 'set %'";
    assert_eq!(
        cluster.query(listening),
        "",
        "no session subscribed or set anything on a connection that is shared"
    );
    here.close();
    there.close();
    assert_eq!(left_behind(&cluster), "", "nothing stayed behind on a connection");
}
