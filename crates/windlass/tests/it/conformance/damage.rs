//! Damage planted behind the store's back is found, each under the invariant it breaks. SQLite only: there is a file to edit.

mod in_the_way;
mod pending;
mod repair;
mod trail;
mod unreadable;
mod waits;

use std::sync::Arc;

use rusqlite::{Connection, params};
use windlass::entropy::Entropy;
use windlass::error::StoreError;
use windlass::job::{Dependency, Failure, GroupStrategy, JobId, JobState, NewJob};
use windlass::store::{Environment, NewGroup, Redrive, Store, StoreOptions};

use crate::fixture::{Fixture, On, lease_ref, new_job};

/// The store's file, for another program.
fn file_of(t: &Fixture) -> Connection {
    Connection::open(t.address.strip_prefix("sqlite:").expect("the engine has a file")).unwrap()
}

/// The store after its file was edited while it was closed.
async fn edited(t: &Fixture, edit: impl FnOnce(&Connection)) -> Store {
    t.store.close();
    edit(&file_of(t));
    let clock: Arc<windlass::clock::ManualClock> = t.clock.clone();
    let env = Environment::new(clock, Entropy::seeded(2), StoreOptions::default());
    Store::open_in(&t.address, env).expect("the file is still one")
}

/// The invariants that do not hold.
async fn broken(store: &Store) -> Vec<&'static str> {
    let results = store.verify().await.unwrap();
    results.into_iter().filter(|result| !result.holds()).map(|result| result.code).collect()
}

/// A job's packed record, to be changed and put back with a checksum that fits: an error of the program, not of the disk.
fn rewrite(file: &Connection, id: JobId, change: impl FnOnce(&mut Vec<u8>)) {
    let sql = "SELECT seq, lane, policy, record FROM hot WHERE id = ?1";
    let (seq, lane, policy, mut body): (i64, i64, i64, Vec<u8>) = file
        .query_row(sql, [id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap();
    body.truncate(body.len() - 4);
    change(&mut body);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(id.as_bytes());
    hasher.update(&lane.to_le_bytes());
    hasher.update(&policy.to_le_bytes());
    hasher.update(&body);
    body.extend(hasher.finalize().to_le_bytes());
    file.execute("UPDATE hot SET record = ?1 WHERE seq = ?2", params![body, seq]).unwrap();
}

/// Where the state is in a packed record: after the layout and the flags, of which all bytes but the last have the top bit.
fn place_of_state(body: &[u8]) -> usize {
    2 + body[1..].iter().take_while(|byte| **byte >= 0x80).count()
}

/// Where the number of open dependencies is: after state, two priorities, attempts, failures and crashes, all small here.
fn place_of_unmet(body: &[u8]) -> usize {
    place_of_state(body) + 6
}

/// Adds a row of job data, with its checksum.
fn add_job_data(file: &Connection, seq: i64, kind: i64, name: &str, number: i64, body: &str) {
    let mut hasher = crc32fast::Hasher::new();
    for part in [seq, kind, number, i64::try_from(name.len()).unwrap()] {
        hasher.update(&part.to_le_bytes());
    }
    hasher.update(name.as_bytes());
    hasher.update(body.as_bytes());
    let sql = "INSERT OR REPLACE INTO facets VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    file.execute(sql, params![seq, kind, name, number, hasher.finalize(), body.as_bytes()]).unwrap();
}

fn seq_of(file: &Connection, id: JobId) -> i64 {
    file.query_row("SELECT seq FROM hot WHERE id = ?1", [id.as_bytes()], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn an_unedited_file_is_sound() {
    let t = Fixture::new(On::Sqlite);
    for state in JobState::ALL {
        t.placed(state).await;
    }
    assert!(broken(&edited(&t, |_| ()).await).await.is_empty());
}

#[tokio::test]
async fn a_second_completion_is_found() {
    let t = Fixture::new(On::Sqlite);
    let (worker, claimed) = t.running(new_job("report")).await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(crate::fixture::secs(2));
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
    let store = edited(&t, |file| {
        let record =
            r#"{"worker":null,"started_at":1800000000000,"ended_at":1800000000000,"outcome":"completed"}"#;
        add_job_data(file, seq_of(file, claimed.job.id), 0, "", 1, record);
    })
    .await;
    assert_eq!(broken(&store).await, ["single_completion"]);
}

#[tokio::test]
async fn an_attempt_that_is_missing_is_found() {
    let t = Fixture::new(On::Sqlite);
    let placed = t.placed(JobState::Retrying).await;
    let store = edited(&t, |file| {
        let seq = seq_of(file, placed.id);
        assert_eq!(file.execute("DELETE FROM facets WHERE seq = ?1 AND kind = 0", [seq]).unwrap(), 1);
    })
    .await;
    assert_eq!(broken(&store).await, ["attempts"]);
}

#[tokio::test]
async fn a_counter_off_by_one_is_found() {
    let t = Fixture::new(On::Sqlite);
    t.placed(JobState::Scheduled).await;
    let store = edited(&t, |file| {
        assert_eq!(file.execute("UPDATE counts SET n = n + 1 WHERE n > 0", []).unwrap(), 1);
    })
    .await;
    assert_eq!(broken(&store).await, ["counters"]);
}

#[tokio::test]
async fn a_wrong_number_of_concurrency_keys_is_found() {
    for (sql, expected) in [
        ("UPDATE concurrency_keys SET n = n + 1", &["concurrency_keys"][..]),
        ("DELETE FROM concurrency_keys", &["concurrency_keys", "storage"]),
        ("UPDATE concurrency_key_totals SET n = n + 1", &["concurrency_keys", "storage"]),
        ("UPDATE concurrency_keys SET tenant = 'other'", &["concurrency_keys", "storage"]),
    ] {
        let t = Fixture::new(On::Sqlite);
        t.submit(NewJob { concurrency_key: Some("a".into()), ..new_job("sync") }).await;
        let store = edited(&t, |file| assert_eq!(file.execute(sql, []).unwrap(), 1)).await;
        assert_eq!(broken(&store).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_lease_without_a_running_job_is_found() {
    let t = Fixture::new(On::Sqlite);
    let placed = t.placed(JobState::Running).await;
    let store = edited(&t, |file| {
        rewrite(file, placed.id, |body| {
            let at = place_of_state(body);
            assert_eq!(body[at], JobState::Running as u8);
            body[at] = JobState::Scheduled as u8;
        });
    })
    .await;
    let found = broken(&store).await;
    assert!(found.contains(&"leases"), "{found:?}");
    assert!(found.contains(&"counters"), "the counters still say that it runs: {found:?}");
}

#[tokio::test]
async fn a_wrong_number_of_open_dependencies_is_found() {
    let t = Fixture::new(On::Sqlite);
    let placed = t.placed(JobState::Pending).await;
    let store = edited(&t, |file| {
        rewrite(file, placed.id, |body| {
            let at = place_of_unmet(body);
            assert_eq!(body[at], 1);
            body[at] = 2;
        });
    })
    .await;
    assert_eq!(broken(&store).await, ["dependencies"]);
}

#[tokio::test]
async fn a_lost_edge_is_found() {
    let t = Fixture::new(On::Sqlite);
    let first = t.submit(new_job("first")).await.id;
    t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await;
    let store = edited(&t, |file| assert_eq!(file.execute("DELETE FROM edges", []).unwrap(), 1)).await;
    assert_eq!(broken(&store).await, ["dependencies"]);
}

#[tokio::test]
async fn a_group_that_miscounts_its_children_is_found() {
    let t = Fixture::new(On::Sqlite);
    let (_, parent) = t.running(new_job("parent")).await;
    let jobs = vec![new_job("child"); 2];
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs };
    t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
    let store = edited(&t, |file| {
        let body =
            r#"{"name":"all","strategy":"collect_all","total":2,"open":1,"completed":1,"decided":null}"#;
        add_job_data(file, seq_of(file, parent.job.id), 5, "", 1, body);
    })
    .await;
    assert_eq!(broken(&store).await, ["children"]);
}

/// A child of a live parent that is missing is found, and leaves an empty slot instead of moving the others.
#[tokio::test]
async fn a_child_that_its_parent_needs_and_is_gone_is_found() {
    let t = Fixture::new(On::Sqlite);
    let (_, parent) = t.running(new_job("parent")).await;
    let jobs = vec![new_job("child"); 3];
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs };
    let children = t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap().children;
    t.cancel(children[1].id).await;
    let store = edited(&t, |file| {
        let seq = seq_of(file, children[1].id);
        assert_eq!(file.execute("DELETE FROM hot WHERE seq = ?1", [seq]).unwrap(), 1);
        assert_eq!(file.execute("DELETE FROM jobs WHERE seq = ?1", [seq]).unwrap(), 1);
        file.execute("UPDATE counts SET n = 0 WHERE state = 11", []).unwrap();
    })
    .await;
    assert_eq!(broken(&store).await, ["children"]);
    let group = store.groups(&t.me, parent.job.id).await.unwrap().unwrap().remove(0);
    let slots = group.into_slots().into_iter().map(|slot| slot.map(|(child, _)| child.id));
    assert_eq!(slots.collect::<Vec<_>>(), [Some(children[0].id), None, Some(children[2].id)]);
}

#[tokio::test]
async fn a_unique_key_that_was_given_away_is_found() {
    let t = Fixture::new(On::Sqlite);
    t.submit(NewJob { unique_key: Some("only".into()), ..new_job("report") }).await;
    let store = edited(&t, |file| assert_eq!(file.execute("DELETE FROM keys", []).unwrap(), 1)).await;
    assert_eq!(broken(&store).await, ["keys"]);
}

#[tokio::test]
async fn a_checkpoint_that_is_missing_is_found() {
    let t = Fixture::new(On::Sqlite);
    let (_, claimed) = t.running(new_job("report")).await;
    t.checkpoint(&claimed, "one", "1").await;
    t.checkpoint(&claimed, "two", "2").await;
    let store = edited(&t, |file| {
        assert_eq!(file.execute("DELETE FROM facets WHERE name = 'one' AND kind = 1", []).unwrap(), 1);
    })
    .await;
    assert_eq!(broken(&store).await, ["checkpoints"]);
}

/// Model: payload. Damage is never served.
#[tokio::test]
async fn a_changed_byte_is_never_served() {
    let edits = [
        "UPDATE jobs SET payload = CAST('{\"to\":\"a@b.d\"}' AS BLOB)",
        "UPDATE jobs SET owner = 'mallory'",
        "UPDATE hot SET record = CAST(substr(record, 1, 5) || x'07' || substr(record, 7) AS BLOB)",
        "UPDATE hot SET lane = lane + 1",
    ];
    for edit in edits {
        let t = Fixture::new(On::Sqlite);
        let id = t.submit(new_job("report")).await.id;
        let store = edited(&t, |file| assert_eq!(file.execute(edit, []).unwrap(), 1)).await;
        let answer = store.get(&t.me, id).await;
        assert!(matches!(answer, Err(StoreError::Damaged(_))), "{edit}: {answer:?}");
        if edit.contains("jobs") {
            assert_eq!(broken(&store).await, ["payloads"], "{edit}");
        } else {
            let answer = store.verify().await;
            assert!(matches!(answer, Err(StoreError::Damaged(_))), "{edit}: {answer:?}");
        }
    }
}

/// Model: payload, steps
#[tokio::test]
async fn a_changed_checkpoint_or_result_is_never_served() {
    let t = Fixture::new(On::Sqlite);
    let (_, claimed) = t.running(new_job("report")).await;
    t.checkpoint(&claimed, "one", "1").await;
    let store = edited(&t, |file| {
        assert_eq!(file.execute("UPDATE facets SET body = CAST('2' AS BLOB) WHERE kind = 1", []).unwrap(), 1);
    })
    .await;
    let answer = store.checkpoints(&t.me, claimed.job.id).await;
    assert!(matches!(answer, Err(StoreError::Damaged(_))), "{answer:?}");
}

/// What was redriven before it was listed apart is found after the migration.
#[tokio::test]
async fn what_was_redriven_before_is_listed_apart_by_the_migration() {
    let step = include_str!("../../../src/store/engines/sqlite/migrations/0002_recovery.sql");
    let from = step.find("UPDATE hot SET order_key = 1").expect("the step moves what was redriven");
    let step = &step[from..=from + step[from..].find(';').expect("a statement ends")];
    let t = Fixture::new(On::Sqlite);
    let ended = [t.placed(JobState::DeadLetter).await.id, t.placed(JobState::Completed).await.id];
    t.placed(JobState::Cancelled).await;
    for id in ended {
        t.store.redrive(&t.me, id, Redrive::default()).await.unwrap();
    }
    let store = edited(&t, |file| {
        assert_eq!(file.execute("UPDATE hot SET order_key = 0 WHERE state >= 8", []).unwrap(), 3);
        assert_eq!(file.execute(step, []).unwrap(), 2);
    })
    .await;
    assert_eq!(broken(&store).await, [""; 0]);
    store.close();
}
