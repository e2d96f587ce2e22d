//! Statistics over time: what is counted by the minute is kept in longer periods, once and for a bounded time.

use std::time::Duration;

use windlass::job::NewJob;
use windlass::store::caller::{Caller, Role};
use windlass::store::{History, HistoryRequest, HistorySubject};

use crate::fixture::{Fixture, caller, new_job, queue, secs, tenant};

tests!(
    reads_history, reads::history:
    what_happened_is_shown_by_the_minute_and_later_in_longer_periods,
    statistics_of_one_time_are_added_up_once,
    a_tenant_sees_its_own_statistics_over_time,
    depth_and_slots_are_sampled_once_a_minute,
    statistics_are_dropped_after_a_month,
);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn roll_up(t: &Fixture) {
    while t.store.roll_up().await.unwrap().has_more {}
}

/// Moves the clock in twelve steps, with maintenance after each.
async fn pass(t: &Fixture, time: Duration) {
    for _ in 0..12 {
        t.advance(time / 12);
        roll_up(t).await;
    }
}

async fn of(t: &Fixture, who: &Caller, part: HistorySubject, range: Duration) -> History {
    t.store.history(who, HistoryRequest { part, range, until: None }).await.unwrap()
}

async fn submitted(t: &Fixture, range: Duration) -> u64 {
    let history = of(t, &t.me, HistorySubject::All, range).await;
    let sum: u64 = history.points.iter().map(|point| point.counts.submitted).sum();
    assert_eq!(sum, history.total.counts.submitted, "the total is the sum of the points");
    sum
}

/// Commits something, so that the counts before it are written.
async fn settle(t: &Fixture) {
    t.advance(secs(2));
    t.submit(new_job("settle")).await;
}

/// Model: atomic-changes
async fn what_happened_is_shown_by_the_minute_and_later_in_longer_periods(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("mail")).await;
    t.advance(secs(3));
    t.complete(worker, &claimed).await;
    settle(t).await;
    let fresh = of(t, &t.me, HistorySubject::All, HOUR).await;
    assert_eq!((fresh.step, fresh.points.len()), (secs(60), 60));
    assert_eq!(fresh.points[59].counts.completed, 1, "the newest point is the current minute");
    assert_eq!(fresh.previous, None);
    for (passed, range, step) in [(2, 6, secs(600)), (10, 24, secs(600)), (5 * 24, 7 * 24, HOUR)] {
        pass(t, HOUR * passed).await;
        let history = of(t, &t.me, HistorySubject::All, HOUR * range).await;
        assert_eq!((history.step, history.total.counts.completed), (step, 1), "{range} hours");
        assert!(history.total.counts.ran.percentile(1.0).is_some_and(|longest| longest >= secs(3)));
        let mail = of(t, &t.me, HistorySubject::Queue(queue("default")), HOUR * range).await;
        assert_eq!(mail.total.counts.completed, 1);
        let other = of(t, &t.me, HistorySubject::Queue(queue("other")), HOUR * range).await;
        assert_eq!(other.total.counts.completed, 0);
    }
    let today = of(t, &t.me, HistorySubject::All, DAY * 5).await;
    assert_eq!(today.total.counts.completed, 0);
    assert_eq!(today.previous.map(|before| before.counts.completed), Some(1), "the five days before");
}

/// Model: atomic-changes
async fn statistics_of_one_time_are_added_up_once(t: &Fixture) {
    t.submit(new_job("mail")).await;
    settle(t).await;
    for _ in 0..4 {
        assert_eq!(submitted(t, HOUR * 6).await, 2);
        t.advance(secs(300));
        let (first, second) = tokio::join!(t.store.roll_up(), t.store.roll_up());
        first.unwrap();
        second.unwrap();
        roll_up(t).await;
    }
    for range in [HOUR, HOUR * 6, DAY * 2, DAY * 30] {
        assert_eq!(submitted(t, range).await, 2, "{range:?}");
    }
    // A store that was not served for hours loses nothing of what was counted before.
    settle(t).await;
    t.advance(HOUR * 8);
    t.tick().await;
    roll_up(t).await;
    assert_eq!(submitted(t, DAY).await, 3);
}

/// Model: tenant-isolation
async fn a_tenant_sees_its_own_statistics_over_time(t: &Fixture) {
    for (name, jobs) in [("blue", 1), ("red", 2)] {
        for _ in 0..jobs {
            t.submit(NewJob { tenant: Some(tenant(name)), ..new_job("mail") }).await;
        }
    }
    settle(t).await;
    let eve = caller("eve", Role::Viewer, "red");
    for range in [HOUR, DAY] {
        let own = of(t, &eve, HistorySubject::All, range).await;
        assert_eq!((own.total.counts.submitted, own.total.utilisation()), (2, None));
        let queue = of(t, &eve, HistorySubject::Queue(queue("default")), range).await;
        assert_eq!(queue.total.counts.submitted, 2);
        assert_eq!(of(t, &t.me, HistorySubject::All, range).await.total.counts.submitted, 4);
        pass(t, HOUR).await;
    }
}

/// Model: explained-waiting
async fn depth_and_slots_are_sampled_once_a_minute(t: &Fixture) {
    for _ in 0..3 {
        t.submit(new_job("mail")).await;
    }
    let worker = t.steady_worker().await;
    roll_up(t).await;
    t.claim(worker, 1).await;
    roll_up(t).await;
    t.advance(secs(60));
    roll_up(t).await;
    let point = of(t, &t.me, HistorySubject::All, HOUR).await.total;
    assert_eq!((point.ready.samples, point.ready.max, point.ready.sum), (2, 3, 5));
    assert_eq!((point.running.max, point.running.sum), (1, 1));
    assert!(point.utilisation().is_some_and(|share| share > 0.0 && share < 1.0));
    pass(t, HOUR * 2).await;
    let later = of(t, &t.me, HistorySubject::Queue(queue("default")), HOUR * 6).await.total;
    assert_eq!(later.ready.max, 3);
    assert!(later.ready.samples > 2 && later.slots.samples == 0);
}

/// Model: bounded-commits
async fn statistics_are_dropped_after_a_month(t: &Fixture) {
    t.submit(new_job("mail")).await;
    settle(t).await;
    pass(t, HOUR).await;
    t.advance(DAY * 20);
    roll_up(t).await;
    assert_eq!(submitted(t, DAY * 30).await, 2);
    for _ in 0..3 {
        t.advance(DAY * 5);
        t.submit(new_job("mail")).await;
        pass(t, HOUR).await;
    }
    let until = Some(t.now().minus(DAY * 33));
    let old = HistoryRequest { part: HistorySubject::All, range: DAY, until };
    assert_eq!(t.store.history(&t.me, old).await.unwrap().total.counts.submitted, 0);
    assert_eq!(submitted(t, DAY * 30).await, 3);
}
