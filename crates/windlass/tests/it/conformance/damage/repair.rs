//! What follows from other stored data is repaired, on both databases, each repair in a commit with its record; what does not
//! follow is refused, and a person is shown what to do.

use std::sync::Arc;

use windlass::audit::AuditEvent;
use windlass::clock::ManualClock;
use windlass::entropy::Entropy;
use windlass::job::{
    Category, Dependency, Failure, GroupStrategy, JobMetadata, JobState, NewJob, ScheduleName,
};
use windlass::schedule::ScheduleSpec;
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::verify::{Remedy, RepairPlan, RepairResult};
use windlass::store::{Environment, NewGroup, NewSchedule, Store, StoreOptions, SubmitOptions};

use super::{add_job_data, broken, edited, file_of, place_of_unmet, rewrite, seq_of};
use crate::fixture::{Fixture, On, lease_ref, new_job, secs};

/// The store, opened once more after `sql` was executed on its tables, which are named with `@`.
async fn spoiled(t: &Fixture, sql: &str) -> Store {
    t.store.close();
    if t.address.starts_with("sqlite:") {
        file_of(t).execute_batch(&sql.replace('@', "")).unwrap();
    } else {
        let (server, schema) = t.address.rsplit_once("&schema=").unwrap();
        let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let schema = schema.split('&').next().unwrap();
        client.batch_execute(&sql.replace('@', &format!("{schema}."))).await.unwrap();
    }
    let clock: Arc<ManualClock> = t.clock.clone();
    let env = Environment::new(clock, Entropy::seeded(2), StoreOptions::default());
    Store::open_in(&t.address, env).expect("the store opens")
}

async fn plan(store: &Store) -> RepairPlan {
    store.plan_repairs(|_| {}).await.unwrap()
}

/// Does everything that follows, and returns the codes of what was repaired. Afterwards everything holds.
pub(super) async fn repaired(store: &Store, me: &Caller) -> Vec<&'static str> {
    let plan = plan(store).await;
    let mut done = Vec::new();
    for repair in &plan.repairs {
        assert!(matches!(repair.remedy, Remedy::Derived(_)), "{repair:?}");
        assert_eq!(store.repair(me, &plan, repair).await.unwrap(), RepairResult::Done, "{repair:?}");
        done.push(repair.code);
    }
    assert!(!done.is_empty(), "there was something to repair");
    assert_eq!(broken(store).await, [""; 0], "after {done:?}");
    let event = Some(AuditEvent::StoreRepaired);
    let query = RecordQuery { event, limit: 1_000, ..RecordQuery::default() };
    let records = store.audit(me, query).await.unwrap();
    assert_eq!(records.len(), done.len(), "one record per repair");
    done
}

/// Nothing follows: nothing is changed, and there is something to read for a person.
pub(super) async fn refuses(store: &Store, me: &Caller, code: &str) {
    let before = broken(store).await;
    let plan = plan(store).await;
    assert!(!plan.repairs.is_empty());
    for repair in &plan.repairs {
        let Remedy::Person(advice) = &repair.remedy else { panic!("{repair:?} is guessed") };
        assert!(advice.len() > 20 && repair.code == code, "{repair:?}");
        assert!(matches!(store.repair(me, &plan, repair).await.unwrap(), RepairResult::Refused(_)));
    }
    assert_eq!(broken(store).await, before);
}

const ENGINES: [On; 2] = [On::Sqlite, On::Postgres];

/// Jobs in every state, with tags and keys.
async fn everything(t: &Fixture) {
    for state in JobState::ALL {
        t.placed(state).await;
    }
    let tags = [("team".to_owned(), "a".to_owned())].into();
    let metadata = JobMetadata { tags, ..Default::default() };
    t.submit(NewJob { metadata, concurrency_key: Some("a".into()), ..new_job("tagged") }).await;
    t.submit(NewJob { concurrency_key: Some("b".into()), ..new_job("tagged") }).await;
    t.submit(NewJob { unique_key: Some("only".into()), ..new_job("report") }).await;
}

#[tokio::test]
async fn what_an_engine_derives_is_derived_again() {
    for (on, edits) in [
        (
            On::Sqlite,
            &[
                "UPDATE @hot SET at = at + 1, rank = 3 WHERE state = 3",
                "UPDATE @hot SET state = 4 WHERE state = 2",
                "UPDATE @hot SET expires_at = 1, worker = 7",
                "UPDATE @hot SET created_at = created_at + 1, concurrency = 5",
                "DELETE FROM @tags",
                "INSERT INTO @tags (name, value, seq) VALUES ('a', 'b', 999)",
            ][..],
        ),
        (
            On::Postgres,
            &[
                "DELETE FROM @ready",
                "DELETE FROM @states",
                "DELETE FROM @slots",
                "DELETE FROM @timers",
                "DELETE FROM @tags",
                "INSERT INTO @tags (name, value, seq) VALUES ('a', 'b', 999)",
                "INSERT INTO @ready (lane, rank, at, seq) VALUES (1, 1, 1, 999)",
                "UPDATE @hot SET state = 4, created_at = 1 WHERE state = 2",
            ],
        ),
    ] {
        for edit in edits {
            let t = Fixture::new(on);
            everything(&t).await;
            let store = spoiled(&t, edit).await;
            assert!(repaired(&store, &t.me).await.iter().all(|code| *code == "storage"), "{edit}");
            store.close();
        }
    }
}

/// An index of SQLite that lists rows in other places, in a store that is open: a file with such an index is not opened.
#[tokio::test]
async fn an_index_is_built_again() {
    let t = Fixture::new(On::Sqlite);
    everything(&t).await;
    for column in ["rank + 1", "rank"] {
        let edit = format!(
            "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = \
             'CREATE INDEX hot_order ON hot (state, order_key, {column}, at)' WHERE name = 'hot_order'; \
             PRAGMA writable_schema = OFF"
        );
        file_of(&t).execute_batch(&edit).unwrap();
        if column != "rank" {
            file_of(&t).execute_batch("REINDEX hot_order").unwrap();
        }
    }
    assert_eq!(repaired(&t.store, &t.me).await, ["storage"]);
    t.store.close();
}

#[tokio::test]
async fn counters_are_counted_again() {
    for on in ENGINES {
        for edit in [
            "UPDATE @counts SET n = n + 1",
            "DELETE FROM @counts",
            "UPDATE @concurrency_keys SET n = n + 2",
            "DELETE FROM @concurrency_keys",
            "UPDATE @concurrency_keys SET tenant = 'other'",
            "UPDATE @concurrency_key_totals SET n = n + 1",
            "DELETE FROM @concurrency_key_totals",
        ] {
            let t = Fixture::new(on);
            everything(&t).await;
            // PostgreSQL keeps the changes of counters by commit.
            let edit = if on == On::Postgres {
                edit.replace("counts SET n = n + 1", "counts SET by = by + 1")
            } else {
                edit.to_owned()
            };
            let store = spoiled(&t, &edit).await;
            repaired(&store, &t.me).await;
            store.close();
        }
    }
}

/// Jobs are submitted and end between the plan and its repairs, and another process repairs, too.
#[tokio::test]
async fn counters_that_move_meanwhile_are_repaired_by_what_was_wrong_and_once() {
    for (on, edit) in [
        (On::Sqlite, "UPDATE @counts SET n = n + 3 WHERE n > 0"),
        (On::Postgres, "UPDATE @counts SET by = by + 3 WHERE by > 0"),
    ] {
        let t = Fixture::new(on);
        t.submit(new_job("report")).await;
        let store = spoiled(&t, edit).await;
        let [mine, theirs] = [plan(&store).await, plan(&store).await];
        // So many that the same repair would fit a second time.
        let more = [vec![new_job("report"); 4], vec![new_job("other")]].concat();
        store.submit(&t.me, more, SubmitOptions::default()).await.unwrap();
        let [repair] = &mine.repairs[..] else { panic!("{:?}", mine.repairs) };
        assert_eq!(store.repair(&t.me, &mine, repair).await.unwrap(), RepairResult::Done);
        let again = store.repair(&t.me, &theirs, &theirs.repairs[0]).await.unwrap();
        assert!(matches!(&again, RepairResult::Refused(why) if why.contains("meanwhile")), "{again:?}");
        assert_eq!(broken(&store).await, [""; 0]);
        store.close();
    }
}

#[tokio::test]
async fn a_unique_key_is_given_back_and_a_contested_one_is_not() {
    for on in ENGINES {
        let t = Fixture::new(on);
        let unique = || NewJob { unique_key: Some("only".into()), ..new_job("report") };
        t.submit(unique()).await;
        let store = spoiled(&t, "DELETE FROM @keys").await;
        assert_eq!(repaired(&store, &t.me).await, ["keys"]);
        let again = store.submit(&t.me, vec![unique()], SubmitOptions::default()).await;
        assert!(again.is_err(), "the key is in force");
        store.close();
        // A second job took the key while it was lost: which of the two has it does not follow.
        let store = spoiled(&t, "DELETE FROM @keys").await;
        store.submit(&t.me, vec![unique()], SubmitOptions::default()).await.unwrap();
        refuses(&store, &t.me, "keys").await;
        store.close();
        let store = spoiled(&t, "DELETE FROM @keys").await;
        refuses(&store, &t.me, "keys").await;
        store.close();
    }
}

/// Model: dependencies. The dependent runs when its dependencies have completed, as if nothing had been lost.
#[tokio::test]
async fn a_lost_edge_is_restored_from_the_submission() {
    for on in ENGINES {
        let mut t = Fixture::new(on);
        let first = t.submit(new_job("first")).await.id;
        let second = t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await.id;
        let store = spoiled(&t, "DELETE FROM @edges").await;
        assert_eq!(repaired(&store, &t.me).await, ["dependencies"]);
        t.store = store.into();
        let worker = t.worker().await;
        let claimed = t.claim_one(worker).await;
        assert_eq!(claimed.job.id, first);
        t.complete(worker, &claimed).await;
        assert_eq!(t.state(second).await, JobState::Scheduled);
        t.store.close();
    }
}

#[tokio::test]
async fn open_dependencies_are_counted_again_and_an_end_is_passed_on() {
    for (unmet, state) in [(2, JobState::Pending), (0, JobState::Pending)] {
        let t = Fixture::new(On::Sqlite);
        let first = t.submit(new_job("first")).await.id;
        let second = t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await.id;
        let set = |body: &mut Vec<u8>| {
            let at = place_of_unmet(body);
            body[at] = unmet;
        };
        let store = edited(&t, |file| rewrite(file, second, set)).await;
        assert_eq!(repaired(&store, &t.me).await, ["dependencies"]);
        assert_eq!(store.get(&t.me, second).await.unwrap().unwrap().job.state, state);
        assert_eq!(store.get(&t.me, second).await.unwrap().unwrap().job.after_unmet, 1);
        store.close();
    }
    // The end of the dependency was never passed on: the job still counts it, and would wait forever.
    let t = Fixture::new(On::Sqlite);
    let first = t.submit(new_job("first")).await.id;
    let second = t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await.id;
    let copy = |file: &rusqlite::Connection| -> Vec<u8> {
        let sql = "SELECT record FROM hot WHERE id = ?1";
        file.query_row(sql, [second.as_bytes()], |row| row.get(0)).unwrap()
    };
    let waiting = copy(&file_of(&t));
    let worker = t.worker().await;
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
    let store = edited(&t, |file| {
        let sql = "UPDATE hot SET record = ?1 WHERE id = ?2";
        assert_eq!(file.execute(sql, rusqlite::params![waiting, second.as_bytes()]).unwrap(), 1);
    })
    .await;
    let plan = plan(&store).await;
    for repair in &plan.repairs {
        assert_eq!(store.repair(&t.me, &plan, repair).await.unwrap(), RepairResult::Done, "{repair:?}");
    }
    assert_eq!(broken(&store).await, [""; 0]);
    assert_eq!(store.get(&t.me, second).await.unwrap().unwrap().job.state, JobState::Scheduled);
    store.close();
}

/// A group whose last child was not counted would keep its parent forever.
#[tokio::test]
async fn a_group_is_counted_again_and_decided() {
    let t = Fixture::new(On::Sqlite);
    let (worker, parent) = t.running(new_job("parent")).await;
    let jobs = vec![new_job("child"); 2];
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs };
    t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
    for child in t.claim(worker, 2).await {
        t.complete(worker, &child).await;
    }
    let store = edited(&t, |file| {
        let body =
            r#"{"name":"all","strategy":"collect_all","total":2,"open":1,"completed":1,"decided":null}"#;
        add_job_data(file, seq_of(file, parent.job.id), 5, "", 1, body);
    })
    .await;
    assert_eq!(repaired(&store, &t.me).await, ["children"]);
    let group = store.groups(&t.me, parent.job.id).await.unwrap().unwrap().remove(0);
    assert!(group.group.decided.is_some(), "{group:?}");
    store.close();
}

#[tokio::test]
async fn a_schedule_runs_again_as_its_timing_says() {
    let t = Fixture::new(On::Sqlite);
    let (name, timing) = (ScheduleName::new("report").unwrap(), ScheduleSpec::Every(secs(60)));
    t.store.put_schedule(&t.me, name, NewSchedule::new(timing, new_job("report"))).await.unwrap();
    let store = edited(&t, |file| super::pending::set_next_run(file, "null")).await;
    assert_eq!(repaired(&store, &t.me).await, ["schedules"]);
    store.close();
}

#[tokio::test]
async fn what_does_not_follow_is_refused() {
    // A checkpoint is gone, or its number is wrong: either may be.
    let t = Fixture::new(On::Sqlite);
    let (_, claimed) = t.running(new_job("report")).await;
    t.checkpoint(&claimed, "one", "1").await;
    let store = spoiled(&t, "DELETE FROM @facets WHERE kind = 1").await;
    refuses(&store, &t.me, "checkpoints").await;
    store.close();
    // An attempt is missing.
    let t = Fixture::new(On::Sqlite);
    t.placed(JobState::Retrying).await;
    let store = spoiled(&t, "DELETE FROM @facets WHERE kind = 0").await;
    refuses(&store, &t.me, "attempts").await;
    store.close();
    // The trail is evidence.
    let t = Fixture::new(On::Sqlite);
    let (worker, claimed) = t.running(new_job("report")).await;
    t.fail(worker, &claimed, Failure::new(Category::Permanent, "no")).await;
    let store = spoiled(&t, "DELETE FROM @audit WHERE seq = 1").await;
    refuses(&store, &t.me, "audit_chain").await;
    store.close();
    // A job that was waited for is gone.
    for on in ENGINES {
        let t = Fixture::new(on);
        let first = t.submit(new_job("first")).await.id;
        t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await;
        let store = spoiled(&t, "DELETE FROM @jobs WHERE seq = 1").await;
        refuses(&store, &t.me, "payloads").await;
        store.close();
    }
}

/// Only an admin repairs, and a plan changes nothing.
#[tokio::test]
async fn a_plan_is_only_a_plan() {
    let t = Fixture::new(On::Sqlite);
    t.submit(new_job("report")).await;
    let store = spoiled(&t, "UPDATE @counts SET n = n + 1").await;
    let plan = plan(&store).await;
    assert_eq!(broken(&store).await, ["counters"]);
    let operator = Caller { role: Role::Operator, ..Caller::local() };
    assert!(store.repair(&operator, &plan, &plan.repairs[0]).await.is_err());
    assert_eq!(broken(&store).await, ["counters"]);
    store.close();
}
