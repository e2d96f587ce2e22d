//! More jobs become due at once than one commit moves: claims still take the most urgent of all that are due, lane by lane.

use std::time::Duration;

use windlass::job::{JobId, JobState, NewJob};
use windlass::limits;
use windlass::store::{Pause, PauseTarget};

use crate::fixture::{Fixture, new_job, priority, queue};

tests!(
    claims_due, claims::due:
    a_claim_takes_the_most_urgent_of_all_that_are_due,
    a_flood_in_one_queue_does_not_hide_what_is_due_in_another,
    a_paused_flood_does_not_hide_what_is_due_in_other_queues,
    a_retry_that_is_due_is_found_in_a_flood,
);

/// More than one commit moves.
const FLOOD: usize = limits::TICK_JOBS_PER_COMMIT + 100;
const SOON: Duration = Duration::from_secs(10);

/// Jobs of this kind that are all due at once.
async fn flood(t: &Fixture, job: NewJob) {
    let job = NewJob { delay: Some(SOON), ..job };
    t.submit_all(vec![job; FLOOD]).await;
}

async fn later(t: &Fixture, after: Duration, job: NewJob) -> JobId {
    t.submit(NewJob { delay: Some(SOON + after), ..job }).await.id
}

/// Model: claim-order, timer-precision. The most urgent ones come first although they became due last, and within one priority in the order of time.
async fn a_claim_takes_the_most_urgent_of_all_that_are_due(t: &Fixture) {
    flood(t, NewJob { priority: Some(priority(10)), ..new_job("bulk") }).await;
    let millis = Duration::from_millis;
    let critical = || NewJob { priority: Some(priority(100)), ..new_job("critical") };
    let second = later(t, millis(60), critical()).await;
    let first = later(t, millis(50), critical()).await;
    let third = later(t, millis(10), NewJob { priority: Some(priority(90)), ..new_job("bulk") }).await;
    let early = later(t, SOON, NewJob { priority: Some(priority(100)), ..new_job("early") }).await;
    t.advance(SOON + millis(100));
    let worker = t.worker().await;
    let claimed: Vec<JobId> = t.claim(worker, 3).await.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, [first, second, third]);
    assert_eq!(t.state(early).await, JobState::Delayed);
    // The others follow, each once.
    let mut rest = 0;
    loop {
        let some = t.claim(worker, 500).await.len();
        rest += some;
        if some == 0 {
            break;
        }
    }
    assert_eq!(rest, FLOOD);
}

/// Model: claim-order. Who takes from one queue only does not wait until the jobs of another have been moved.
async fn a_flood_in_one_queue_does_not_hide_what_is_due_in_another(t: &Fixture) {
    flood(t, NewJob { priority: Some(priority(90)), ..new_job("bulk") }).await;
    let other = NewJob { queue: queue("other"), priority: Some(priority(1)), ..new_job("small") };
    let id = later(t, Duration::from_millis(50), other).await;
    t.advance(SOON + Duration::from_secs(1));
    let worker = t.worker_for(&["other"], &[]).await;
    assert_eq!(t.claim_one(worker).await.job.id, id);
}

/// Model: claim-order, queue-pause
async fn a_paused_flood_does_not_hide_what_is_due_in_other_queues(t: &Fixture) {
    flood(t, NewJob { priority: Some(priority(90)), ..new_job("bulk") }).await;
    let other = NewJob { queue: queue("other"), priority: Some(priority(1)), ..new_job("small") };
    let id = later(t, Duration::from_millis(50), other).await;
    t.store.pause(&t.me, PauseTarget::Queue(queue("default")), Pause::default()).await.unwrap();
    t.advance(SOON + Duration::from_secs(1));
    let worker = t.worker().await;
    assert_eq!(t.claim_one(worker).await.job.id, id);
}

/// Model: claim-order, retry-defaults
async fn a_retry_that_is_due_is_found_in_a_flood(t: &Fixture) {
    let urgent = NewJob { priority: Some(priority(100)), ..new_job("urgent") };
    let (worker, claimed) = t.running(urgent).await;
    let failure = windlass::job::Failure::temporary("later").with_retry_after(SOON + Duration::from_secs(1));
    let outcome = windlass::store::Outcome::Failed(failure);
    t.finish(worker, claimed.job.id, claimed.job.fence, outcome).await;
    flood(t, NewJob { priority: Some(priority(10)), ..new_job("bulk") }).await;
    t.advance(SOON + Duration::from_secs(2));
    let again = t.claim_one(t.worker().await).await;
    assert_eq!(again.job.id, claimed.job.id);
}
