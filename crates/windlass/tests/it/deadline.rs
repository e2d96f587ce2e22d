//! Deadlines and wake-ups between two processes on one file. What PostgreSQL's nodes do is in the suite for those.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

use std::time::Duration;

use windlass::clock::Stopwatch;
use windlass::error::{StoreError, SubmitError};
use windlass::internal::Timing;
use windlass::limits;
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, Environment, Fallback, NewWorker, Store, StoreOptions, SubmitOptions};

use crate::fixture::{On, new_job};

fn open(address: &str, timing: Timing) -> Store {
    let mut env = Environment::system(StoreOptions::default());
    env.timing = timing;
    Store::open_in(address, env).unwrap()
}

async fn submit(store: &Store) -> Result<(), SubmitError> {
    let jobs = vec![new_job("send")];
    store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.map(|_| ())
}

/// Model: answer-time. A file that another process has locked is waited for until the deadline, by each for its own time only; what was
/// refused is not done later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_file_is_reported_to_every_caller_in_time() {
    let (_files, address) = On::Sqlite.address();
    let timing = Timing { request_max: Duration::from_millis(300), ..Timing::default() };
    let store = open(&address, timing);
    submit(&store).await.unwrap();
    let other = rusqlite::Connection::open(address.strip_prefix("sqlite:").unwrap()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let watch = Stopwatch::start();
    // The second is in the queue behind the first.
    let (first, second) = tokio::join!(submit(&store), async {
        tokio::task::yield_now().await;
        submit(&store).await
    });
    let in_time = timing.request_max + limits::ANSWER_MARGIN + Duration::from_secs(2);
    assert!(watch.elapsed() < in_time, "{:?}", watch.elapsed());
    for refused in [first, second] {
        let Err(SubmitError::Store(error)) = refused else { panic!("the file is locked") };
        assert!(matches!(error, StoreError::Overloaded { .. } | StoreError::Unavailable(_)), "{error}");
        assert!(!error.to_string().contains("not known"), "{error}");
    }
    let jobs = async || store.stats(&Caller::local()).await.unwrap().states.values().sum::<u64>();
    assert_eq!(jobs().await, 1, "looks continue meanwhile");
    other.execute_batch("ROLLBACK").unwrap();
    submit(&store).await.unwrap();
    assert_eq!(jobs().await, 2, "what was refused is not done");
    store.close();
}

/// Model: wake-ups. A claim in one process is notified of a submission in another by the change listener, and the log alone shows
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_is_picked_up_in_another_process_without_polling_for_jobs() {
    let (_files, address) = On::Sqlite.address();
    let seldom = Timing { backstop_every: Duration::from_secs(3600), ..Timing::default() };
    let (here, there) = (open(&address, seldom), open(&address, seldom));
    let me = Caller::local();
    let worker = there.register(&me, NewWorker::default()).await.unwrap().id;
    for _ in 0..10 {
        let (waiting, caller) = (there.clone(), me.clone());
        let claim = tokio::spawn(async move {
            waiting.claim(&caller, &ClaimRequest::new(worker, 1), Duration::from_secs(30)).await
        });
        while !there.environment().wakeups.has_waiters() && !claim.is_finished() {
            tokio::task::yield_now().await;
        }
        submit(&here).await.unwrap();
        assert_eq!(claim.await.unwrap().unwrap().jobs.len(), 1, "it was woken");
    }
    for what in Fallback::ALL {
        assert_eq!(there.environment().metrics.fallbacks(what), 0, "{what:?}");
    }
    here.close();
    there.close();
}
