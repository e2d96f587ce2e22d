//! Nothing that was sealed can be edited, removed, added or moved unseen (M93).

use windlass::job::State;
use windlass::store::Store;

use super::{edited, file_of};
use crate::fixture::{Fixture, On};

/// A sealed trail of eight records, and two more that are not sealed yet.
async fn sealed() -> Fixture {
    let t = Fixture::new(On::Sqlite);
    for state in State::FINAL.into_iter().cycle().take(8) {
        t.placed(state).await;
    }
    assert_eq!(t.store.seal().await.unwrap().seal.through, 8);
    t.placed(State::Completed).await;
    t.placed(State::Cancelled).await;
    t
}

async fn findings(store: &Store) -> Vec<String> {
    store.verify_audit().await.unwrap().findings
}

/// What a live store finds after these statements.
async fn found_after(statements: &str) -> Vec<String> {
    let t = sealed().await;
    file_of(&t).execute_batch(statements).unwrap();
    findings(&t.store).await
}

/// M93
#[tokio::test]
async fn an_untouched_trail_is_as_it_was_sealed() {
    assert!(found_after("").await.is_empty());
}

/// M93
#[tokio::test]
async fn an_edit_of_any_column_of_any_sealed_record_is_found() {
    let columns = [
        "event = event + 1",
        "alias = 'DONE'",
        "at = at + 1",
        "actor_type = 'system'",
        "actor_id = 'nobody'",
        "tenant = 'other'",
        "job = randomblob(16)",
        "trace_id = 'trace'",
        "context = '{}'",
    ];
    let t = sealed().await;
    let file = file_of(&t);
    file.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM audit").unwrap();
    for column in columns {
        for record in 1..=8 {
            file.execute_batch(&format!("UPDATE audit SET {column} WHERE seq = {record}")).unwrap();
            let found = findings(&t.store).await;
            assert_eq!(found, ["a record up to 8 is not as it was sealed"], "{column} of {record}");
            file.execute_batch("DELETE FROM audit; INSERT INTO audit SELECT * FROM kept").unwrap();
        }
    }
    assert!(findings(&t.store).await.is_empty(), "everything was put back");
}

/// M93
#[tokio::test]
async fn a_removed_record_leaves_a_gap() {
    let findings = found_after("DELETE FROM audit WHERE seq = 4").await;
    assert!(findings.contains(&"record 4 is missing, 5 follows".to_owned()), "{findings:?}");
    let findings = found_after("DELETE FROM audit WHERE seq = 1").await;
    assert!(findings.contains(&"record 1 is missing, 2 follows".to_owned()), "{findings:?}");
}

/// M93
#[tokio::test]
async fn a_gap_that_was_closed_by_renumbering_is_found() {
    let closed = "DELETE FROM audit WHERE seq = 4; UPDATE audit SET seq = -(seq - 1) WHERE seq > 4; \
                  UPDATE audit SET seq = -seq WHERE seq < 0;";
    let findings = found_after(closed).await;
    assert_eq!(findings, ["a record up to 8 is not as it was sealed"]);
}

/// M93
#[tokio::test]
async fn two_records_that_changed_places_are_found() {
    let swapped = "UPDATE audit SET seq = -3 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 6; \
                   UPDATE audit SET seq = 6 WHERE seq = -3;";
    assert_eq!(found_after(swapped).await, ["a record up to 8 is not as it was sealed"]);
}

/// M93
#[tokio::test]
async fn a_trail_that_was_cut_off_is_found() {
    let findings = found_after("DELETE FROM audit WHERE seq > 6").await;
    assert_eq!(findings, ["records 7 to 8 were sealed and are gone"]);
    let findings = found_after("DELETE FROM audit").await;
    assert_eq!(findings, ["records 1 to 8 were sealed and are gone"]);
}

/// M93
#[tokio::test]
async fn the_trail_goes_on_after_a_forgery_and_it_is_still_found() {
    let t = sealed().await;
    let store =
        edited(&t, |file| file.execute_batch("UPDATE audit SET actor_id = 'eve' WHERE seq = 2").unwrap())
            .await;
    // Later seals build on the chain as it was, not on what was forged.
    assert_eq!(store.seal().await.unwrap().seal.through, 10);
    assert!(!findings(&store).await.is_empty());
}
