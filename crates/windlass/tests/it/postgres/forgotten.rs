//! Commits of other nodes between a commit and the question whether it was made: however many there are, nothing is done
//! twice, and what was acknowledged and is gone is noticed.

use std::time::Duration;

use tokio_postgres::Client;
use windlass::error::{StoreError, SubmitError};
use windlass::store::caller::Caller;
use windlass::store::{Store, SubmitOptions};

use super::proxy::{Cut, Proxy};
use super::sql_submit::stranger;
use super::turns::{commits, turn};
use super::{LONG, numbered, numbers, open, open_in_turn, submit, verify};
use crate::fixture::cluster::{Cluster, new_schema, schema_at};
use crate::fixture::observed::agree;

/// More than any node reads of others, or keeps for them, by count.
const MANY: i64 = 5_000;

/// Commits as another node makes them, which change nothing else.
async fn others_commit(client: &mut Client, schema: &str, count: i64) {
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({})", turn(schema))).await.unwrap();
    let columns = "at, next_seq, next_record, config_version, counts_base, generation";
    let sql = format!(
        "INSERT INTO {schema}.commits (n, nonce, has_swept, {columns}) \
         SELECT n + i, (42::bigint << 32) | i, false, {columns} FROM {schema}.commits, generate_series(1, {count}) i \
         WHERE n = (SELECT max(n) FROM {schema}.commits)"
    );
    transaction.batch_execute(&sql).await.unwrap();
    transaction.commit().await.unwrap();
}

/// A node behind a proxy whose commit is cut, another node beside it, and a client that commits as many others would.
struct Case {
    proxy: Proxy,
    store: Store,
    beside: Store,
    client: Client,
    schema: String,
    _cluster: Cluster,
}

impl Case {
    async fn new() -> Case {
        let cluster = Cluster::start(&["-c fsync=off"]);
        let proxy = Proxy::before(cluster.folder());
        let address = schema_at(&proxy.address());
        let store = open_in_turn(&address);
        let direct = address.replace(&proxy.address(), &cluster.address());
        let beside = open_in_turn(&direct);
        let (client, schema) = stranger(&direct).await;
        submit(&store, 0).await;
        submit(&beside, 2).await;
        Case { proxy, store, beside, client, schema, _cluster: cluster }
    }

    /// Submits job 1 with its commit cut, and lets others commit and `meanwhile` happen before the node can ask.
    async fn submit_during(&mut self, cut: Cut, others: i64, meanwhile: &str) -> Result<(), SubmitError> {
        let before = commits(&self.client, &self.schema).await;
        self.proxy.arm_and_shut(cut);
        let store = self.store.clone();
        let submitting = tokio::spawn(async move {
            store.submit(&Caller::local(), vec![numbered(1)], SubmitOptions::default()).await.map(|_| ())
        });
        while self.proxy.cuts() == 0 {
            tokio::task::yield_now().await;
        }
        // What the server was asked to commit, it has committed once the lock is free.
        others_commit(&mut self.client, &self.schema, others).await;
        let made = i64::from(cut != Cut::BeforeCommit);
        assert_eq!(commits(&self.client, &self.schema).await, before + made + others);
        self.client.batch_execute(&meanwhile.replace('@', &self.schema)).await.unwrap();
        self.proxy.shut(false);
        tokio::time::timeout(LONG, submitting).await.expect("in time").unwrap()
    }

    /// Both nodes continue and show exactly these jobs.
    async fn continues_with(&self, expected: &[usize]) {
        submit(&self.beside, 3).await;
        submit(&self.store, 4).await;
        let nodes = [self.store.clone(), self.beside.clone()];
        agree(&nodes, expected).await;
        nodes.iter().for_each(Store::close);
    }
}

/// Model: atomic-changes, at-least-once. One submission is one job, also if the others have committed thousands of times before its node could ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_found_however_many_others_came_after_it() {
    for others in [0, 1, 300, MANY] {
        for cut in [Cut::AfterCommit, Cut::BeforeCommit] {
            let mut case = Case::new().await;
            case.submit_during(cut, others, "").await.unwrap_or_else(|error| panic!("{others}: {error}"));
            println!("{cut:?} with {others} commits of others");
            case.continues_with(&[0, 1, 2, 3, 4]).await;
        }
    }
}

/// Model: atomic-changes. A commit that is not remembered is neither called made nor made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_forgotten_is_not_known_and_never_made_again() {
    let mut case = Case::new().await;
    let forget = "DELETE FROM @.commits WHERE n < (SELECT max(n) FROM @.commits) - 4500";
    let answer = case.submit_during(Cut::AfterCommit, MANY, forget).await;
    let Err(SubmitError::Store(StoreError::Unavailable(why))) = answer else { panic!("{answer:?}") };
    assert!(why.contains("not known"), "{why}");
    // It was made, once.
    case.continues_with(&[0, 1, 2, 3, 4]).await;
}

/// Model: at-least-once. A database that lost what it had acknowledged is noticed, however much others have added to it since.
#[tokio::test]
async fn acknowledged_commits_that_are_gone_stop_the_node_however_late_it_looks() {
    for others in [0, 20, 320, MANY] {
        let address = new_schema();
        let nodes = [open(&address), open(&address)];
        for (number, node) in nodes.iter().enumerate() {
            submit(node, number).await;
        }
        let (mut client, schema) = stranger(&address).await;
        // As after a restore: the last commits that the nodes know are others now.
        let lose = format!(
            "UPDATE {schema}.commits SET nonce = nonce + 1 WHERE n > (SELECT max(n) FROM {schema}.commits) - 2"
        );
        client.batch_execute(&lose).await.unwrap();
        others_commit(&mut client, &schema, others).await;
        for node in nodes {
            let answer = node.submit(&Caller::local(), vec![numbered(2)], SubmitOptions::default()).await;
            let Err(SubmitError::Store(StoreError::Stopped(why))) = answer else {
                panic!("with {others} commits of others: {answer:?}")
            };
            assert!(why.contains("lost commit"), "{why}");
            node.close();
        }
    }
}

/// A node that does nothing while the others commit thousands of times is not taken for one that lost something.
#[tokio::test]
async fn an_idle_node_continues_after_its_last_commit_was_forgotten() {
    let address = new_schema();
    let store = open(&address);
    submit(&store, 1).await;
    let (mut client, schema) = stranger(&address).await;
    others_commit(&mut client, &schema, MANY).await;
    let forget =
        format!("DELETE FROM {schema}.commits WHERE n < (SELECT max(n) FROM {schema}.commits) - 4500");
    client.batch_execute(&forget).await.unwrap();
    submit(&store, 2).await;
    assert_eq!(numbers(&store).await, [1, 2]);
    verify(&store).await;
    store.close();
}

/// Commits are kept by age: thousands of young ones stay, old ones go.
#[tokio::test]
async fn commits_are_kept_by_time_not_by_count() {
    let address = new_schema();
    let store = open_in_turn(&address);
    submit(&store, 1).await;
    let (mut client, schema) = stranger(&address).await;
    let kept = async |client: &Client| -> i64 {
        // But for the row that a new schema begins with, which has no time.
        let sql = format!("SELECT count(*) FROM {schema}.commits WHERE at > 0");
        client.query_one(&sql, &[]).await.unwrap().get(0)
    };
    // Up to the next commit that tidies up.
    let fill = async |client: &mut Client, least: i64| {
        let next = commits(client, &schema).await + least;
        others_commit(client, &schema, least + 255 - next % 256).await;
    };
    fill(&mut client, 2 * MANY).await;
    let before = kept(&client).await;
    submit(&store, 2).await;
    assert_eq!(commits(&client, &schema).await % 256, 0, "this one tidied up");
    assert_eq!(kept(&client).await, before + 1, "all of them are young");
    let age = Duration::from_secs(3600).as_millis();
    client.batch_execute(&format!("UPDATE {schema}.commits SET at = at - {age}")).await.unwrap();
    for number in 3..20 {
        fill(&mut client, 0).await;
        submit(&store, number).await;
    }
    let left = kept(&client).await;
    assert!((4_096..4_096 + 512).contains(&left), "{left} of {before} are left");
    store.close();
}
