//! The schema: made once however many come at once, refused if it is newer, and not served where it was tampered with.

use windlass::error::{OpenError, StoreError};
use windlass::store::caller::Caller;
use windlass::store::{ActionRequest, Redrive, Store, StoreOptions, SubmitOptions};

use super::{numbered, open, verify};
use crate::fixture::cluster::{Cluster, new_schema};

/// Runs a statement in the schema of an address, past the store.
async fn meddle(address: &str, sql: &str) {
    let (server, schema) = address.rsplit_once("&schema=").expect("the schema comes last");
    let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path = {schema}; {sql}")).await.unwrap();
}

#[test]
fn many_nodes_that_start_at_once_make_the_schema_once() {
    let address = new_schema();
    std::thread::scope(|scope| {
        let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&address))).collect();
        for store in opening {
            store.join().expect("every node starts").close();
        }
    });
}

/// The role of an application often uses a schema that another role created, has short time limits, or reads by default.
/// On a server of its own: the trigger that makes the migration slow counts for all of it.
#[tokio::test]
async fn a_role_that_only_owns_its_schema_can_start_whatever_its_own_settings_are() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    for sql in [
        "CREATE ROLE app LOGIN; CREATE SCHEMA windlass AUTHORIZATION app",
        "ALTER ROLE app SET statement_timeout = '1500ms'",
        "ALTER ROLE app SET default_transaction_read_only = on",
        "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS \
         'BEGIN IF tg_tag = ''CREATE TABLE'' THEN PERFORM pg_sleep(0.2); END IF; END'",
        "CREATE EVENT TRIGGER slow ON ddl_command_end EXECUTE FUNCTION slow()",
    ] {
        cluster.query(sql);
    }
    let address = cluster.address().replace("user=windlass", "user=app");
    let store = Store::open(&address, StoreOptions::default()).expect("owning the schema is enough");
    store.submit(&Caller::local(), vec![numbered(1)], SubmitOptions::default()).await.unwrap();
    verify(&store).await;
    store.close();
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let address = new_schema();
    open(&address).close();
    meddle(&address, "INSERT INTO migrations (version, works_with) VALUES (99, 99)").await;
    let refused = Store::open(&address, StoreOptions::default()).err();
    assert!(matches!(refused, Some(OpenError::NewerSchema { found: 99, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_record_that_was_tampered_with_is_not_served() {
    let address = new_schema();
    let (store, me) = (open(&address), Caller::local());
    let job = store.submit(&me, vec![numbered(1)], SubmitOptions::default()).await.unwrap().remove(0).job;
    verify(&store).await;
    meddle(&address, "UPDATE hot SET record = set_byte(record, 5, get_byte(record, 5) # 1)").await;
    let served = store.get(&me, job.id).await;
    assert!(matches!(served, Err(StoreError::Damaged(_))), "{served:?}");
    store.close();
}

#[tokio::test]
async fn a_place_that_does_not_follow_from_its_record_is_found() {
    for sql in [
        "DELETE FROM ready",
        "UPDATE ready SET rank = 3",
        "DELETE FROM timers",
        "UPDATE hot SET state = 4",
        "INSERT INTO states VALUES (9, 1)",
        "UPDATE counts SET by = 2",
    ] {
        let address = new_schema();
        let (store, me) = (open(&address), Caller::local());
        store.submit(&me, vec![numbered(1)], SubmitOptions::default()).await.unwrap();
        verify(&store).await;
        store.close();
        meddle(&address, sql).await;
        let store = open(&address);
        let is_found = match store.verify().await {
            Ok(results) => results.iter().any(|result| !result.holds()),
            Err(error) => matches!(error, StoreError::Damaged(_)),
        };
        assert!(is_found, "{sql}");
        store.close();
    }
}

/// What was redriven before it was listed apart is found afterwards.
#[tokio::test]
async fn what_was_redriven_before_is_listed_apart_by_the_migration() {
    let step = include_str!("../../../src/store/engines/postgres/migrations/0004_recovery.sql");
    let from = step.find("DELETE FROM @.states").expect("the step moves what was redriven");
    let step = step[from..].split_once("\n\n").expect("other parts follow").0.replace("@.", "");
    let address = new_schema();
    let (store, me) = (open(&address), Caller::local());
    let jobs = (1..=4).map(numbered).collect();
    let jobs = store.submit(&me, jobs, SubmitOptions::default()).await.unwrap();
    for receipt in &jobs[..3] {
        store.act(&me, receipt.job.id, ActionRequest::Cancel { reason: None }).await.unwrap();
    }
    for redriven in [&jobs[0], &jobs[1], &jobs[1]] {
        store.redrive(&me, redriven.job.id, Redrive::default()).await.unwrap();
    }
    verify(&store).await;
    store.close();
    // As it was before.
    meddle(&address, "UPDATE states SET state = state - 20 WHERE state >= 20").await;
    meddle(&address, &step).await;
    let store = open(&address);
    verify(&store).await;
    store.close();
}
