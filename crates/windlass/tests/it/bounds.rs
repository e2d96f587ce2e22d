//! What many jobs may cost other callers: commits stay small beside any number of dependents, and a caller who leaves takes
//! its question along. `WINDLASS_CASCADE_DEPENDENTS` says how many dependents there are; if it is given, memory is looked at as
//! well, for which the test must be alone in its process. `WINDLASS_LOST_WORKERS` says how many workers are lost at once.

use std::sync::mpsc;
use std::time::Duration;

use windlass::clock::{Stopwatch, Timestamp};
use windlass::error::ActionError;
use windlass::job::{JobId, JobState, NeededBy, NewJob};
use windlass::limits;
use windlass::store::{ActionRequest, Directive, HeartbeatItem};

use crate::fixture::{Fixture, On, after, new_job, priority, queue};

/// Dependents of one job, unless said otherwise.
const DEPENDENTS: usize = 200_000;
/// Workers that are lost at once, unless said otherwise, and what each of them runs.
const LOST_WORKERS: usize = 30;
const JOBS_PER_WORKER: usize = 20;
/// How long one commit may keep all others waiting.
const STALL_MAX: Duration = Duration::from_millis(250);
/// Jobs of which `verify` makes several pages.
const PAGES: usize = 3;
/// Bytes by which the process may grow while it cancels any number of dependents.
const GROWTH_MAX: u64 = 100 << 20;

#[tokio::test]
async fn many_dependents_stop_no_caller_on_a_file() {
    many_dependents_stop_no_caller(&Fixture::new(On::Sqlite)).await;
}

#[tokio::test]
async fn many_dependents_stop_no_caller_on_postgres() {
    many_dependents_stop_no_caller(&Fixture::new(On::Postgres)).await;
}

async fn held_with_dependents(t: &Fixture, count: usize) -> JobId {
    let root = t.submit(NewJob { hold: true, ..new_job("root") }).await.id;
    for first in (0..count).step_by(limits::BATCH_JOBS_MAX) {
        let some = limits::BATCH_JOBS_MAX.min(count - first);
        t.submit_all(vec![after(&[root]); some]).await;
    }
    root
}

async fn cancelled(t: &Fixture) -> usize {
    let states = t.store.stats(&t.me).await.unwrap().states;
    usize::try_from(states.get(&JobState::Cancelled).copied().unwrap_or(0)).unwrap()
}

/// Model: bounded-commits. No commit changes more jobs than the bound, others get their turn between any two, and all is done in the end.
async fn many_dependents_stop_no_caller(t: &Fixture) {
    let asked: Option<usize> =
        std::env::var("WINDLASS_CASCADE_DEPENDENTS").ok().map(|count| count.parse().expect("a number"));
    let count = asked.unwrap_or(DEPENDENTS);
    let (worker, running) = t.running(new_job("beating")).await;
    let root = held_with_dependents(t, count).await;
    let began = resident_bytes();
    t.act(root, ActionRequest::Priority(priority(90))).await;
    let mut commits = 2;
    while t.store.tick().await.unwrap().has_more {
        commits += 1;
    }
    assert!(commits >= count / limits::CASCADE_JOBS_PER_COMMIT, "{commits} commits");
    t.cancel(root).await;
    let mut before = cancelled(t).await;
    // The root itself, and as many as one commit may.
    assert!(before <= limits::CASCADE_JOBS_PER_COMMIT + 1, "{before}");
    loop {
        let reply =
            t.store.heartbeat(&t.me, worker, vec![HeartbeatItem::new(running.job.id, running.job.fence)]);
        let reply = reply.await.expect("the worker is known");
        assert_eq!(reply.directives, [(running.job.id, Directive::Continue)]);
        let has_more = t.store.tick().await.unwrap().has_more;
        let now = cancelled(t).await;
        assert!(now - before <= limits::CASCADE_JOBS_PER_COMMIT, "{now} after {before}");
        before = now;
        if !has_more {
            break;
        }
    }
    assert_eq!(before, count + 1);
    // Other tests in the same process use memory too.
    if asked.is_some() {
        let grown = resident_bytes().saturating_sub(began);
        println!("{count} dependents: {} MB more", grown >> 20);
        assert!(grown <= GROWTH_MAX, "{} MB more", grown >> 20);
    }
    t.verify().await;
}

#[tokio::test]
async fn lost_workers_stop_no_caller_on_a_file() {
    lost_workers_stop_no_caller(&Fixture::new(On::Sqlite)).await;
}

#[tokio::test]
async fn lost_workers_stop_no_caller_on_postgres() {
    lost_workers_stop_no_caller(&Fixture::new(On::Postgres)).await;
}

/// Model: bounded-commits, leases-and-heartbeats. Workers that fall silent together end in bounded commits, beside which jobs are submitted and finished. With
/// `WINDLASS_LOST_WORKERS` so many are lost, and no commit may keep the others waiting for longer than the stall allowed.
async fn lost_workers_stop_no_caller(t: &Fixture) {
    let asked: Option<usize> =
        std::env::var("WINDLASS_LOST_WORKERS").ok().map(|count| count.parse().expect("a number"));
    let lost = asked.unwrap_or(LOST_WORKERS);
    for _ in 0..lost {
        let worker = t.worker().await;
        t.submit_all(vec![new_job("work"); JOBS_PER_WORKER]).await;
        assert_eq!(t.claim(worker, JOBS_PER_WORKER).await.len(), JOBS_PER_WORKER);
    }
    t.advance(limits::WORKER_SILENCE_MAX);
    let live = t.worker_for(&["probe"], &[]).await;
    let running = async || {
        let states = t.store.stats(&t.me).await.unwrap().states;
        usize::try_from(states[&JobState::Running]).unwrap()
    };
    let (mut before, mut longest) = (running().await, Duration::ZERO);
    assert_eq!(before, lost * JOBS_PER_WORKER);
    loop {
        let watch = Stopwatch::start();
        let has_more = t.store.tick().await.unwrap().has_more;
        longest = longest.max(watch.elapsed());
        let now = running().await;
        assert!(before - now <= limits::TICK_JOBS_PER_COMMIT + limits::TICK_SHARE_MIN, "{now} of {before}");
        before = now;
        let probe = t.submit(NewJob { queue: queue("probe"), ..new_job("probe") }).await.id;
        let claimed = t.claim_one(live).await;
        assert_eq!(claimed.job.id, probe);
        t.complete(live, &claimed).await;
        if !has_more {
            break;
        }
    }
    assert_eq!(before, 0);
    if asked.is_some() {
        println!("{lost} workers, {} running: longest commit {longest:?}", lost * JOBS_PER_WORKER);
        // A build that is not optimised takes some ten times as long.
        assert!(cfg!(debug_assertions) || longest <= STALL_MAX, "{longest:?}");
    }
    t.verify().await;
}

#[tokio::test]
async fn a_job_with_very_many_dependents_goes_after_them_on_a_file() {
    a_job_with_very_many_dependents_goes_after_them(&Fixture::new(On::Sqlite)).await;
}

#[tokio::test]
async fn a_job_with_very_many_dependents_goes_after_them_in_memory() {
    a_job_with_very_many_dependents_goes_after_them(&Fixture::new(On::Memory)).await;
}

/// Model: bounded-commits, dependencies. Neither what is looked at before a job is removed nor the edges that go with it are more than the bound.
async fn a_job_with_very_many_dependents_goes_after_them(t: &Fixture) {
    let root = held_with_dependents(t, limits::DEPENDENTS_LOOKED_AT + 1).await;
    t.cancel(root).await;
    while t.store.tick().await.unwrap().has_more {}
    let refused = t.store.delete(&t.me, root).await.expect_err("too many jobs depend on it");
    assert!(matches!(refused, ActionError::Needed { by: NeededBy::Dependents(_), .. }), "{refused}");
    assert!(refused.to_string().contains("delete those first"), "{refused}");
    let ActionError::Needed { by, .. } = refused else { unreachable!() };
    t.store.delete(&t.me, by.job()).await.unwrap();
    t.store.delete(&t.me, root).await.expect("as many as are looked at");
    t.verify().await;
}

/// What the process has in memory, where the system tells.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_leaves_stops_its_query_on_a_file() {
    a_caller_who_leaves_stops_its_query(&Fixture::new(On::Sqlite)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_leaves_stops_its_query_on_postgres() {
    a_caller_who_leaves_stops_its_query(&Fixture::new(On::Postgres)).await;
}

/// A look at everything ends at its next page once no caller waits for it.
async fn a_caller_who_leaves_stops_its_query(t: &Fixture) {
    t.submit_all(vec![new_job("many"); PAGES * limits::VERIFY_PAGE]).await;
    let (sender, received) = mpsc::sync_channel::<Timestamp>(PAGES);
    let (leave, left) = mpsc::sync_channel::<()>(1);
    let store = t.store.clone();
    let asking = tokio::spawn(async move {
        let now = Timestamp::from_millis(0);
        // The notifying task waits until the caller has left, so that the first page is the last.
        store
            .verify_with_progress(move |_| {
                let _sent = sender.send(now);
                let _left = left.recv();
            })
            .await
    });
    let received = tokio::task::spawn_blocking(move || {
        received.recv().expect("a page is reported");
        received
    });
    let received = received.await.unwrap();
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    drop(leave);
    // The channel closes when the request is abandoned; nothing more was reported until then.
    let more = tokio::task::spawn_blocking(move || received.iter().count()).await.unwrap();
    assert_eq!(more, 0, "it continued for {more} pages");
}
