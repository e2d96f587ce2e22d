//! A wall clock that jumps while the store runs, on every engine.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::ActionError;
use windlass::job::{Category, JobState};
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;

use super::{DAY_MS, MINUTE_MS, Node, on_engines};
use crate::fixture::{On, new_job};

on_engines!([Memory, Sqlite, Postgres]
    a_wall_clock_that_jumps_destroys_nothing,
    a_small_step_of_the_wall_clock_is_followed,
    an_operator_accepts_a_jump_forward_and_no_lease_ends,
    an_accepted_jump_ends_no_attempt_and_no_time_to_start,
    an_operator_accepts_a_small_step_and_no_lease_ends,
    an_operator_accepts_a_jump_back_and_time_runs_slowly,
    only_an_administrator_accepts_a_jump,
    explain_says_that_the_clock_is_not_believed,
);

/// Model: store-time, leases-and-heartbeats, lifetime, retention. Eight days ahead for three seconds, ten minutes ahead, ten minutes behind: no job expires, no lease ends,
/// nothing is pruned, and time continues.
async fn a_wall_clock_that_jumps_destroys_nothing(on: On) {
    for (off, seconds) in [(8 * DAY_MS, 3), (10 * MINUTE_MS, 60), (-10 * MINUTE_MS, 60)] {
        let t = Node::new(on);
        let worker = t.worker().await;
        let done = t.submit(vec![new_job("email.send")]).await[0];
        let first = t.claim(worker, 1).await;
        let report = windlass::store::Report::new(
            done,
            first[0].job.fence,
            windlass::store::Outcome::Completed { result: None },
        );
        t.store.finish(&t.me, worker, vec![report]).await.unwrap();
        t.submit(vec![new_job("email.send"); 40]).await;
        let held = t.claim(worker, 20).await;
        t.pass_beating(20, worker, &held).await;

        t.step(off);
        let mut delayed = new_job("email.send");
        delayed.delay = Some(Duration::from_secs(2));
        let delayed = t.submit(vec![delayed]).await[0];
        let began = t.store.clock().now;
        t.pass_beating(seconds, worker, &held).await;
        assert_eq!(t.store.prune().await.unwrap(), 0, "{off}");
        let report = t.store.clock();
        assert_eq!((report.is_believed, report.ahead_ms), (false, off));
        assert_eq!(report.now.since(began), Duration::from_secs(seconds), "time continues as before");
        assert!(report.is_off() && report.doubted_since.is_some());
        assert_eq!(t.job(delayed).await.state, JobState::Scheduled, "{off}: it became due in time");

        t.step(-off);
        t.pass_beating(60, worker, &held).await;
        let report = t.store.clock();
        assert_eq!((report.is_believed, report.ahead_ms, report.is_off()), (true, 0, false));
        assert_eq!(
            t.states().await,
            [(JobState::Scheduled, 21), (JobState::Running, 20), (JobState::Completed, 1)]
        );
        t.verify().await;
    }
}

/// Model: store-time
async fn a_small_step_of_the_wall_clock_is_followed(on: On) {
    let t = Node::new(on);
    t.submit(vec![new_job("email.send")]).await;
    t.pass(5).await;
    t.step(30_000);
    let began = t.store.clock().now;
    t.pass(10).await;
    let passed = t.store.clock().now.since(began).as_secs();
    // A read of the time just before the first reading shows the time as before.
    assert!((10..=11).contains(&passed), "a tenth faster: {passed} s");
    t.pass(300).await;
    let report = t.store.clock();
    assert_eq!((report.is_believed, report.ahead_ms), (true, 0));
}

/// Model: store-time, leases-and-heartbeats
async fn an_operator_accepts_a_jump_forward_and_no_lease_ends(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 5]).await;
    let held = t.claim(worker, 5).await;
    let mut later = new_job("email.send");
    later.delay = Some(Duration::from_secs(300));
    let later = t.submit(vec![later]).await[0];
    t.step(10 * MINUTE_MS);
    t.pass_beating(30, worker, &held).await;
    assert_eq!(t.job(later).await.state, JobState::Delayed);

    let report = t.store.accept_clock(&t.me).await.unwrap();
    assert_eq!((report.is_believed, report.ahead_ms, report.doubted_since), (true, 0, None));
    t.pass_beating(60, worker, &held).await;
    assert_eq!(t.job(later).await.state, JobState::Scheduled, "its time has come");
    let query = RecordQuery { event: Some(AuditEvent::ClockAccepted), limit: 10, ..RecordQuery::default() };
    let records = t.store.audit(&t.me, query).await.unwrap();
    assert_eq!(records.len(), 1);
    let context: serde_json::Value = serde_json::from_str(&records[0].context).unwrap();
    assert_eq!((&context["ahead_ms"], &context["was_believed"]), (&(10 * MINUTE_MS).into(), &false.into()));
    t.verify().await;
}

/// Model: store-time, lifetime. The time that was leapt over was available to no job, neither to run nor to start.
async fn an_accepted_jump_ends_no_attempt_and_no_time_to_start(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    let mut limited = new_job("email.send");
    limited.execution_timeout = Some(Duration::from_secs(120));
    t.submit(vec![limited; 3]).await;
    let held = t.claim(worker, 3).await;
    let mut starting = new_job("report");
    starting.start_timeout = Some(Duration::from_secs(600));
    let waiting = t.submit(vec![starting]).await[0];
    t.pass_beating(20, worker, &held).await;
    t.step(60 * MINUTE_MS);
    t.pass_beating(20, worker, &held).await;
    t.store.accept_clock(&t.me).await.unwrap();
    t.tick().await;
    t.pass_beating(60, worker, &held).await;
    assert_eq!(t.states().await, [(JobState::Scheduled, 1), (JobState::Running, 3)]);
    // What was left before the jump is left after it.
    t.pass_beating(15, worker, &held[1..]).await;
    t.pass(10).await;
    let ended = t.job(held[0].job.id).await;
    assert_eq!(ended.details.error.as_ref().map(|error| error.category), Some(Category::Timeout));
    assert_eq!(t.job(waiting).await.state, JobState::Scheduled);
    t.pass(500).await;
    assert_eq!(t.job(waiting).await.state, JobState::Failed, "it was not started in time");
    t.verify().await;
}

/// Model: store-time, leases-and-heartbeats. A clock that is believed and that store time has not reached yet, because it goes there slowly.
async fn an_operator_accepts_a_small_step_and_no_lease_ends(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 5]).await;
    let held = t.claim(worker, 5).await;
    t.pass_beating(20, worker, &held).await;
    t.step(50_000);
    t.pass(2).await;
    let report = t.store.accept_clock(&t.me).await.unwrap();
    assert_eq!((report.is_believed, report.ahead_ms), (true, 0));
    t.tick().await;
    t.pass_beating(60, worker, &held).await;
    assert_eq!(t.job(held[0].job.id).await.crashes, 0);
    t.verify().await;
}

/// Model: store-time. Store time never goes back: it runs at half of real time until the wall clock has caught up.
async fn an_operator_accepts_a_jump_back_and_time_runs_slowly(on: On) {
    let t = Node::new(on);
    t.submit(vec![new_job("email.send")]).await;
    t.pass(5).await;
    t.step(-2 * MINUTE_MS);
    t.pass(5).await;
    let began = t.store.accept_clock(&t.me).await.unwrap();
    assert_eq!((began.is_believed, began.is_off()), (true, true), "believed, and still far from it");
    t.pass(100).await;
    assert_eq!(t.store.clock().now.since(began.now), Duration::from_secs(50));
    t.pass(140).await;
    let report = t.store.clock();
    assert_eq!((report.is_believed, report.ahead_ms, report.is_off()), (true, 0, false));
}

/// Model: store-time, roles
async fn only_an_administrator_accepts_a_jump(on: On) {
    let t = Node::new(on);
    t.step(10 * MINUTE_MS);
    t.pass(2).await;
    for role in [Role::Operator, Role::Submitter, Role::Worker, Role::Viewer] {
        let caller = Caller { role, ..Caller::local() };
        let refused = t.store.accept_clock(&caller).await;
        assert!(matches!(refused, Err(ActionError::Forbidden(_))), "{role:?}");
    }
    t.submit(vec![new_job("email.send")]).await;
    t.pass(2).await;
}

/// Model: store-time, explained-waiting
async fn explain_says_that_the_clock_is_not_believed(on: On) {
    let t = Node::new(on);
    let mut later = new_job("email.send");
    later.delay = Some(Duration::from_secs(300));
    let later = t.submit(vec![later]).await[0];
    t.step(10 * MINUTE_MS);
    t.submit(vec![new_job("email.send")]).await;
    t.pass(2).await;
    let reasons = t.store.explain(&t.me, later).await.unwrap().unwrap();
    let not_due = reasons.iter().find(|reason| reason.code == "not_due").expect("it waits for its time");
    assert!(not_due.message.contains("clock"), "{}", not_due.message);
    assert_eq!(not_due.details["clock_believed"], false);
    t.store.accept_clock(&t.me).await.unwrap();
    t.pass(2).await;
    let reasons = t.store.explain(&t.me, later).await.unwrap().unwrap();
    assert!(reasons.iter().all(|reason| reason.code != "not_due"), "{reasons:?}");
}
