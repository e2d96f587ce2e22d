//! Nothing that was sealed can be edited, removed, added or moved unseen (Model: audit-chain).

use windlass::audit::Seal;
use windlass::job::JobState;
use windlass::store::verify::AuditCheck;
use windlass::store::{
    ActionRequest, ListRequest, Pause, PauseTarget, Store, StoreOptions, SubmitOptions, TicketOptions,
};
use windlass::ticket::{TicketKey, TicketPublicKey};

use super::{edited, file_of};
use crate::fixture::{Fixture, On, new_job};

/// A sealed trail of eight records, and two more that are not sealed yet.
async fn sealed() -> Fixture {
    let t = Fixture::new(On::Sqlite);
    for state in JobState::FINAL.into_iter().cycle().take(8) {
        t.placed(state).await;
    }
    assert_eq!(t.store.seal().await.unwrap().seal.through, 8);
    t.placed(JobState::Completed).await;
    t.placed(JobState::Cancelled).await;
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

/// Model: audit-chain
#[tokio::test]
async fn an_untouched_trail_is_as_it_was_sealed() {
    assert!(found_after("").await.is_empty());
}

/// Model: audit-chain
#[tokio::test]
async fn an_edit_of_any_column_of_any_sealed_record_is_found() {
    let columns = [
        "event = event + 1",
        "alias = 'DONE'",
        "at = at + 1",
        "actor_type = 'system'",
        "actor_id = 'unknown'",
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

/// Model: audit-chain
#[tokio::test]
async fn a_removed_record_leaves_a_gap() {
    let findings = found_after("DELETE FROM audit WHERE seq = 4").await;
    assert!(findings.contains(&"record 4 is missing, 5 follows".to_owned()), "{findings:?}");
    let findings = found_after("DELETE FROM audit WHERE seq = 1").await;
    assert!(findings.contains(&"record 1 is missing, 2 follows".to_owned()), "{findings:?}");
}

/// Model: audit-chain
#[tokio::test]
async fn a_gap_that_was_closed_by_renumbering_is_found() {
    let closed = "DELETE FROM audit WHERE seq = 4; UPDATE audit SET seq = -(seq - 1) WHERE seq > 4; \
                  UPDATE audit SET seq = -seq WHERE seq < 0;";
    let findings = found_after(closed).await;
    let shortened = "records 10 to 10 were written and are missing";
    assert_eq!(findings, ["a record up to 8 is not as it was sealed", shortened]);
}

/// Model: audit-chain
#[tokio::test]
async fn two_records_that_changed_places_are_found() {
    let swapped = "UPDATE audit SET seq = -3 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 6; \
                   UPDATE audit SET seq = 6 WHERE seq = -3;";
    assert_eq!(found_after(swapped).await, ["a record up to 8 is not as it was sealed"]);
}

/// Model: audit-chain
#[tokio::test]
async fn a_trail_that_was_cut_off_is_found() {
    let findings = found_after("DELETE FROM audit WHERE seq > 6").await;
    let unsealed = "records 9 to 10 were written and are missing";
    assert_eq!(findings, ["records 7 to 8 were sealed and are missing", unsealed]);
    let findings = found_after("DELETE FROM audit").await;
    assert_eq!(findings, ["records 1 to 8 were sealed and are missing", unsealed]);
}

/// Model: audit-chain
#[tokio::test]
async fn the_audit_trail_continues_after_a_forgery_and_it_is_still_found() {
    let t = sealed().await;
    let store =
        edited(&t, |file| file.execute_batch("UPDATE audit SET actor_id = 'eve' WHERE seq = 2").unwrap())
            .await;
    // Later seals build on the chain as it was, not on what was forged.
    assert_eq!(store.seal().await.unwrap().seal.through, 10);
    assert!(!findings(&store).await.is_empty());
}

/// Model: audit-chain. The last records are missed although nothing had sealed them.
#[tokio::test]
async fn a_record_that_was_not_sealed_yet_is_missed() {
    for gone in ["DELETE FROM audit WHERE seq = 10", "DELETE FROM audit WHERE seq > 8"] {
        let first = if gone.contains('=') { 10 } else { 9 };
        let expected = [format!("records {first} to 10 were written and are missing")];
        assert_eq!(found_after(gone).await, expected);
        let t = sealed().await;
        let store = edited(&t, |file| file.execute_batch(gone).unwrap()).await;
        assert_eq!(findings(&store).await, expected, "also while the store is closed");
    }
}

/// Model: audit-chain. A record behind the last one is not sealed as if the store had written it.
#[tokio::test]
async fn a_record_that_the_store_did_not_write_is_found_and_not_sealed() {
    let forge = "INSERT INTO audit SELECT seq + 1, event, alias, at, actor_type, 'eve', tenant, job, trace_id, \
                 context, queue, type FROM audit WHERE seq = 10";
    let expected = ["records 11 to 11 are there, but the store has not written them"];
    assert_eq!(found_after(forge).await, expected);
    let t = sealed().await;
    let store = edited(&t, |file| file.execute_batch(forge).unwrap()).await;
    let refused = store.seal().await.unwrap_err().to_string();
    assert!(refused.contains("has written only up to record 10"), "{refused}");
    assert_eq!(findings(&store).await, expected, "it is still found");
    // Nor is it replaced by what the store writes next.
    let pause = store.pause(&t.me, PauseTarget::Gate, Pause::default()).await.unwrap_err().to_string();
    assert!(pause.contains("was not written by this store"), "{pause}");
}

/// Deletes all seals; their kind is the sixth.
const NO_SEALS: &str = "DELETE FROM documents WHERE kind = 6";

/// Model: audit-chain. An audit trail whose seals are gone is neither sound nor sealed again as if nothing had been there.
#[tokio::test]
async fn a_missing_seal_is_found_and_not_replaced() {
    let t = sealed().await;
    let missing = ["the audit trail was sealed up to record 8, but there is no seal"];
    let store = edited(&t, |file| file.execute_batch(NO_SEALS).unwrap()).await;
    assert_eq!(findings(&store).await, missing);
    let refused = store.seal().await.unwrap_err();
    assert!(refused.to_string().contains("sealed up to record 8"), "{refused}");
    assert_eq!(findings(&store).await, missing, "it is still found");
}

/// Model: audit-chain. Without the separate head a forger would only have to delete one row.
#[tokio::test]
async fn a_missing_head_is_found() {
    let t = sealed().await;
    file_of(&t).execute_batch("DELETE FROM documents WHERE kind = 17").unwrap();
    assert_eq!(findings(&t.store).await, ["there is a seal up to record 8, but no head"]);
}

/// Model: audit-chain. An attacker with database access can rewrite audit trail and seals; a head stored externally shows it.
#[tokio::test]
async fn a_head_stored_externally_shows_an_audit_trail_that_was_rewritten() {
    let t = sealed().await;
    let head = t.store.audit_head(&t.me).await.unwrap().unwrap().seal;
    let against = async |store: &Store, head: &Seal| {
        let check = AuditCheck { expected_head: Some(head.clone()), trusted: Vec::new() };
        store.verify_audit_with_progress(check, |_| {}).await.unwrap().findings
    };
    assert!(against(&t.store, &head).await.is_empty());
    t.store.seal().await.unwrap();
    assert!(against(&t.store, &head).await.is_empty(), "the audit trail may have grown");
    let later = t.store.audit_head(&t.me).await.unwrap().unwrap().seal;
    assert_eq!((head.through, later.through), (8, 10));
    let forged =
        "UPDATE audit SET actor_id = 'eve' WHERE seq = 2; DELETE FROM documents WHERE kind IN (6, 17)";
    let store = edited(&t, |file| file.execute_batch(forged).unwrap()).await;
    store.seal().await.unwrap();
    assert!(findings(&store).await.is_empty(), "the forged trail is sound in itself");
    assert_eq!(against(&store, &head).await, ["up to record 8 the audit trail is not the expected one"]);
    let beyond = Seal { through: 99, ..head };
    assert_eq!(against(&store, &beyond).await, ["the expected head is record 99, which does not exist"]);
}

/// Model: audit-chain, tickets. Seals are signed with the key of tickets, and one that is not signed does not follow one that is.
#[tokio::test]
async fn signed_seals_cannot_be_replaced_without_the_key() {
    let key = TicketKey::new([1, 2]);
    let tickets = Some(TicketOptions::new(key.clone()));
    let t = Fixture::with(On::Sqlite, StoreOptions { tickets, ..StoreOptions::default() }, 1);
    t.placed(JobState::Cancelled).await;
    t.store.seal().await.unwrap();
    assert!(findings(&t.store).await.is_empty());
    let point = t.store.audit_head(&t.me).await.unwrap().unwrap();
    assert_eq!(point.signature.as_ref().map(|by| by.key.clone()), Some(key.public().to_string()));
    // Without the key, an attacker with the file can only leave the signature out.
    let store = edited(&t, |_| {}).await;
    let me = &t.me;
    store.submit(me, vec![new_job("report")], SubmitOptions::default()).await.unwrap();
    let id = store.list(me, ListRequest::default()).await.unwrap().jobs[0].job.id;
    store.act(me, id, ActionRequest::Cancel { reason: None }).await.unwrap();
    store.seal().await.unwrap();
    let trusting = |trusted: Vec<TicketPublicKey>| AuditCheck { expected_head: None, trusted };
    let check = trusting(vec![key.public()]);
    let found = store.verify_audit_with_progress(check, |_| {}).await.unwrap().findings;
    assert_eq!(found, ["the seal up to record 2 is not signed, and should be"]);
}
