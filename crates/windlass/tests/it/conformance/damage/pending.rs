//! Damage of what ties jobs together over time: attempts, flags, ends in the audit trail, unfinished work, schedules.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use windlass::job::{Dependency, Failure, GroupStrategy, JobState, NewJob, ScheduleName};
use windlass::schedule::ScheduleSpec;
use windlass::store::{ActionRequest, NewGroup, NewSchedule, StoreOptions, SubmitOptions};

use super::{add_job_data, broken, edited, place_of_state, rewrite, seq_of};
use crate::fixture::{Fixture, On, lease_ref, new_job, secs};

/// The codes of two kinds of documents.
const SCHEDULE: i64 = 8;
const CASCADE: i64 = 13;

/// Changes the body of the only document of this kind, or adds one, with a checksum that fits.
fn put_document(file: &Connection, kind: i64, key: &str, body: &str) {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&kind.to_le_bytes());
    for text in [key, body] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let sql = "INSERT OR REPLACE INTO documents (kind, key, \"check\", body) VALUES (?1, ?2, ?3, ?4)";
    file.execute(sql, params![kind, key, hasher.finalize(), body.as_bytes()]).unwrap();
}

/// Changes when the only schedule runs next.
pub(super) fn set_next_run(file: &Connection, next: &str) {
    let sql = "SELECT key, CAST(body AS TEXT) FROM documents WHERE kind = ?1";
    let (key, body): (String, String) =
        file.query_row(sql, [SCHEDULE], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let from = body.find("\"next_at\":").expect("it has a next run") + "\"next_at\":".len();
    let to = from + body[from..].find([',', '}']).unwrap();
    put_document(file, SCHEDULE, &key, &format!("{}{next}{}", &body[..from], &body[to..]));
}

/// Clears a flag of a packed record; seven flags are in each byte.
fn clear_flag(body: &mut [u8], place: usize) {
    let (byte, bit) = (1 + place / 7, 1 << (place % 7));
    assert_ne!(body[byte] & bit, 0, "the flag is set");
    body[byte] &= !bit;
}

/// Two attempts at once are what fences exclude.
#[tokio::test]
async fn attempts_that_overlap_are_found() {
    let t = Fixture::new(On::Sqlite);
    let (worker, claimed) = t.running(new_job("report")).await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(5));
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
    // The first ends after the second began; it ends before it began.
    for ended_at in [1_900_000_000_000_i64, 1_799_999_999_999] {
        let store = edited(&t, |file| {
            let record = format!(
                r#"{{"worker":null,"started_at":1800000000000,"ended_at":{ended_at},"outcome":"failed"}}"#
            );
            add_job_data(file, seq_of(file, claimed.job.id), 0, "", 1, &record);
        })
        .await;
        assert_eq!(broken(&store).await, ["times"]);
        store.close();
    }
}

#[tokio::test]
async fn a_job_that_does_not_know_who_waits_for_it_is_found() {
    let t = Fixture::new(On::Sqlite);
    let first = t.submit(new_job("first")).await.id;
    t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await;
    let store = edited(&t, |file| rewrite(file, first, |body| clear_flag(body, 12))).await;
    assert_eq!(broken(&store).await, ["dependencies"]);
}

#[tokio::test]
async fn a_parent_that_does_not_know_its_children_is_found() {
    let t = Fixture::new(On::Sqlite);
    let (_, parent) = t.running(new_job("parent")).await;
    let group =
        NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: vec![new_job("child")] };
    t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
    let store = edited(&t, |file| rewrite(file, parent.job.id, |body| clear_flag(body, 15))).await;
    assert_eq!(broken(&store).await, ["children"]);
}

/// A job that comes back to life would run again.
#[tokio::test]
async fn an_end_that_was_recorded_and_is_not_stored_is_found() {
    let t = Fixture::new(On::Sqlite);
    let placed = t.placed(JobState::Cancelled).await;
    let store = edited(&t, |file| {
        rewrite(file, placed.id, |body| {
            let at = place_of_state(body);
            assert_eq!(body[at], JobState::Cancelled as u8);
            body[at] = JobState::DeadLetter as u8;
        });
    })
    .await;
    let found = broken(&store).await;
    assert!(found.contains(&"recorded_ends"), "{found:?}");
}

#[tokio::test]
async fn an_end_that_is_announced_and_has_not_come_is_found() {
    let t = Fixture::new(On::Sqlite);
    let id = t.submit(new_job("report")).await.id;
    let store = edited(&t, |file| {
        let seq = seq_of(file, id);
        let body = format!(
            r#"{{"since":1800000000000,"depth":0,"task":{{"task":"dependents","job":{seq},"after":null,"last":{seq}}}}}"#
        );
        put_document(file, CASCADE, &format!("00000.b.{seq:020}"), &body);
    })
    .await;
    assert_eq!(broken(&store).await, ["cascades"]);
}

/// A child that is not cancelled runs on for a parent that is gone.
#[tokio::test]
async fn a_child_that_a_cancellation_did_not_reach_is_found() {
    let options = StoreOptions { cascade_jobs_per_commit: 1, ..StoreOptions::default() };
    let t = Fixture::with(On::Sqlite, options, 1);
    let (_, parent) = t.running(new_job("parent")).await;
    let jobs = vec![new_job("child"); 3];
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs };
    let children = t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap().children;
    t.cancel(parent.job.id).await;
    let mut live = Vec::new();
    for child in children {
        live.extend((!t.state(child.id).await.is_final()).then_some(child));
    }
    assert!(!live.is_empty(), "the cancellation continues in a later commit");
    let cursor = "SELECT key, CAST(body AS TEXT) FROM documents WHERE kind = ?1";
    let (mut key, mut body) = (String::new(), String::new());
    let store = edited(&t, |file| {
        (key, body) = file.query_row(cursor, [CASCADE], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    })
    .await;
    assert_eq!(broken(&store).await, [""; 0], "the rest follows");
    store.close();
    // The cursor has passed the children that are left, or is gone.
    let store = edited(&t, |file| {
        let from = body.find("\"after\":").expect("it has a cursor") + "\"after\":".len();
        let to = from + body[from..].find([',', '}']).unwrap();
        let last = seq_of(file, live.last().unwrap().id);
        put_document(file, CASCADE, &key, &format!("{}{last}{}", &body[..from], &body[to..]));
    })
    .await;
    assert_eq!(broken(&store).await, ["children"]);
    store.close();
    let sql = "DELETE FROM documents WHERE kind = ?1";
    let store = edited(&t, |file| assert_eq!(file.execute(sql, [CASCADE]).unwrap(), 1)).await;
    assert_eq!(broken(&store).await, ["children"]);
    let found = store.verify().await.unwrap().into_iter().find(|report| report.code == "children").unwrap();
    assert_eq!(found.broken, live.len() as u64);
    assert!(found.findings[0].contains("nothing is left that cancels it"), "{:?}", found.findings);
}

/// A key of a job that has ended would stay in the store forever.
#[tokio::test]
async fn a_unique_key_that_outlived_its_job_is_found() {
    let t = Fixture::new(On::Sqlite);
    let only = || NewJob { unique_key: Some("only".into()), ..new_job("report") };
    let id = t.submit(only()).await.id;
    let columns = "kind, tenant, type, key, seq, expires_at, \"check\", job, payload, ended";
    let mut held: Vec<Value> = Vec::new();
    let store = edited(&t, |file| {
        let read = |row: &Row<'_>| (0..10).map(|column| row.get(column)).collect();
        held = file.query_row(&format!("SELECT {columns} FROM keys"), [], read).unwrap();
    })
    .await;
    store.act(&t.me, id, ActionRequest::Cancel { reason: None }).await.unwrap();
    assert_eq!(broken(&store).await, [""; 0], "the key is free");
    store.close();
    let sql = format!("INSERT INTO keys ({columns}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    let put = |file: &Connection| file.execute(&sql, params_from_iter(&held)).unwrap();
    let store = edited(&t, |file| assert_eq!(put(file), 1)).await;
    assert_eq!(broken(&store).await, ["keys"]);
    let found = store.verify().await.unwrap().into_iter().find(|report| report.code == "keys").unwrap();
    assert_eq!(found.findings, [format!("job {id}: has ended, and still holds its unique key")]);
    // Another job may have it: the key is disregarded, and then overwritten.
    let other = store.submit(&t.me, vec![only()], SubmitOptions::default()).await.unwrap().remove(0);
    assert_ne!(other.job.id, id);
    assert_eq!(broken(&store).await, [""; 0]);
}

/// A schedule that forgot its next run would never run again.
#[tokio::test]
async fn a_schedule_without_its_next_run_is_found() {
    let t = Fixture::new(On::Sqlite);
    let timing = ScheduleSpec::Every(secs(60));
    let (name, new) = (ScheduleName::new("report").unwrap(), NewSchedule::new(timing, new_job("report")));
    t.store.put_schedule(&t.me, name, new).await.unwrap();
    for next in ["null", "1", "9000000000000"] {
        let store = edited(&t, |file| set_next_run(file, next)).await;
        assert_eq!(broken(&store).await, ["schedules"], "{next}");
        store.close();
    }
}
