//! Time for which the store was not served is not the silence of its workers, on every engine.

use std::time::Duration;

use windlass::job::JobState;
use windlass::store::Directive;

use super::{Node, SECOND, on_engines};
use crate::fixture::{On, new_job};

on_engines!([Sqlite, Postgres]
    a_restart_after_half_a_minute_ends_no_lease,
    a_lease_that_ended_while_the_store_was_away_is_kept_for_a_heartbeat,
    a_quick_restart_changes_nothing,
    a_node_that_starts_after_another_ended_a_gap_ends_no_lease,
    a_node_that_starts_after_an_outage_beside_another_ends_no_lease,
    a_process_that_commits_now_and_then_hides_no_lost_worker,
);

on_engines!([Memory, Sqlite, Postgres]
    a_store_that_stood_still_ends_no_lease,
    a_worker_that_does_not_come_back_after_a_gap_is_lost_without_a_crash,
    a_lease_given_after_a_gap_ends_as_any_other,
);

/// Model: store-time, leases-and-heartbeats. 33 seconds without a store, 50 jobs running.
async fn a_restart_after_half_a_minute_ends_no_lease(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 50]).await;
    let held = t.claim(worker, 50).await;
    t.pass_beating(20, worker, &held).await;
    let mut t = t;
    for _ in 0..4 {
        t = t.restart_after(Duration::from_secs(33));
        t.tick().await;
        t.pass(8).await;
        t.pass_beating(60, worker, &held).await;
    }
    assert_eq!(t.states().await, [(JobState::Running, 50)]);
    assert_eq!(t.job(held[0].job.id).await.crashes, 0);
    t.verify().await;
}

/// Model: store-time, leases-and-heartbeats. Ten minutes without a store, with leases of five.
async fn a_lease_that_ended_while_the_store_was_away_is_kept_for_a_heartbeat(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 3]).await;
    let held = t.claim(worker, 3).await;
    let t = t.restart_after(Duration::from_secs(600));
    t.tick().await;
    t.pass(9).await;
    t.pass_beating(60, worker, &held).await;
    assert_eq!(t.states().await, [(JobState::Running, 3)]);
    t.verify().await;
}

/// Model: store-time, leases-and-heartbeats. A fleet was down; its second node sees a store that was written to a moment ago.
async fn a_node_that_starts_after_another_ended_a_gap_ends_no_lease(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 5]).await;
    let held = t.claim(worker, 5).await;
    let mut t = t;
    // Three losses would make a job poison.
    for _ in 0..4 {
        t = t.restart_after(Duration::from_secs(33));
        t.tick().await;
        t.pass(2).await;
        let second = t.another();
        second.tick().await;
        t.pass(3).await;
        second.tick().await;
        assert_eq!(second.beat(worker, &held).await, [Directive::Continue; 5]);
        second.store.close();
    }
    assert_eq!(t.states().await, [(JobState::Running, 5)]);
    assert_eq!(t.job(held[0].job.id).await.crashes, 0);
    t.verify().await;
}

/// Model: store-time, leases-and-heartbeats. The database was away, the first node stayed, and another one is started after it.
async fn a_node_that_starts_after_an_outage_beside_another_ends_no_lease(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 5]).await;
    let held = t.claim(worker, 5).await;
    t.clocks.pass(Duration::from_secs(35));
    t.tick().await;
    t.pass(2).await;
    let second = t.another();
    second.tick().await;
    t.pass(6).await;
    second.tick().await;
    assert_eq!(t.beat(worker, &held).await, [Directive::Continue; 5]);
    // Silence after the gap counts on both nodes, and not as a crash of a worker that may have tried to report.
    t.clocks.pass(SECOND);
    second.store.close();
    t.verify().await;
}

/// Model: leases-and-heartbeats. What one process did not see is not a gap of the store.
async fn a_process_that_commits_now_and_then_hides_no_lost_worker(on: On) {
    let t = Node::new(on);
    let second = t.another();
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send")]).await;
    let held = t.claim(worker, 1).await;
    for _ in 0..2 {
        t.pass(14).await;
        second.submit(vec![new_job("report")]).await;
    }
    t.pass(3).await;
    let lost = t.job(held[0].job.id).await;
    assert_eq!(lost.crashes, 1, "{:?}", lost.state);
    second.store.close();
    t.verify().await;
}

/// Model: leases-and-heartbeats. A worker that dies while its store is started again is found out as soon as usual, and that is a crash.
async fn a_quick_restart_changes_nothing(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send")]).await;
    let held = t.claim(worker, 1).await;
    let t = t.restart_after(Duration::from_secs(5));
    t.pass(24).await;
    assert_eq!(t.job(held[0].job.id).await.state, JobState::Running);
    t.pass(1).await;
    let lost = t.job(held[0].job.id).await;
    assert_eq!((lost.state, lost.crashes), (JobState::Retrying, 1));
    t.verify().await;
}

/// Model: store-time, leases-and-heartbeats. A frozen process, a suspended machine or a database that is away: maintenance does not run for ten minutes.
async fn a_store_that_stood_still_ends_no_lease(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 3]).await;
    let held = t.claim(worker, 3).await;
    t.pass_beating(20, worker, &held).await;
    t.clocks.pass(Duration::from_secs(600));
    t.tick().await;
    t.pass(9).await;
    t.pass_beating(60, worker, &held).await;
    assert_eq!(t.states().await, [(JobState::Running, 3)]);
    t.verify().await;
}

/// Model: crashes-and-poison, leases-and-heartbeats
async fn a_worker_that_does_not_come_back_after_a_gap_is_lost_without_a_crash(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send")]).await;
    let held = t.claim(worker, 1).await;
    t.pass_beating(5, worker, &held).await;
    t.clocks.pass(Duration::from_secs(60));
    t.tick().await;
    t.pass(29).await;
    assert_eq!(t.job(held[0].job.id).await.state, JobState::Running);
    t.pass(1).await;
    let lost = t.job(held[0].job.id).await;
    assert_eq!((lost.state, lost.crashes, lost.failures), (JobState::Retrying, 0, 1));
    assert_eq!(t.beat(worker, &held).await, [Directive::Lost]);
    t.verify().await;
}

/// Model: leases-and-heartbeats, timer-precision
async fn a_lease_given_after_a_gap_ends_as_any_other(on: On) {
    let t = Node::new(on);
    t.submit(vec![new_job("email.send")]).await;
    t.clocks.pass(Duration::from_secs(60));
    let worker = t.worker().await;
    let mut short = new_job("sync");
    short.lease_timeout = Some(SECOND);
    let short = t.submit(vec![short]).await[0];
    let held = t.claim(worker, 2).await;
    assert_eq!(held.len(), 2);
    t.pass(1).await;
    let lost = t.job(short).await;
    assert_eq!((lost.state, lost.crashes), (JobState::Retrying, 1));
    t.verify().await;
}
