//! Which changes wake which waiters; tested with the memory engine, because every engine announces the same.

use std::sync::Arc;
use std::time::Duration;

use super::{Listener, WorkFilter, WorkListener};
use crate::clock::{ManualClock, Timestamp};
use crate::entropy::Entropy;
use crate::job::{JobType, NewJob, Payload, QueueName, WorkerId, WorkerVersion};
use crate::limits;
use crate::settings::{PauseMode, QueueSettings};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::{ClaimRequest, ClaimedJob};
use crate::store::command::finish::{Outcome, Report};
use crate::store::command::pause::{Pause, PauseTarget};
use crate::store::command::settings::Settings;
use crate::store::command::submit::SubmitOptions;
use crate::store::command::worker::NewWorker;
use crate::store::environment::{Environment, StoreOptions};

struct Fixture {
    store: Store,
    clock: Arc<ManualClock>,
    me: Caller,
}

impl Fixture {
    fn new() -> Fixture {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        let env = Environment::new(clock.clone(), Entropy::seeded(1), StoreOptions::default());
        Fixture { store: Store::open_in("memory:", env).unwrap(), clock, me: Caller::local() }
    }

    /// A running job, and one more that could run.
    async fn running(&self) -> (WorkerId, ClaimedJob) {
        let worker = self.store.register(&self.me, NewWorker::default()).await.unwrap().id;
        let jobs = vec![NewJob::new(JobType::new("send").unwrap(), Payload::json("{}")); 2];
        self.store.submit(&self.me, jobs, SubmitOptions::default()).await.unwrap();
        let request = ClaimRequest::new(worker, 1);
        let claimed = self.store.claim(&self.me, &request, Duration::ZERO).await.unwrap().jobs.remove(0);
        (worker, claimed)
    }

    async fn complete(&self, worker: WorkerId, claimed: &ClaimedJob) {
        let outcome = Outcome::Completed { result: None };
        let report = Report::new(claimed.job.id, claimed.job.fence, outcome);
        self.store.finish(&self.me, worker, vec![report]).await.unwrap();
    }

    fn interrupts(&self) -> Listener {
        self.store.environment().wakeups.interrupts()
    }
}

async fn is_notified(listener: &mut Listener) -> bool {
    tokio::time::timeout(Duration::ZERO, listener.notified()).await.is_ok()
}

/// Model: worker-pause. The handlers of a worker that is paused aggressively are notified before other workers run their jobs for long.
#[tokio::test]
async fn a_worker_whose_jobs_are_taken_away_is_notified_at_once() {
    let t = Fixture::new();
    let (worker, _) = t.running().await;
    let mut interrupts = t.interrupts();
    let pause = Pause { mode: PauseMode::Aggressive, ..Pause::default() };
    t.store.pause(&t.me, PauseTarget::Worker(worker), pause).await.unwrap();
    assert!(is_notified(&mut interrupts).await);
}

/// Model: leases-and-heartbeats
#[tokio::test]
async fn a_worker_whose_lease_is_lost_is_notified_at_once() {
    let t = Fixture::new();
    t.running().await;
    let mut interrupts = t.interrupts();
    t.clock.advance(Duration::from_secs(31));
    t.store.tick().await.unwrap();
    assert!(is_notified(&mut interrupts).await);
}

#[tokio::test]
async fn an_attempt_that_ends_by_itself_interrupts_no_other() {
    let t = Fixture::new();
    let (worker, claimed) = t.running().await;
    let mut interrupts = t.interrupts();
    t.complete(worker, &claimed).await;
    assert!(!is_notified(&mut interrupts).await);
}

/// Model: wake-ups. A job that waits for a running limit does not need polling.
#[tokio::test]
async fn a_place_that_becomes_free_wakes_those_who_wait_for_work() {
    for max_running in [None, Some(1)] {
        let t = Fixture::new();
        let settings = QueueSettings { max_running, ..QueueSettings::default() };
        t.store.configure(&t.me, Settings::Queue(QueueName::default(), settings)).await.unwrap();
        let (worker, claimed) = t.running().await;
        let mut work = t.store.environment().wakeups.work();
        t.complete(worker, &claimed).await;
        assert_eq!(is_woken(&mut work).await, max_running.is_some());
    }
}

fn job_in(queue: &str, job_type: &str) -> NewJob {
    let job = NewJob::new(JobType::new(job_type).unwrap(), Payload::json("{}"));
    NewJob { queue: QueueName::new(queue).unwrap(), ..job }
}

impl Fixture {
    async fn submit(&self, jobs: Vec<NewJob>) {
        self.store.submit(&self.me, jobs, SubmitOptions::default()).await.unwrap();
    }

    /// A waiter for jobs of these queues and types.
    fn waits_for(&self, queues: &[&str], types: &[&str]) -> WorkListener {
        let mut work = self.store.environment().wakeups.work();
        let queues: Vec<QueueName> = queues.iter().map(|name| QueueName::new(name).unwrap()).collect();
        let types: Vec<JobType> = types.iter().map(|name| JobType::new(name).unwrap()).collect();
        work.narrow(WorkFilter {
            queues: (!queues.is_empty()).then_some(queues),
            types: (!types.is_empty()).then_some(types),
            version: None,
        });
        work
    }
}

async fn is_woken(work: &mut WorkListener) -> bool {
    tokio::time::timeout(Duration::ZERO, work.notified()).await.is_ok()
}

/// Model: wake-ups. A thousand idle workers do not query whenever anything is submitted.
#[tokio::test]
async fn only_those_who_wait_for_such_a_job_are_woken_by_it() {
    let t = Fixture::new();
    let mut fitting = [
        t.waits_for(&[], &[]),
        t.waits_for(&["mail"], &[]),
        t.waits_for(&["other", "mail"], &["send"]),
        t.waits_for(&[], &["send"]),
    ];
    let mut others =
        [t.waits_for(&["other"], &[]), t.waits_for(&["mail"], &["draw"]), t.waits_for(&[], &["draw"])];
    // Before the first wait, and while a waiter waits.
    for is_waiting in [false, true] {
        if is_waiting {
            for work in fitting.iter_mut().chain(&mut others) {
                assert!(!is_woken(work).await);
            }
        }
        t.submit(vec![job_in("mail", "send")]).await;
        for work in &mut fitting {
            assert!(is_woken(work).await, "{is_waiting}");
            assert!(!is_woken(work).await, "a notification wakes once");
        }
        for work in &mut others {
            assert!(!is_woken(work).await, "{is_waiting}");
        }
    }
}

/// Model: wake-ups, worker-versions
#[tokio::test]
async fn a_job_that_requires_a_version_wakes_waiters_of_that_version_only() {
    let t = Fixture::new();
    let mut waiters = [None, Some("v1"), Some("v2")].map(|version| {
        let mut work = t.waits_for(&[], &[]);
        work.narrow(WorkFilter { version: version.map(str::to_owned), ..WorkFilter::default() });
        work
    });
    let job = NewJob { requires_version: WorkerVersion::new("v1").ok(), ..job_in("mail", "send") };
    for (job, expected) in [(job, [false, true, false]), (job_in("mail", "send"), [true; 3])] {
        t.submit(vec![job]).await;
        for (work, is_expected) in waiters.iter_mut().zip(expected) {
            assert_eq!(is_woken(work).await, is_expected);
        }
    }
}

#[tokio::test]
async fn a_commit_with_work_in_very_many_places_wakes_everybody() {
    let t = Fixture::new();
    let mut other = t.waits_for(&["other"], &[]);
    let jobs = (0..=limits::WAKEUP_LANES_MAX).map(|number| job_in(&format!("q{number}"), "send"));
    t.submit(jobs.collect()).await;
    assert!(is_woken(&mut other).await);
}

#[tokio::test]
async fn a_waiter_that_was_busy_for_long_treats_dropped_notifications_as_matching() {
    let t = Fixture::new();
    let mut other = t.waits_for(&["other"], &[]);
    for _ in 0..limits::WAKEUPS_KEPT {
        t.submit(vec![job_in("mail", "send")]).await;
    }
    assert!(!is_woken(&mut other).await, "none of them was for it");
    let mut late = t.waits_for(&["other"], &[]);
    for _ in 0..=limits::WAKEUPS_KEPT {
        t.submit(vec![job_in("mail", "send")]).await;
    }
    assert!(is_woken(&mut late).await, "one that it cannot know of might have been");
}

#[tokio::test]
async fn a_waiter_that_goes_away_is_removed() {
    let t = Fixture::new();
    let mut work = t.waits_for(&["mail"], &[]);
    assert!(!t.store.environment().wakeups.has_waiters());
    assert!(!is_woken(&mut work).await);
    assert!(t.store.environment().wakeups.has_waiters());
    drop(work);
    assert!(!t.store.environment().wakeups.has_waiters());
}
