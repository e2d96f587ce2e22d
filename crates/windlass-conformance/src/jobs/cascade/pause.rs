//! An aggressive pause of a queue in which more jobs run than one commit may suspend.

use windlass::audit::AuditEvent;
use windlass::job::{JobId, JobState, NewJob};
use windlass::store::engine::RecordQuery;
use windlass::store::{ClaimedJob, Finish, Pause, PauseTarget};

use super::{BOUND, bounded, count_in, explained, tick_once};
use crate::fixture::{Fixture, new_job, queue, secs};

tests!(
    jobs_cascade_pause, jobs::cascade::pause:
    an_aggressive_pause_suspends_in_bounded_commits,
    a_running_job_says_that_the_pause_is_being_applied,
    a_pause_that_is_resumed_suspends_no_further_jobs,
    a_later_pause_begins_again_with_its_own_words,
    a_job_that_ends_before_its_turn_stays_as_it_is,
    every_suspended_job_names_who_paused_and_one_trace,
);

fn mail() -> PauseTarget {
    PauseTarget::Queue(queue("mail"))
}

/// Jobs that run in the queue, and one that runs beside it and was submitted between them.
async fn running_in_mail(t: &Fixture, count: usize) -> (Vec<ClaimedJob>, JobId) {
    let mut jobs = vec![NewJob { queue: queue("mail"), ..new_job("send") }; count];
    jobs.insert(count / 2, new_job("other"));
    t.submit_all(jobs).await;
    let worker = t.worker().await;
    let claimed = t.claim(worker, count + 1).await;
    let (other, mail): (Vec<ClaimedJob>, Vec<ClaimedJob>) =
        claimed.into_iter().partition(|claimed| claimed.job.lane.job_type.as_str() == "other");
    (mail, other[0].job.id)
}

fn ids(claimed: &[ClaimedJob]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.job.id).collect()
}

async fn pause(t: &Fixture, how: Pause) {
    assert!(t.store.pause(&t.me, mail(), how).await.unwrap());
}

/// Model: bounded-commits, queue-pause. Neither the commit of the pause nor any that continues suspends more jobs than the bound.
async fn an_aggressive_pause_suspends_in_bounded_commits(t: &Fixture) {
    let t = bounded(t);
    let (running, other) = running_in_mail(&t, 3 * BOUND + 1).await;
    let running = ids(&running);
    pause(&t, Pause::aggressive()).await;
    let mut before = count_in(&t, &running, JobState::Suspended).await;
    assert_eq!(before, BOUND);
    assert_eq!(t.store.stats(&t.me).await.unwrap().cascades, 1);
    loop {
        let has_more = tick_once(&t).await;
        let now = count_in(&t, &running, JobState::Suspended).await;
        assert!(now - before <= BOUND, "{now} after {before}");
        before = now;
        if !has_more {
            break;
        }
    }
    assert_eq!(before, running.len());
    assert_eq!(t.state(other).await, JobState::Running);
    assert_eq!(t.store.stats(&t.me).await.unwrap().cascades, 0);
    let done = t.store.resume_paused_jobs(&t.me, queue("mail"), None).await.unwrap();
    assert_eq!(done.changed, running.len() as u64);
    t.verify().await;
}

/// Model: bounded-commits, explained-waiting
async fn a_running_job_says_that_the_pause_is_being_applied(t: &Fixture) {
    let t = bounded(t);
    let (running, other) = running_in_mail(&t, 2 * BOUND).await;
    let last = running.last().unwrap().job.id;
    pause(&t, Pause::aggressive().reason("fire")).await;
    let reason = explained(&t, last).await.remove(0);
    assert_eq!(reason.code, "suspend_requested");
    assert_eq!(reason.details["cascade"], true);
    assert_eq!(reason.details["reason"], "fire");
    assert!(reason.message.contains("queue mail"), "{}", reason.message);
    assert!(explained(&t, other).await.is_empty());
    t.tick().await;
    assert_eq!(explained(&t, last).await[0].code, "suspended");
}

/// Model: queue-pause. What still runs when the pause is lifted continues, and nothing is left to do.
async fn a_pause_that_is_resumed_suspends_no_further_jobs(t: &Fixture) {
    let t = bounded(t);
    let (running, _) = running_in_mail(&t, 3 * BOUND).await;
    let running = ids(&running);
    pause(&t, Pause::aggressive()).await;
    assert!(t.store.resume(&t.me, mail(), None).await.unwrap());
    t.tick().await;
    assert_eq!(count_in(&t, &running, JobState::Suspended).await, BOUND);
    assert_eq!(count_in(&t, &running, JobState::Running).await, 2 * BOUND);
    assert_eq!(t.store.stats(&t.me).await.unwrap().cascades, 0);
    t.verify().await;
}

/// Model: queue-pause, pause-reason-and-expiry. The cursor of a resumed pause does not become part of the next one.
async fn a_later_pause_begins_again_with_its_own_words(t: &Fixture) {
    let t = bounded(t);
    let (running, _) = running_in_mail(&t, 3 * BOUND).await;
    pause(&t, Pause::aggressive().reason("first")).await;
    t.store.resume(&t.me, mail(), None).await.unwrap();
    t.store.resume_paused_jobs(&t.me, queue("mail"), None).await.unwrap();
    t.advance(secs(1));
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 2 * BOUND).await.len(), BOUND);
    pause(&t, Pause::aggressive().reason("second").expires_in(secs(60))).await;
    t.tick().await;
    for claimed in &running {
        let job = t.get(claimed.job.id).await.job;
        let suspension = job.details.suspension.as_ref().expect("all were suspended");
        assert_eq!(suspension.reason.as_deref(), Some("second"));
        assert_eq!(suspension.expires_at, Some(t.now().plus(secs(60))));
    }
    t.verify().await;
}

/// Model: refused-changes. A job that completed or was cancelled before its turn came follows the same rules.
async fn a_job_that_ends_before_its_turn_stays_as_it_is(t: &Fixture) {
    let t = bounded(t);
    let (running, _) = running_in_mail(&t, 2 * BOUND).await;
    pause(&t, Pause::aggressive()).await;
    let (completed, cancelled) = (&running[2 * BOUND - 1], running[2 * BOUND - 2].job.id);
    let worker = completed.job.lease.unwrap().worker;
    assert_eq!(t.complete(worker, completed).await, Finish::Applied(JobState::Completed));
    t.cancel(cancelled).await;
    t.tick().await;
    assert_eq!(t.state(completed.job.id).await, JobState::Completed);
    assert_eq!(t.state(cancelled).await, JobState::Cancelled);
    assert_eq!(count_in(&t, &ids(&running), JobState::Suspended).await, 2 * BOUND - 2);
    t.verify().await;
}

/// Model: audit-trail. The records of later commits are those of the request, not of maintenance.
async fn every_suspended_job_names_who_paused_and_one_trace(t: &Fixture) {
    let t = bounded(t);
    let (running, _) = running_in_mail(&t, 2 * BOUND).await;
    pause(&t, Pause::aggressive().reason("fire")).await;
    t.tick().await;
    let query = |event| RecordQuery { event: Some(event), limit: 100, ..RecordQuery::default() };
    let paused = t.records(query(AuditEvent::QueuePaused)).await.remove(0);
    let suspended = t.records(query(AuditEvent::Suspended)).await;
    assert_eq!(suspended.len(), running.len());
    for record in suspended {
        assert_eq!((record.actor_type.as_str(), record.actor_id.as_str()), ("user", "local"));
        assert_eq!(record.trace_id, paused.trace_id);
        assert!(record.trace_id.is_some());
    }
}
