//! What people see: numbers, rates, and a job's end as soon as it comes.

pub mod errors;
pub mod explain;
pub mod history;
pub mod list;
pub mod retention;
pub mod roles;
pub mod tenants;
pub mod types;

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::internal::minute_of;
use windlass::job::{Failure, JobId, JobState, NewJob};
use windlass::store::{ListRequest, Minute};

use crate::fixture::{Fixture, new_job, queue, secs, tenant};

tests!(
    reads, reads:
    counts_equal_a_recount_of_every_job,
    rates_count_what_happened_in_each_minute,
    rates_lose_nothing_at_the_turn_of_a_minute,
    rates_that_are_written_late_are_shown_at_once,
    the_oldest_claimable_job_of_a_queue_is_known,
    a_wait_returns_when_the_job_is_final,
    a_wait_that_is_over_shows_the_job_as_it_is,
);

/// Model: atomic-changes
async fn counts_equal_a_recount_of_every_job(t: &Fixture) {
    for (n, state) in JobState::ALL.into_iter().enumerate() {
        let name = if n % 2 == 0 { "blue" } else { "red" };
        // A job waits only for jobs of its own tenant, and what `placed` adds is of the default one.
        let tenant = (state != JobState::Pending).then(|| tenant(name));
        t.placed_as(state, NewJob { tenant, ..new_job(&format!("type-{name}")) }).await;
    }
    let kept = t.store.stats(&t.me).await.unwrap();
    let page = t.store.list(&t.me, ListRequest { limit: 500, ..ListRequest::default() }).await.unwrap();
    let mut recount: BTreeMap<JobState, u64> = JobState::ALL.into_iter().map(|state| (state, 0)).collect();
    let (mut queues, mut types, mut tenants) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for found in &page.jobs {
        let (lane, state) = (&found.job.lane, found.job.state);
        *recount.get_mut(&state).unwrap() += 1;
        *queues.entry((lane.queue.clone(), state)).or_insert(0) += 1;
        *types.entry((lane.job_type.clone(), state)).or_insert(0) += 1;
        *tenants.entry((lane.tenant.clone(), state)).or_insert(0) += 1;
    }
    assert_eq!(kept.states, recount);
    assert_eq!(flat(kept.queues), queues);
    assert_eq!(flat(kept.types), types);
    assert_eq!(flat(kept.tenants), tenants);
}

fn flat<K: Ord + Clone>(counts: BTreeMap<K, BTreeMap<JobState, u64>>) -> BTreeMap<(K, JobState), u64> {
    let pairs = counts.into_iter().flat_map(|(key, states)| {
        states.into_iter().map(move |(state, count)| ((key.clone(), state), count))
    });
    pairs.filter(|(_, count)| *count > 0).collect()
}

/// What the store has written down of each minute, once a second has passed.
async fn minutes(t: &Fixture) -> Vec<(i64, Minute)> {
    t.advance(secs(1));
    t.tick().await;
    t.store.stats(&t.me).await.unwrap().minutes.into_iter().collect()
}

/// Model: atomic-changes
async fn rates_count_what_happened_in_each_minute(t: &Fixture) {
    let minute = minute_of(t.now());
    let worker = t.steady_worker().await;
    t.submit_all(vec![new_job("report"), new_job("report"), new_job("report"), new_job("report")]).await;
    let claimed = t.claim(worker, 4).await;
    t.advance(Duration::from_millis(100));
    t.complete(worker, &claimed[0]).await;
    t.fail(worker, &claimed[1], Failure::temporary("busy")).await;
    t.fail(worker, &claimed[2], Failure::permanent("gone", "never")).await;
    t.cancel(claimed[3].job.id).await;
    let found = minutes(t).await;
    assert_eq!(found.len(), 1);
    let (number, counts) = &found[0];
    assert_eq!((*number, counts.submitted, counts.claimed), (minute, 4, 4));
    assert_eq!((counts.completed, counts.retried, counts.failed, counts.cancelled), (1, 1, 1, 1));
    assert_eq!((counts.dead_letter, counts.reaped), (0, 0));
    assert_eq!(counts.ran.percentile(1.0), Some(Duration::from_millis(100)), "the bucket that 100 ms is in");
}

/// Model: atomic-changes
async fn rates_lose_nothing_at_the_turn_of_a_minute(t: &Fixture) {
    let minute = minute_of(t.now());
    // Rates are written at most once a second: the second job is counted after the first one's were written.
    t.submit(new_job("report")).await;
    t.submit(new_job("report")).await;
    t.advance(secs(60));
    t.submit(new_job("report")).await;
    let found: Vec<(i64, u64)> =
        minutes(t).await.into_iter().map(|(minute, counts)| (minute, counts.submitted)).collect();
    assert_eq!(found, [(minute, 2), (minute + 1, 1)]);
}

/// Model: atomic-changes
async fn rates_that_are_written_late_are_shown_at_once(t: &Fixture) {
    let minute = minute_of(t.now());
    let submitted = async || {
        let minutes = t.store.stats(&t.me).await.unwrap().minutes;
        minutes.into_iter().map(|(minute, counts)| (minute, counts.submitted)).collect::<Vec<(i64, u64)>>()
    };
    t.submit(new_job("report")).await;
    // With a key: otherwise a read beside other nodes may make the commit that counts it.
    t.submit(NewJob { unique_key: Some("second".to_owned()), ..new_job("report") }).await;
    t.advance(secs(600));
    assert_eq!(submitted().await, [(minute, 1)], "the second is counted with the next commit");
    t.submit(new_job("report")).await;
    assert_eq!(submitted().await, [(minute, 2), (minute + 10, 1)]);
    t.advance(secs(5));
    assert_eq!(submitted().await, [(minute, 2), (minute + 10, 1)]);
    t.advance(secs(3_300));
    assert_eq!(submitted().await, [(minute + 10, 1)], "an hour is kept");
}

/// Model: explained-waiting
async fn the_oldest_claimable_job_of_a_queue_is_known(t: &Fixture) {
    let first = t.now();
    assert_eq!(t.store.oldest_ready(&t.me, queue("default")).await.unwrap(), None);
    let worker = t.steady_worker().await;
    t.submit(new_job("report")).await;
    t.advance(secs(5));
    // A more urgent job is claimed first, but has not waited longest.
    let urgent = windlass::job::Priority::HIGH;
    t.submit(NewJob { priority: Some(urgent), ..new_job("report") }).await;
    assert_eq!(t.store.oldest_ready(&t.me, queue("default")).await.unwrap(), Some(first));
    assert_eq!(t.store.oldest_ready(&t.me, queue("other")).await.unwrap(), None);
    t.claim(worker, 2).await;
    assert_eq!(t.store.oldest_ready(&t.me, queue("default")).await.unwrap(), None);
}

/// Model: wake-ups
async fn a_wait_returns_when_the_job_is_final(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let id = claimed.job.id;
    let (store, me) = (t.store.clone(), t.me.clone());
    let waiting = tokio::spawn(async move { store.wait(&me, id, secs(600)).await });
    tokio::task::yield_now().await;
    t.complete(worker, &claimed).await;
    let found = waiting.await.unwrap().unwrap().expect("the job is there");
    assert_eq!(found.job.state, JobState::Completed);
    let again = t.store.wait(&t.me, id, secs(600)).await.unwrap().unwrap();
    assert_eq!(again, found, "a job that is final already is not waited for");
}

/// Model: wake-ups
async fn a_wait_that_is_over_shows_the_job_as_it_is(t: &Fixture) {
    let job = t.submit(new_job("report")).await;
    let found = t.store.wait(&t.me, job.id, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(found.job.state, JobState::Scheduled);
    let unknown = JobId::from_bytes([7; 16]);
    assert_eq!(t.store.wait(&t.me, unknown, secs(600)).await.unwrap(), None);
}
