//! Leases: how they are held, how they end, and what the end of one means for its job.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::WorkError;
use windlass::job::{
    AttemptOutcome, Category, Failure, JobId, JobState, NewJob, RetryPolicy, SuspendMode, WorkerId,
};
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionRequest, ClaimedJob, Directive, Finish, HeartbeatItem, NewWorker, Outcome, Park, Suspend,
};

use crate::fixture::{Fixture, just_before, new_job};

tests!(
    claims_lease, claims::lease:
    a_heartbeat_extends_the_lease,
    a_lease_ends_at_its_own_time,
    a_lease_shorter_than_the_silence_ends_at_its_own_time,
    a_silent_worker_loses_its_leases,
    a_worker_that_does_not_beat_keeps_the_full_lease,
    a_worker_that_does_not_beat_is_not_forgotten_while_it_works,
    a_worker_that_comes_back_finds_its_leases_gone,
    every_sign_of_life_counts,
    looking_for_work_is_not_written_down_every_time,
    a_lease_that_was_just_extended_is_left_as_it_is,
    a_lost_lease_counts_as_a_crash,
    a_job_that_crashes_its_workers_is_poison,
    poison_is_counted_apart_from_other_failures,
    the_store_itself_ends_an_attempt_that_takes_too_long,
    a_timeout_that_is_not_retried_fails_the_job,
    a_handler_may_shorten_its_time_and_not_lengthen_it,
    a_heartbeat_says_what_to_do,
    leaving_gives_jobs_back_without_counting,
    a_heartbeat_that_waits_learns_that_its_worker_was_removed,
    a_worker_has_a_new_id_at_every_start,
    a_workers_clock_does_not_matter,
    maintenance_says_when_to_come_again,
);

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(300);
const INSTANT: Duration = Duration::from_millis(1);

/// Sends a heartbeat about one job.
pub async fn beat(t: &Fixture, worker: WorkerId, claimed: &ClaimedJob) -> Directive {
    beat_with(t, worker, HeartbeatItem::new(claimed.job.id, claimed.job.fence)).await
}

async fn beat_with(t: &Fixture, worker: WorkerId, beat: HeartbeatItem) -> Directive {
    t.store.heartbeat(&t.me, worker, vec![beat]).await.unwrap().directives[0].1
}

/// A worker that does not beat, so that only the lease counts.
async fn quiet_worker(t: &Fixture) -> WorkerId {
    let new = NewWorker { heartbeats: false, ..NewWorker::default() };
    t.store.register(&t.me, new).await.unwrap().id
}

async fn outcomes(t: &Fixture, id: JobId) -> Vec<AttemptOutcome> {
    let attempts = t.store.attempts(&t.me, id).await.unwrap().unwrap();
    attempts.into_iter().filter_map(|attempt| attempt.record).map(|record| record.outcome).collect()
}

/// Model: leases-and-heartbeats
async fn a_heartbeat_extends_the_lease(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    assert_eq!(claimed.job.lease.unwrap().expires_at, t.now().plus(LEASE));
    for _ in 0..60 {
        t.advance(SECOND * 10);
        t.tick().await;
        assert_eq!(beat(t, worker, &claimed).await, Directive::Continue);
        assert_eq!(t.get(claimed.job.id).await.job.lease.unwrap().expires_at, t.now().plus(LEASE));
    }
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed), "ten minutes later");
}

/// Model: leases-and-heartbeats, timer-precision
async fn a_lease_ends_at_its_own_time(t: &Fixture) {
    let worker = quiet_worker(t).await;
    let job = t.submit(new_job("email.send")).await.id;
    t.claim_one(worker).await;
    t.advance(just_before(LEASE));
    t.tick().await;
    assert_eq!(t.state(job).await, JobState::Running);
    t.advance(INSTANT);
    t.tick().await;
    assert_eq!(t.state(job).await, JobState::Retrying);
    let records = t.records(RecordQuery { job: Some(job), ..RecordQuery::default() }).await;
    assert!(records.iter().all(|record| record.event != AuditEvent::Exhausted), "{records:?}");
}

/// Model: leases-and-heartbeats, timer-precision
async fn a_lease_shorter_than_the_silence_ends_at_its_own_time(t: &Fixture) {
    for lease in [SECOND, SECOND * 29] {
        let (worker, claimed) =
            t.running(NewJob { lease_timeout: Some(lease), ..new_job("email.send") }).await;
        t.advance(just_before(lease));
        t.tick().await;
        assert_eq!(t.state(claimed.job.id).await, JobState::Running);
        t.advance(INSTANT);
        t.tick().await;
        assert_eq!(t.state(claimed.job.id).await, JobState::Retrying);
        assert_eq!(beat(t, worker, &claimed).await, Directive::Lost);
        t.cancel(claimed.job.id).await;
    }
}

/// Model: leases-and-heartbeats, timer-precision
async fn a_silent_worker_loses_its_leases(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let (other, kept) = t.running(new_job("email.send")).await;
    t.advance(just_before(SECOND * 30));
    t.tick().await;
    assert_eq!(t.state(claimed.job.id).await, JobState::Running);
    assert_eq!(beat(t, other, &kept).await, Directive::Continue);
    t.advance(INSTANT);
    let ticked = t.store.tick().await.unwrap();
    assert_eq!(ticked.leases, 1);
    assert_eq!(t.state(claimed.job.id).await, JobState::Retrying);
    assert_eq!(t.state(kept.job.id).await, JobState::Running, "who was seen keeps what it has");
    t.advance(SECOND * 2);
    let again = t.claim_one(other).await;
    assert_eq!((again.job.id, again.job.attempt), (claimed.job.id, 2));
    assert_eq!(t.complete(worker, &claimed).await, Finish::Stale);
}

/// Model: leases-and-heartbeats
async fn a_worker_that_does_not_beat_keeps_the_full_lease(t: &Fixture) {
    let worker = quiet_worker(t).await;
    t.submit(new_job("email.send")).await;
    let claimed = t.claim_one(worker).await;
    t.advance(just_before(LEASE));
    t.tick().await;
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
}

/// Model: leases-and-heartbeats
async fn a_worker_that_does_not_beat_is_not_forgotten_while_it_works(t: &Fixture) {
    let worker = quiet_worker(t).await;
    let hours = Some(SECOND * 3_600 * 5);
    t.submit(NewJob { lease_timeout: hours, execution_timeout: hours, ..new_job("email.send") }).await;
    let claimed = t.claim_one(worker).await;
    t.advance(SECOND * 3_600 * 4);
    t.tick().await;
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
    t.advance(SECOND * 3_601);
    t.tick().await;
    let error = t.store.deregister(&t.me, worker).await.unwrap_err();
    assert_eq!(error, WorkError::NoSuchWorker(worker), "an idle one is, in the end");
}

/// Model: counters-and-fences, leases-and-heartbeats, one-lease-at-a-time
async fn a_worker_that_comes_back_finds_its_leases_gone(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.advance(SECOND * 30);
    // Maintenance has not run: the call itself finds that its time is over.
    assert_eq!(t.complete(worker, &claimed).await, Finish::Stale);
    assert_eq!(t.state(claimed.job.id).await, JobState::Retrying);
    t.advance(SECOND * 2);
    let again = t.claim_one(worker).await;
    assert_eq!(again.job.id, claimed.job.id, "it is alive again and may claim");
    t.advance(SECOND * 29);
    t.tick().await;
    assert_eq!(t.complete(worker, &again).await, Finish::Applied(JobState::Completed));
}

/// Model: leases-and-heartbeats
async fn every_sign_of_life_counts(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let lease = crate::fixture::lease_ref(&claimed);
    for _ in 0..3 {
        t.advance(SECOND * 29);
        t.store.record(&t.me, lease, Vec::new()).await.unwrap();
        t.advance(SECOND * 29);
        t.claim(worker, 1).await;
    }
    t.tick().await;
    assert_eq!(t.state(claimed.job.id).await, JobState::Running);
}

async fn seen_after(t: &Fixture, worker: WorkerId) -> Duration {
    let config = t.store.config(&t.me).await.unwrap();
    t.now().since(config.workers[&worker].seen_at)
}

/// Model: wake-ups. An idle worker looks once a second, and an idle store writes next to nothing.
async fn looking_for_work_is_not_written_down_every_time(t: &Fixture) {
    let worker = t.worker().await;
    t.advance(SECOND * 9);
    t.claim(worker, 1).await;
    assert_eq!(seen_after(t, worker).await, SECOND * 9);
    t.advance(SECOND);
    t.claim(worker, 1).await;
    assert_eq!(seen_after(t, worker).await, Duration::ZERO);
    t.submit(new_job("email.send")).await;
    t.advance(SECOND);
    t.claim_one(worker).await;
    assert_eq!(seen_after(t, worker).await, Duration::ZERO, "a lease counts from the claim");
}

/// Model: leases-and-heartbeats. Processes that are woken by each other's heartbeats would otherwise never be quiet again.
async fn a_lease_that_was_just_extended_is_left_as_it_is(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let lease = claimed.job.lease.unwrap();
    t.advance(SECOND / 2);
    assert_eq!(beat(t, worker, &claimed).await, Directive::Continue);
    assert_eq!(t.get(claimed.job.id).await.job.lease, Some(lease));
    t.advance(SECOND / 2);
    assert_eq!(beat(t, worker, &claimed).await, Directive::Continue);
    let extended = t.get(claimed.job.id).await.job.lease.unwrap();
    assert_eq!(extended.expires_at, lease.expires_at.plus(SECOND));
}

/// Model: crashes-and-poison, attempt-records, error-categories
async fn a_lost_lease_counts_as_a_crash(t: &Fixture) {
    let (_, claimed) = t.running(new_job("email.send")).await;
    t.advance(SECOND * 30);
    t.tick().await;
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.failures, job.crashes, job.attempt), (1, 1, 1));
    let error = job.details.error.clone().unwrap();
    assert_eq!((error.category, error.code.as_deref()), (Category::System, Some("lease_expired")));
    assert!(job.retry_at.unwrap() > t.now(), "it backs off like after any other failure");
    assert_eq!(outcomes(t, job.id).await, [AttemptOutcome::Lost]);
}

/// Model: crashes-and-poison, exhaustion
async fn a_job_that_crashes_its_workers_is_poison(t: &Fixture) {
    let retry = RetryPolicy { max_attempts: 100, ..RetryPolicy::fixed() };
    let job = t.submit(NewJob { retry: Some(retry), ..new_job("email.send") }).await.id;
    for crash in 1..=3 {
        let worker = t.worker().await;
        t.claim_one(worker).await;
        t.advance(SECOND * 31);
        t.tick().await;
        assert_eq!(t.get(job).await.job.crashes, crash);
        t.advance(SECOND);
    }
    let found = t.get(job).await.job;
    assert_eq!(found.state, JobState::DeadLetter);
    assert_eq!(found.details.error.as_ref().unwrap().code.as_deref(), Some("poison"));
    let exhausted =
        RecordQuery { job: Some(job), event: Some(AuditEvent::Exhausted), ..RecordQuery::default() };
    assert_eq!(t.records(exhausted).await.len(), 1);
}

/// Model: crashes-and-poison
async fn poison_is_counted_apart_from_other_failures(t: &Fixture) {
    let retry = RetryPolicy { max_attempts: 100, ..RetryPolicy::fixed() };
    let worker = t.worker().await;
    let job = t.submit(NewJob { retry: Some(retry), ..new_job("email.send") }).await.id;
    let failures = [
        Failure::temporary("no route"),
        Failure::new(Category::System, "panic"),
        Failure::new(Category::Timeout, "slow"),
        Failure::new(Category::System, "panic"),
        Failure::temporary("no route"),
    ];
    for failure in failures {
        let claimed = t.claim_one(worker).await;
        assert_eq!(t.fail(worker, &claimed, failure).await, Finish::Applied(JobState::Retrying));
        t.advance(SECOND);
    }
    let found = t.get(job).await.job;
    assert_eq!((found.failures, found.crashes), (5, 2));
    let claimed = t.claim_one(worker).await;
    let panicked = Failure::new(Category::System, "panic");
    assert_eq!(t.fail(worker, &claimed, panicked).await, Finish::Applied(JobState::DeadLetter));
}

/// Model: execution-timeout, timer-precision
async fn the_store_itself_ends_an_attempt_that_takes_too_long(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    assert_eq!(claimed.job.lease.unwrap().deadline_at, t.now().plus(SECOND * 1_800));
    for _ in 0..179 {
        t.advance(SECOND * 10);
        assert_eq!(beat(t, worker, &claimed).await, Directive::Continue);
    }
    t.advance(just_before(SECOND * 10));
    t.tick().await;
    assert_eq!(t.state(claimed.job.id).await, JobState::Running);
    t.advance(INSTANT);
    assert_eq!(beat(t, worker, &claimed).await, Directive::Timeout, "however alive the worker is");
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.state, job.failures, job.crashes), (JobState::Retrying, 1, 0));
    assert_eq!(job.details.error.as_ref().unwrap().category, Category::Timeout);
    assert_eq!(outcomes(t, job.id).await, [AttemptOutcome::TimedOut]);
    assert_eq!(t.complete(worker, &claimed).await, Finish::Stale, "a later outcome is stale");
}

/// Model: execution-timeout, error-categories
async fn a_timeout_that_is_not_retried_fails_the_job(t: &Fixture) {
    let retry = Some(RetryPolicy { retry_on: vec![Category::System], ..RetryPolicy::standard() });
    let job = NewJob { retry, execution_timeout: Some(SECOND * 5), ..new_job("email.send") };
    let (_, claimed) = t.running(job).await;
    t.advance(SECOND * 5);
    t.tick().await;
    assert_eq!(t.state(claimed.job.id).await, JobState::Failed);
}

/// Model: execution-timeout
async fn a_handler_may_shorten_its_time_and_not_lengthen_it(t: &Fixture) {
    let job = NewJob { execution_timeout: Some(SECOND * 60), ..new_job("email.send") };
    let (worker, claimed) = t.running(job).await;
    let start = t.now();
    let deadline = async || t.get(claimed.job.id).await.job.lease.unwrap().deadline_at;
    let plain = HeartbeatItem::new(claimed.job.id, claimed.job.fence);
    t.advance(SECOND * 10);
    beat_with(t, worker, HeartbeatItem { timeout: Some(SECOND * 3_600), ..plain.clone() }).await;
    assert_eq!(deadline().await, start.plus(SECOND * 60));
    beat_with(t, worker, HeartbeatItem { timeout: Some(SECOND * 5), ..plain.clone() }).await;
    assert_eq!(deadline().await, start.plus(SECOND * 15));
    beat_with(t, worker, HeartbeatItem { timeout: Some(SECOND * 20), ..plain }).await;
    assert_eq!(deadline().await, start.plus(SECOND * 15), "nor take back what it gave up");
    t.advance(SECOND * 5);
    t.tick().await;
    assert_eq!(beat(t, worker, &claimed).await, Directive::Timeout);
}

/// Model: leases-and-heartbeats, suspend-modes, interrupted-writes
async fn a_heartbeat_says_what_to_do(t: &Fixture) {
    let worker = t.worker().await;
    let job = NewJob { execution_timeout: Some(SECOND * 20), ..new_job("email.send") };
    t.submit_all(vec![job; 6]).await;
    let claimed = t.claim(worker, 6).await;
    let id = |n: usize| claimed[n].job.id;
    t.act(id(1), ActionRequest::Suspend(Suspend { mode: SuspendMode::Graceful, ..Suspend::default() })).await;
    t.act(id(2), ActionRequest::Suspend(Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() }))
        .await;
    t.cancel(id(3)).await;
    t.finish(worker, id(4), claimed[4].job.fence, Outcome::Parked(Park::For(SECOND * 60))).await;
    let beats = || -> Vec<HeartbeatItem> {
        claimed.iter().map(|claimed| HeartbeatItem::new(claimed.job.id, claimed.job.fence)).collect()
    };
    let mut asked = beats();
    asked.push(HeartbeatItem::new(JobId::new(t.now(), 7), claimed[0].job.fence));
    let reply = t.store.heartbeat(&t.me, worker, asked).await.unwrap();
    let expected = [
        Directive::Continue,
        Directive::Continue,
        Directive::Suspend,
        Directive::Cancel,
        Directive::Lost,
        Directive::Continue,
        Directive::Lost,
    ];
    assert_eq!(reply.directives.iter().map(|(_, directive)| *directive).collect::<Vec<_>>(), expected);
    assert_eq!(reply.directives[5].0, id(5), "in the order asked");
    assert_eq!(reply.paused, None);
    t.advance(SECOND * 20);
    let reply = t.store.heartbeat(&t.me, worker, beats()).await.unwrap();
    assert_eq!((reply.directives[0].1, reply.directives[2].1), (Directive::Timeout, Directive::Suspend));
}

/// Model: crashes-and-poison, attempt-records
async fn leaving_gives_jobs_back_without_counting(t: &Fixture) {
    let worker = t.worker().await;
    t.submit_all(vec![new_job("email.send"); 3]).await;
    let claimed = t.claim(worker, 3).await;
    assert_eq!(t.store.deregister(&t.me, worker).await.unwrap(), 3);
    for claimed in &claimed {
        let job = t.get(claimed.job.id).await.job;
        assert_eq!((job.state, job.failures, job.crashes), (JobState::Retrying, 0, 0));
        assert_eq!(outcomes(t, job.id).await, [AttemptOutcome::Released]);
    }
    let next = t.worker().await;
    assert_eq!(t.claim(next, 3).await.len(), 3, "at once");
    let error = t.store.deregister(&t.me, worker).await.unwrap_err();
    assert_eq!(error, WorkError::NoSuchWorker(worker));
}

/// Model: leases-and-heartbeats
async fn a_heartbeat_that_waits_learns_that_its_worker_was_removed(t: &Fixture) {
    let (worker, other) = (t.worker().await, t.worker().await);
    let beats = async |id| t.store.heartbeat_wait(&t.me, id, Vec::new(), Duration::from_secs(20)).await;
    let leave = async |id| t.store.deregister(&t.me, id).await.unwrap();
    let both = async { tokio::join!(beats(worker), beats(other), leave(worker)) };
    // The other one is woken, too, and sees that nothing concerns it.
    let (removed, stayed, _) =
        tokio::time::timeout(Duration::from_secs(10), both).await.expect("woken at once");
    assert_eq!(removed.unwrap_err(), WorkError::NoSuchWorker(worker));
    assert!(stayed.unwrap().directives.is_empty());
}

/// Model: leases-and-heartbeats
async fn a_worker_has_a_new_id_at_every_start(t: &Fixture) {
    let new = NewWorker { name: "mailer-1".into(), ..NewWorker::default() };
    let first = t.store.register(&t.me, new.clone()).await.unwrap();
    let second = t.store.register(&t.me, new).await.unwrap();
    assert_ne!(first.id, second.id);
    t.submit(new_job("email.send")).await;
    let claimed = t.claim_one(first.id).await;
    assert_eq!(t.complete(second.id, &claimed).await, Finish::Stale, "the same name is not the same worker");
}

/// Model: store-time
async fn a_workers_clock_does_not_matter(t: &Fixture) {
    let hour = SECOND * 3_600;
    for (said, state) in [(t.now().minus(hour), JobState::Scheduled), (t.now().plus(hour), JobState::Waiting)]
    {
        let (worker, claimed) = t.running(new_job("email.send")).await;
        let parked = Outcome::Parked(Park::Until(said));
        assert_eq!(t.finish(worker, claimed.job.id, claimed.job.fence, parked).await, Finish::Applied(state));
        assert_eq!(t.get(claimed.job.id).await.job.updated_at, t.now(), "what is kept is the store's time");
        t.cancel(claimed.job.id).await;
    }
}

/// Model: leases-and-heartbeats, lifetime, timer-precision
async fn maintenance_says_when_to_come_again(t: &Fixture) {
    let worker = quiet_worker(t).await;
    let start = t.now();
    let lifetime = Some(SECOND * 50);
    t.submit(NewJob { lifetime, delay: Some(SECOND * 60), ..new_job("email.send") }).await;
    assert_eq!(t.store.tick().await.unwrap().next_at, Some(start.plus(SECOND * 50)));
    t.worker().await;
    assert_eq!(t.store.tick().await.unwrap().next_at, Some(start.plus(SECOND * 30)));
    t.submit(NewJob { delay: Some(SECOND * 20), ..new_job("email.send") }).await;
    assert_eq!(t.store.tick().await.unwrap().next_at, Some(start.plus(SECOND * 20)));
    t.submit(NewJob { lease_timeout: Some(SECOND * 10), ..new_job("email.send") }).await;
    t.claim_one(worker).await;
    assert_eq!(t.store.tick().await.unwrap().next_at, Some(start.plus(SECOND * 10)));
}
