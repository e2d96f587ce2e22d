//! A job whose record cannot be read hurts itself alone: not those whose timers come after its own, and not its parent, its children, its
//! dependents, its dependencies and those with the same keys.

use windlass::clock::Timestamp;
use windlass::error::{StoreError, SubmitError};
use windlass::job::{Dependency, GroupStrategy, JobId, JobState, NewJob, RetryPolicy};
use windlass::store::{
    ActionRequest, Directive, Finish, HeartbeatItem, ListRequest, NewGroup, Outcome, Report, Store,
    SubmitOptions,
};

use super::in_the_way::{after, claimed, options};
use crate::fixture::{Fixture, On, lease_ref, new_job, secs};

const ENGINES: [On; 2] = [On::Sqlite, On::Postgres];

/// The store, after the records of these jobs were made unreadable.
async fn without(t: &Fixture, on: On, jobs: &[JobId]) -> Store {
    let hex = |id: &JobId| id.to_string().replace('-', "");
    let last = jobs.len() - 1;
    let mut store = None;
    for (place, id) in jobs.iter().enumerate() {
        let sql = match on {
            On::Sqlite => format!(
                "UPDATE hot SET record = CAST(substr(record, 1, 5) || x'07' AS BLOB) WHERE id = x'{}'",
                hex(id)
            ),
            _ => format!("UPDATE @hot SET record = '\\x07' WHERE id = '{}'::uuid", hex(id)),
        };
        let opened = after(t, options(false), &sql).await;
        if place == last {
            store = Some(opened);
        } else {
            opened.close();
        }
    }
    store.expect("there is a job")
}

/// Applies what is due, as a server does; says when it is to look again.
async fn ticked(store: &Store) -> Option<Timestamp> {
    for _ in 0..100 {
        let round = store.tick().await.expect("maintenance continues");
        if !round.has_more {
            return round.next_at;
        }
    }
    panic!("maintenance has no end");
}

async fn submit(t: &Fixture, store: &Store, job: NewJob) -> Result<JobId, SubmitError> {
    let receipts = store.submit(&t.me, vec![job], SubmitOptions::default()).await?;
    Ok(receipts[0].job.id)
}

/// Model: payload
#[tokio::test]
async fn its_timer_stops_no_other_timer() {
    let states = [
        JobState::Created,
        JobState::Pending,
        JobState::Scheduled,
        JobState::Delayed,
        JobState::Running,
        JobState::Waiting,
        JobState::Retrying,
        JobState::Suspended,
    ];
    for on in ENGINES {
        let t = Fixture::new(on);
        let mut jobs = Vec::new();
        for state in states {
            jobs.push(t.placed(state).await.id);
        }
        let later = t
            .submit(NewJob {
                delay: Some(secs(14 * 24 * 3600)),
                lifetime: Some(secs(99 * 24 * 3600)),
                ..new_job("report")
            })
            .await
            .id;
        let store = without(&t, on, &jobs).await;
        for days in [1, 13, 1] {
            t.advance(secs(days * 24 * 3600));
            let next = ticked(&store).await;
            assert!(next.is_none_or(|next| next > t.now()), "{on:?}: it would look again at once");
        }
        assert_eq!(claimed(&t, &store, 10).await, [later], "{on:?}");
        assert!(matches!(store.verify().await, Err(StoreError::Damaged(_))), "it is not hidden");
        store.close();
    }
}

/// Model: payload
#[tokio::test]
async fn a_parent_hurts_no_child() {
    for on in ENGINES {
        let t = Fixture::new(on);
        let (_, parent) = t.running(new_job("parent")).await;
        let jobs = vec![new_job("child"); 2];
        let group = NewGroup { name: "all".into(), strategy: GroupStrategy::FailFast, jobs };
        t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
        let worker = t.worker().await;
        let children = t.claim(worker, 2).await;
        let store = without(&t, on, &[parent.job.id]).await;
        for child in &children {
            let reports =
                vec![Report::new(child.job.id, child.job.fence, Outcome::Completed { result: None })];
            let done = store.finish(&t.me, worker, reports).await.unwrap();
            assert!(matches!(done[..], [Finish::Applied(_)]), "{on:?}: {done:?}");
            assert_eq!(store.get(&t.me, child.job.id).await.unwrap().unwrap().job.state, JobState::Completed);
        }
        store.close();
    }
}

/// Model: payload
#[tokio::test]
async fn a_child_or_dependent_hurts_no_job_that_ends() {
    for on in ENGINES {
        let t = Fixture::new(on);
        let (worker, first) = t.running(new_job("first")).await;
        let (_, parent) = t.running(new_job("parent")).await;
        let jobs = vec![new_job("child"); 2];
        let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs };
        let children = t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap().children;
        let wait = |after: JobId| NewJob { after: vec![Dependency::Job(after)], ..new_job("dependent") };
        let dependents = [t.submit(wait(first.job.id)).await.id, t.submit(wait(first.job.id)).await.id];
        let store = without(&t, on, &[children[0].id, dependents[0]]).await;
        let reports = vec![Report::new(first.job.id, first.job.fence, Outcome::Completed { result: None })];
        let done = store.finish(&t.me, worker, reports).await.unwrap();
        assert!(matches!(done[..], [Finish::Applied(_)]), "{on:?}: {done:?}");
        store.act(&t.me, parent.job.id, ActionRequest::Cancel { reason: None }).await.unwrap();
        ticked(&store).await;
        let state = async |id: JobId| store.get(&t.me, id).await.unwrap().unwrap().job.state;
        assert_eq!(state(dependents[1]).await, JobState::Scheduled, "{on:?}");
        assert_eq!(state(children[1].id).await, JobState::Cancelled, "{on:?}");
        store.close();
    }
}

/// Model: payload
#[tokio::test]
async fn a_dependency_hurts_no_job_that_waits_for_it() {
    for on in ENGINES {
        let t = Fixture::new(on);
        let first = t.submit(new_job("first")).await.id;
        let second = t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await.id;
        let store = without(&t, on, &[first]).await;
        store.explain(&t.me, second).await.unwrap().unwrap();
        store.get(&t.me, second).await.unwrap().unwrap();
        let listed = store.list(&t.me, ListRequest::default()).await.unwrap().jobs;
        assert_eq!(listed.iter().map(|job| job.job.id).collect::<Vec<_>>(), [second], "{on:?}");
        store.act(&t.me, second, ActionRequest::Cancel { reason: None }).await.unwrap();
        let refused = store.act(&t.me, first, ActionRequest::Cancel { reason: None }).await;
        assert!(refused.is_err(), "{on:?}: {refused:?}");
        ticked(&store).await;
        store.close();
    }
}

/// Model: unique-key, idempotency-key. What it may have done must not be done again.
#[tokio::test]
async fn its_unique_key_is_free_and_its_idempotency_key_is_not() {
    for on in ENGINES {
        let t = Fixture::new(on);
        let unique = || NewJob { unique_key: Some("only".into()), ..new_job("report") };
        let once = || NewJob { idempotency_key: Some("once".into()), ..new_job("report") };
        let jobs = [t.submit(unique()).await.id, t.submit(once()).await.id];
        let store = without(&t, on, &jobs).await;
        let refused = submit(&t, &store, once()).await;
        assert!(matches!(refused, Err(SubmitError::Store(StoreError::Damaged(_)))), "{on:?}: {refused:?}");
        let free = submit(&t, &store, unique()).await.unwrap();
        assert_eq!(claimed(&t, &store, 10).await, [free], "{on:?}");
        store.close();
    }
}

/// Model: one-lease-at-a-time
#[tokio::test]
async fn it_hurts_no_job_of_its_worker() {
    for on in ENGINES {
        let t = Fixture::new(on);
        let worker = t.worker().await;
        let patient = || NewJob {
            retry: Some(RetryPolicy { max_attempts: 9, ..RetryPolicy::standard() }),
            ..new_job("report")
        };
        for _ in 0..4 {
            t.submit(patient()).await;
        }
        let jobs = t.claim(worker, 10).await;
        let ids: Vec<JobId> = jobs.iter().map(|claimed| claimed.job.id).collect();
        let store = without(&t, on, &ids[..1]).await;
        let beats = jobs.iter().map(|claimed| HeartbeatItem::new(claimed.job.id, claimed.job.fence));
        let answered = store.heartbeat(&t.me, worker, beats.collect()).await.unwrap().directives;
        let answered: Vec<Directive> = answered.into_iter().map(|(_, directive)| directive).collect();
        assert!(
            answered[1..].iter().all(|directive| *directive == Directive::Continue),
            "{on:?}: {answered:?}"
        );
        let report =
            |at: usize| Report::new(ids[at], jobs[at].job.fence, Outcome::Completed { result: None });
        let done = store.finish(&t.me, worker, vec![report(0), report(1)]).await.unwrap();
        assert!(matches!(done[1], Finish::Applied(_)), "{on:?}: {done:?}");
        // It falls silent.
        t.advance(secs(3600));
        ticked(&store).await;
        for id in &ids[2..] {
            let state = store.get(&t.me, *id).await.unwrap().unwrap().job.state;
            assert_ne!(state, JobState::Running, "{on:?}: its lease is over");
        }
        store.close();
    }
}
