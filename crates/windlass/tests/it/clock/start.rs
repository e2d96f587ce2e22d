//! A store that starts, alone or beside others: there is no monotonic history, or only that of the others.

use std::sync::Arc;
use std::time::Duration;

use windlass::job::{JobState, NewJob};
use windlass::store::caller::Caller;

use super::{DAY, DAY_MS, MINUTE_MS, Node, SECOND, on_engines, open};
use crate::fixture::{On, new_job};

on_engines!([Sqlite, Postgres]
    a_fleet_that_was_down_for_a_weekend_catches_up,
    a_process_beside_others_does_not_bring_its_own_time,
    time_continues_after_a_start_with_a_clock_that_is_behind,
);

on_engines!([Sqlite] lifetimes_and_pruning_wait_after_a_start_with_a_jump);

on_engines!([Postgres]
    a_start_with_an_unconfirmed_database_clock_is_not_believed,
    one_node_that_starts_with_a_wrong_clock_does_not_change_the_others,
    lifetimes_end_at_once_when_two_clocks_agree,
);

fn delayed(by: Duration) -> NewJob {
    let mut job = new_job("email.send");
    job.delay = Some(by);
    job
}

/// Model: store-time
async fn a_fleet_that_was_down_for_a_weekend_catches_up(on: On) {
    let t = Node::new(on);
    let monday = t.submit(vec![delayed(DAY)]).await[0];
    t.clocks.reboot();
    let t = t.restart_after(2 * DAY);
    t.tick().await;
    assert_eq!(t.job(monday).await.state, JobState::Scheduled);
    let report = t.store.clock();
    assert_eq!((report.is_believed, report.ahead_ms), (true, 0));
    t.verify().await;
}

/// Model: store-time. Also a machine that is off by days at its start, and by chance has the only process.
async fn time_continues_after_a_start_with_a_clock_that_is_behind(on: On) {
    let t = Node::new(on);
    t.submit(vec![new_job("email.send")]).await;
    t.pass(10).await;
    t.submit(vec![new_job("email.send")]).await;
    t.step(-10 * MINUTE_MS);
    let before = t.store.clock().now;
    let t = t.restart_after(SECOND);
    assert!(t.store.clock().now >= before.minus(SECOND));
    let soon = t.submit(vec![delayed(3 * SECOND)]).await[0];
    t.pass(6).await;
    assert_eq!(t.job(soon).await.state, JobState::Scheduled, "at half of real time at the least");
    t.verify().await;
}

/// Model: store-time. Two processes on one store whose wall clocks differ by ten minutes: no lease is lost through it.
async fn a_process_beside_others_does_not_bring_its_own_time(on: On) {
    for off in [10 * MINUTE_MS, -10 * MINUTE_MS] {
        let t = Node::new(on);
        let worker = t.worker().await;
        t.submit(vec![new_job("email.send"); 3]).await;
        let held = t.claim(worker, 3).await;
        t.pass_beating(100, worker, &held).await;
        // The same machine, or another one; only the wall clock of the second process is off.
        let clocks = Arc::new(t.clocks.copied());
        clocks.step_wall(off);
        let other = open(&t.address, &clocks);
        let began = t.store.clock().now;
        for second in 0..60 {
            t.clocks.pass(SECOND);
            clocks.pass(SECOND);
            other.tick().await.unwrap();
            t.tick().await;
            if second % 10 == 0 {
                t.beat(worker, &held).await;
            }
        }
        assert_eq!(t.states().await, [(JobState::Running, 3)], "{off}");
        let passed = t.store.clock().now.since(began);
        assert!(passed >= 59 * SECOND && passed <= 61 * SECOND, "{off}: {passed:?}");
        assert_eq!(other.clock().is_believed, on == On::Postgres, "its wall clock counts only on a file");
        t.verify().await;
        other.close();
    }
}

/// Model: store-time, lifetime, retention
async fn lifetimes_and_pruning_wait_after_a_start_with_a_jump(on: On) {
    let t = Node::new(on);
    let queued = t.submit(vec![new_job("email.send"); 5]).await;
    t.store.act(&t.me, queued[0], windlass::store::ActionRequest::Cancel { reason: None }).await.unwrap();
    t.step(8 * DAY_MS);
    let t = t.restart_after(SECOND);
    assert!(t.store.clock().lifetimes_from.is_some());
    t.pass(290).await;
    assert_eq!(t.store.prune().await.unwrap(), 0);
    assert_eq!(t.states().await, [(JobState::Scheduled, 4), (JobState::Cancelled, 1)]);
    // Another worker runs them meanwhile.
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 1).await.len(), 1);
    t.pass(20).await;
    assert_eq!(t.store.clock().lifetimes_from, None);
    assert_eq!(t.states().await, [(JobState::DeadLetter, 4), (JobState::Cancelled, 1)]);
    assert_eq!(t.store.prune().await.unwrap(), 1);
    t.verify().await;
}

/// Model: store-time. The same with a clock that is set right before the time is over: nothing is lost.
#[tokio::test]
async fn a_wrong_clock_at_the_start_of_a_machine_that_is_set_right_loses_nothing() {
    let t = Node::new(On::Sqlite);
    t.submit(vec![new_job("email.send"); 5]).await;
    t.step(8 * DAY_MS);
    let t = t.restart_after(SECOND);
    t.pass(30).await;
    t.step(-8 * DAY_MS);
    t.pass(600).await;
    assert!(!t.store.clock().is_believed);
    assert_eq!(t.states().await, [(JobState::Scheduled, 5)]);
    t.verify().await;
}

/// Model: store-time
async fn a_start_with_an_unconfirmed_database_clock_is_not_believed(on: On) {
    let t = Node::new(on);
    t.submit(vec![new_job("email.send"); 5]).await;
    let before = t.store.clock().now;
    t.clocks.step_database(8 * DAY_MS);
    let t = t.restart_after(SECOND);
    t.pass(60).await;
    assert_eq!(t.store.prune().await.unwrap(), 0);
    let report = t.store.clock();
    assert_eq!((report.is_believed, report.now.since(before)), (false, 60 * SECOND));
    assert_eq!(t.states().await, [(JobState::Scheduled, 5)]);
    t.clocks.step_database(-8 * DAY_MS);
    t.pass(2).await;
    assert!(t.store.clock().is_believed, "the database's clock is right again");
    t.verify().await;
}

/// Model: store-time. A node whose own clock is a day behind goes by the store's time, as it runs already.
async fn one_node_that_starts_with_a_wrong_clock_does_not_change_the_others(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 3]).await;
    let held = t.claim(worker, 3).await;
    t.pass_beating(70, worker, &held).await;
    let clocks = Arc::new(t.clocks.copied());
    clocks.step_wall(-DAY_MS);
    let other = open(&t.address, &clocks);
    for _ in 0..5 {
        t.pass_beating(10, worker, &held).await;
        clocks.pass(10 * SECOND);
        other.tick().await.unwrap();
    }
    assert_eq!(t.states().await, [(JobState::Running, 3)]);
    assert!(other.clock().is_believed && t.store.clock().is_believed);
    t.verify().await;
    other.close();
}

/// Model: store-time, lifetime
async fn lifetimes_end_at_once_when_two_clocks_agree(on: On) {
    let t = Node::new(on);
    let job = t.submit(vec![new_job("email.send")]).await[0];
    let t = t.restart_after(8 * DAY);
    t.tick().await;
    assert_eq!(t.store.get(&Caller::local(), job).await.unwrap().unwrap().job.state, JobState::DeadLetter);
    t.verify().await;
}
