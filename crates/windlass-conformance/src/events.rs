//! The feed of events: resumed from a number, complete, in order, and across processes.

use windlass::audit::AuditEvent;
use windlass::job::NewJob;
use windlass::store::EventFeed;
use windlass::store::caller::{Caller, Role};

use crate::fixture::{Fixture, new_job, tenant};

tests!(
    events, events:
    a_feed_is_resumed_without_a_gap_or_a_repetition,
    a_feed_shows_what_is_not_kept_while_it_is_live,
    a_feed_of_one_tenant_shows_nothing_of_another,
    a_feed_from_now_on_shows_nothing_older,
);

async fn take(feed: &mut EventFeed, count: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    while seqs.len() < count {
        let record = feed.next().await.unwrap();
        if record.seq > 0 {
            seqs.push(record.seq);
        }
    }
    seqs
}

/// Model: audit-trail
async fn a_feed_is_resumed_without_a_gap_or_a_repetition(t: &Fixture) {
    let mut ids = Vec::new();
    for _ in 0..1_500 {
        ids.push(new_job("email.send"));
    }
    let jobs: Vec<_> = t.submit_all(ids).await.into_iter().map(|receipt| receipt.job.id).collect();
    for id in &jobs[..1_200] {
        t.cancel(*id).await;
    }
    let mut feed = t.store.events(&t.me, 0);
    assert_eq!(take(&mut feed, 700).await, (1..=700).collect::<Vec<u64>>());
    assert_eq!(feed.position(), 700);
    for id in &jobs[1_200..] {
        t.cancel(*id).await;
    }
    assert_eq!(take(&mut feed, 800).await, (701..=1_500).collect::<Vec<u64>>());
    let mut resumed = t.store.events(&t.me, 1_499);
    assert_eq!(take(&mut resumed, 1).await, [1_500]);
    let last = t.submit(new_job("email.send")).await;
    t.cancel(last.id).await;
    assert_eq!(take(&mut resumed, 1).await, [1_501]);
    assert_eq!(take(&mut feed, 1).await, [1_501]);
}

/// Model: audit-trail
async fn a_feed_shows_what_is_not_kept_while_it_is_live(t: &Fixture) {
    let mut feed = t.store.events(&t.me, 0);
    let first = t.submit(new_job("email.send")).await;
    t.cancel(first.id).await;
    // Stored records come first; what follows is live.
    let mut seen = vec![feed.next().await.unwrap()];
    t.submit(new_job("email.send")).await;
    while seen
        .last()
        .is_none_or(|record| record.event != AuditEvent::Submitted || record.job == Some(first.id))
    {
        seen.push(feed.next().await.unwrap());
    }
    assert_eq!(seen.last().unwrap().seq, 0, "it is not kept");
    assert!(seen.iter().any(|record| record.event == AuditEvent::Cancelled && record.seq == 1));
}

/// Model: tenant-isolation
async fn a_feed_of_one_tenant_shows_nothing_of_another(t: &Fixture) {
    for name in ["one", "two", "one"] {
        let job = t.submit(NewJob { tenant: Some(tenant(name)), ..new_job("email.send") }).await;
        t.cancel(job.id).await;
    }
    let two = Caller::new("another", Role::Viewer, Some(tenant("two")));
    let mut feed = t.store.events(&two, 0);
    let record = feed.next().await.unwrap();
    assert_eq!((record.seq, record.tenant.clone()), (2, tenant("two")));
    let job = t.submit(NewJob { tenant: Some(tenant("two")), ..new_job("email.send") }).await;
    t.cancel(job.id).await;
    assert_eq!(take(&mut feed, 1).await, [4]);
}

/// Model: audit-trail
async fn a_feed_from_now_on_shows_nothing_older(t: &Fixture) {
    for count in 0..5_u64 {
        let mut feed = t.store.events_from_now(&t.me).await.unwrap();
        assert_eq!(feed.position(), count);
        let id = t.submit(new_job("email.send")).await.id;
        t.cancel(id).await;
        assert_eq!(take(&mut feed, 1).await, [count + 1]);
    }
}
