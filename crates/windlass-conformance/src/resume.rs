//! After a pause: who resumed a queue, and the jobs that an aggressive pause suspended.

use windlass::error::ActionError;
use windlass::job::{JobState, NewJob};
use windlass::store::caller::Role;
use windlass::store::{Filter, Pause, PauseTarget};

use crate::fixture::{Fixture, caller, new_job, queue, secs};

tests!(
    resume, resume:
    a_queue_says_who_resumed_it_last,
    the_jobs_that_a_pause_suspended_are_resumed_together_and_no_others,
    pausing_and_resuming_strictly_names_what_is_in_the_way,
);

fn mail() -> PauseTarget {
    PauseTarget::Queue(queue("mail"))
}

/// Model: queue-pause
async fn a_queue_says_who_resumed_it_last(t: &Fixture) {
    let look = async || t.store.queue(&t.me, queue("mail")).await.unwrap();
    assert_eq!(look().await.resumed, None);
    assert!(!t.store.resume(&t.me, mail(), None).await.unwrap(), "it is not paused");
    assert_eq!(look().await.resumed, None);
    t.store.pause(&t.me, mail(), Pause::graceful()).await.unwrap();
    t.advance(secs(5));
    t.store.resume(&t.me, mail(), Some("all is well".into())).await.unwrap();
    let (end, at) = (look().await.resumed.unwrap(), t.now());
    assert_eq!((end.by.as_str(), end.at, end.reason.as_deref()), ("local", at, Some("all is well")));
    // It stays while the queue is paused again, and a pause that ends automatically is the system's.
    t.store.pause(&t.me, mail(), Pause::graceful().expires_in(secs(10))).await.unwrap();
    assert_eq!(look().await.resumed.unwrap(), end);
    t.advance(secs(10));
    t.tick().await;
    assert_eq!(look().await.resumed.unwrap().by, "windlass");
    // A tenant's own pause is its own.
    let ann = caller("ann", Role::Operator, "acme");
    t.store.pause(&ann, mail(), Pause::graceful()).await.unwrap();
    t.advance(secs(1));
    t.store.resume(&ann, mail(), None).await.unwrap();
    assert_eq!(t.store.queue(&ann, queue("mail")).await.unwrap().resumed.unwrap().by, "ann");
    assert_eq!(look().await.resumed.unwrap().by, "windlass");
}

/// Model: queue-pause
async fn the_jobs_that_a_pause_suspended_are_resumed_together_and_no_others(t: &Fixture) {
    let job = |name: &str| NewJob { queue: queue(name), ..new_job("a") };
    let worker = t.worker().await;
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(t.submit(job("mail")).await.id);
        t.claim_one(worker).await;
    }
    let single = t.submit(job("mail")).await.id;
    t.suspend(single).await;
    let other = t.submit(job("other")).await.id;
    t.claim_one(worker).await;
    t.store.pause(&t.me, PauseTarget::Queue(queue("other")), Pause::aggressive()).await.unwrap();
    t.store.pause(&t.me, mail(), Pause::aggressive()).await.unwrap();
    let by_pause = Filter { is_suspended_by_pause: Some(true), ..Filter::default() };
    assert_eq!(t.store.bulk_dry_run(&t.me, &by_pause).await.unwrap(), 4);
    t.store.resume(&t.me, mail(), None).await.unwrap();
    for id in &running {
        assert_eq!(t.state(*id).await, JobState::Suspended, "a queue alone resumes no job");
    }
    let done = t.store.resume_paused_jobs(&t.me, queue("mail"), Some("continue".into())).await.unwrap();
    assert_eq!((done.matched, done.changed), (3, 3));
    for id in &running {
        assert_eq!(t.state(*id).await, JobState::Scheduled);
    }
    assert_eq!(t.state(single).await, JobState::Suspended);
    assert_eq!(t.state(other).await, JobState::Suspended);
    assert_eq!(t.store.resume_paused_jobs(&t.me, queue("mail"), None).await.unwrap().matched, 0);
    // Suspended by a person later, it is that person's.
    t.suspend(running[0]).await;
    assert_eq!(t.store.resume_paused_jobs(&t.me, queue("mail"), None).await.unwrap().matched, 0);
}

/// Model: repeated-actions
async fn pausing_and_resuming_strictly_names_what_is_in_the_way(t: &Fixture) {
    let resumed = t.store.resume_strictly(&t.me, mail(), None).await;
    assert_eq!(resumed, Err(ActionError::NotPaused("queue mail".into())));
    t.store.pause_strictly(&t.me, mail(), Pause::graceful().reason("first")).await.unwrap();
    let paused = t.store.pause_strictly(&t.me, mail(), Pause::graceful()).await;
    assert_eq!(paused, Err(ActionError::AlreadyPaused("queue mail".into())));
    let look = t.store.queue(&t.me, queue("mail")).await.unwrap();
    assert_eq!(look.paused.unwrap().reason.as_deref(), Some("first"));
    t.store.resume_strictly(&t.me, mail(), None).await.unwrap();
}
