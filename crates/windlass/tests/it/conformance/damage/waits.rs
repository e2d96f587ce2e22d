//! Damage of what a job waits for, inherits or has left: a job that nothing would ever move, a priority that was not passed on, a
//! result that is gone, a fence of a time that has not come.

use windlass::job::{Dependency, GroupStrategy, JobId, JobState, NewJob, Priority};
use windlass::store::verify::VerifyReport;
use windlass::store::{NewGroup, Outcome, Report, Store};

use super::{add_job_data, broken, edited, place_of_state, place_of_unmet, rewrite, seq_of};
use crate::fixture::{Fixture, On, lease_ref, new_job};

/// What was found under this code.
async fn found(store: &Store, code: &str) -> VerifyReport {
    let reports = store.verify().await.unwrap();
    reports.into_iter().find(|report| report.code == code).expect("it is an invariant")
}

#[tokio::test]
async fn a_job_that_waits_for_nothing_is_found() {
    for (from, to, said) in [
        (JobState::Scheduled, JobState::Waiting, "is waiting, and not for anything"),
        (JobState::Delayed, JobState::Retrying, "is retrying, and its backoff has no end"),
        (JobState::Waiting, JobState::Scheduled, "is scheduled, and waits for"),
    ] {
        let t = Fixture::new(On::Sqlite);
        let placed = t.placed(from).await;
        let store = edited(&t, |file| {
            rewrite(file, placed.id, |body| {
                let at = place_of_state(body);
                assert_eq!(body[at], from as u8);
                body[at] = to as u8;
            });
        })
        .await;
        let waits = found(&store, "waits").await;
        assert_eq!(waits.broken, 1, "{to}: {waits:?}");
        assert!(waits.findings[0].contains(said), "{waits:?}");
        store.close();
    }
}

#[tokio::test]
async fn a_job_that_forgot_its_open_dependency_is_found() {
    let t = Fixture::new(On::Sqlite);
    let placed = t.placed(JobState::Pending).await;
    let store = edited(&t, |file| {
        rewrite(file, placed.id, |body| {
            let at = place_of_unmet(body);
            body[at] = 0;
        });
    })
    .await;
    assert_eq!(broken(&store).await, ["dependencies"]);
}

#[tokio::test]
async fn a_job_that_is_pending_without_a_dependency_is_found_and_moved_on() {
    let t = Fixture::new(On::Sqlite);
    let placed = t.placed(JobState::Scheduled).await;
    let store = edited(&t, |file| {
        rewrite(file, placed.id, |body| {
            let at = place_of_state(body);
            assert_eq!(body[at], JobState::Scheduled as u8);
            body[at] = JobState::Pending as u8;
        });
    })
    .await;
    let dependencies = found(&store, "dependencies").await;
    assert_eq!(dependencies.findings, [format!("job {}: is pending without an open dependency", placed.id)]);
    assert!(super::repair::repaired(&store, &t.me).await.contains(&"dependencies"));
    let found = store.get(&t.me, placed.id).await.unwrap().expect("it is there");
    assert_eq!(found.job.state, JobState::Scheduled);
    store.close();
}

/// A parent whose only child has ended.
async fn parent(t: &Fixture, is_child_over: bool) -> JobId {
    let (worker, parent) = t.running(new_job("parent")).await;
    let group =
        NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: vec![new_job("child")] };
    t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
    if is_child_over {
        let child = t.claim_one(worker).await;
        t.complete(worker, &child).await;
    }
    parent.job.id
}

#[tokio::test]
async fn a_group_that_is_gone_or_was_not_decided_is_found() {
    let t = Fixture::new(On::Sqlite);
    let waiting = parent(&t, false).await;
    let store = edited(&t, |file| {
        assert_eq!(file.execute("DELETE FROM facets WHERE kind = 5", []).unwrap(), 1);
    })
    .await;
    assert_eq!(broken(&store).await, ["children"]);
    let children = found(&store, "children").await;
    assert_eq!(children.findings, [format!("job {waiting}: waits for group 1, which does not exist")]);
    store.close();

    let t = Fixture::new(On::Sqlite);
    let woken = parent(&t, true).await;
    let store = edited(&t, |file| {
        let body =
            r#"{"name":"all","strategy":"collect_all","total":1,"open":0,"completed":1,"decided":null}"#;
        add_job_data(file, seq_of(file, woken), 5, "", 1, body);
    })
    .await;
    let children = found(&store, "children").await;
    assert_eq!(
        children.findings,
        [format!("job {woken}: group 1 is not decided, although its children are")]
    );
    assert_eq!(super::repair::repaired(&store, &t.me).await, ["children"]);
    store.close();
}

/// Both when it is too low and when it is too high.
#[tokio::test]
async fn a_priority_that_was_not_passed_on_is_found_and_passed_on() {
    // The own priority of the first one is normal, which the other one inherits if it inherits less.
    for wrong in [[Priority::BULK, Priority::NORMAL], [Priority::CRITICAL; 2]] {
        let t = Fixture::new(On::Sqlite);
        let low = t.submit(NewJob { priority: Some(Priority::LOW), ..new_job("low") }).await.id;
        let high = t.submit(NewJob { priority: Some(Priority::HIGH), ..new_job("high") }).await.id;
        let after = vec![Dependency::Job(low), Dependency::Job(high)];
        let waits = t.submit(NewJob { after, ..new_job("waits") }).await.id;
        let last = t.submit(NewJob { after: vec![Dependency::Job(waits)], ..new_job("last") }).await.id;
        let store = edited(&t, |file| {
            for (id, wrong) in [waits, last].into_iter().zip(wrong) {
                rewrite(file, id, |body| {
                    let at = place_of_state(body) + 2;
                    assert_eq!(body[at], Priority::HIGH.value());
                    body[at] = wrong.value();
                });
            }
        })
        .await;
        let priorities = found(&store, "priorities").await;
        assert_eq!(priorities.broken, 1, "{priorities:?}");
        assert!(priorities.findings[0].contains(&waits.to_string()), "{priorities:?}");
        assert!(super::repair::repaired(&store, &t.me).await.contains(&"priorities"));
        store.close();
    }
}

#[tokio::test]
async fn a_result_that_is_gone_is_found_and_not_made_up() {
    let t = Fixture::new(On::Sqlite);
    let (worker, claimed) = t.running(new_job("report")).await;
    let outcome = Outcome::Completed { result: Some(b"42".to_vec()) };
    let report = Report::new(claimed.job.id, claimed.job.fence, outcome);
    t.store.finish(&t.me, worker, vec![report]).await.unwrap();
    let store = edited(&t, |file| {
        assert_eq!(file.execute("DELETE FROM facets WHERE kind = 4", []).unwrap(), 1);
    })
    .await;
    assert_eq!(broken(&store).await, ["results"]);
    super::repair::refuses(&store, &t.me, "results").await;
}

#[tokio::test]
async fn a_fence_of_a_generation_that_has_not_begun_is_found() {
    let t = Fixture::new(On::Sqlite);
    for _ in 0..3 {
        t.store.begin_generation(&t.me, "a drill").await.unwrap();
    }
    t.running(new_job("report")).await;
    let sql = "UPDATE meta SET generation = 1";
    let store = edited(&t, |file| assert_eq!(file.execute(sql, []).unwrap(), 1)).await;
    assert_eq!(broken(&store).await, ["generations"]);
    super::repair::refuses(&store, &t.me, "generations").await;
}
