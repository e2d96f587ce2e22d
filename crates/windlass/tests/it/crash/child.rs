//! What a child process does: it opens the store and loads it until it is killed, dismissed, or the store stops.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use windlass::clock::{Clock, ManualClock, SystemClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::error::{StoreError, SubmitError};
use windlass::job::QueueName;
use windlass::store::caller::Caller;
use windlass::store::{Environment, Store, StoreOptions, SubmitOptions};

use super::disk;
use super::load::{Laborer, Submitter, new_job, store_error};
use super::powerloss;
use super::process::{Role, Task, say};

/// The queue of jobs that only a waiting parent claims.
pub(super) const WAKE: &str = "wake";

/// How often a child tries again after the store has stopped.
const TRIES_AFTER_STOP: usize = 25;

/// Does the task; never comes back.
pub(super) fn run(task: &Task) {
    let words = listen();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if task.role == Role::Full {
        runtime.block_on(disk::fill(task));
        say("done");
        std::process::exit(0);
    }
    if task.role == Role::Recorded {
        runtime.block_on(powerloss::live(task));
        say("done");
        std::process::exit(0);
    }
    say("opening");
    let clock: Arc<dyn Clock> = match task.now {
        Some(now) => Arc::new(ManualClock::new(Timestamp::from_millis(now))),
        None => Arc::new(SystemClock::new()),
    };
    // A kill may come between any two commits of a cascade.
    let env = Environment::new(
        clock,
        Entropy::from_system(),
        StoreOptions { cascade_jobs_per_commit: 1, ..StoreOptions::default() },
    );
    let store = match Store::open_in(&task.address, env) {
        Ok(store) => store,
        Err(error) => {
            say(&format!("refused {error}"));
            std::process::exit(0);
        }
    };
    say("opened");
    runtime.block_on(serve(task, store, words));
    std::process::exit(0);
}

/// What the parent says; when it says no more, this process ends.
fn listen() -> mpsc::Receiver<String> {
    let (sender, words) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    words
}

async fn serve(task: &Task, store: Store, words: mpsc::Receiver<String>) {
    let (submitters, laborers) = match task.role {
        Role::Mixed => (2, 2),
        Role::Web => (2, 0),
        Role::Worker => (0, 3),
        Role::Serial => return serially(task, &store).await,
        Role::Open | Role::Full | Role::Recorded => {
            store.close();
            return;
        }
    };
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..submitters {
        let name = format!("{}.s{number}", task.name);
        tasks.spawn(submit_for_ever(Submitter::new(&store, &name, task.seed + number)));
    }
    for number in 0..laborers {
        let seed = task.seed + 100 + number;
        let store = store.clone();
        tasks.spawn(async move {
            match Laborer::new(&store, seed).await {
                Ok(laborer) => work_for_ever(laborer).await,
                Err(error) => say(&format!("error {error}")),
            }
        });
    }
    if task.role != Role::Web {
        tasks.spawn(keep(store.clone()));
    }
    obey(task, &store, words, tasks).await;
}

/// Lets time act now and then: leases end, and cascades continue.
async fn keep(store: Store) {
    let mut rounds = tokio::time::interval(Duration::from_millis(100));
    loop {
        rounds.tick().await;
        if let Err(error) = store.tick().await {
            return say(&format!("error {error}"));
        }
    }
}

async fn submit_for_ever(mut submitter: Submitter) {
    loop {
        match submitter.submit().await {
            Ok(()) => {}
            Err(error) => return say(&format!("error {error}")),
        }
    }
}

async fn work_for_ever(mut laborer: Laborer) {
    loop {
        if let Err(error) = laborer.work(Duration::from_millis(200)).await {
            return say(&format!("error {error}"));
        }
    }
}

/// Until asked to be quiet it only listens; then it submits a job for each further word.
async fn obey(
    task: &Task,
    store: &Store,
    mut words: mpsc::Receiver<String>,
    mut tasks: tokio::task::JoinSet<()>,
) {
    let mut number = 0;
    while let Some(word) = words.recv().await {
        if word == "quiet" {
            tasks.shutdown().await;
            say("quiet");
            continue;
        }
        number += 1;
        let mut job = new_job(&format!("{}.wake.{number}", task.name));
        job.queue = QueueName::new(WAKE).unwrap();
        let outcome = store.submit(&Caller::local(), vec![job], SubmitOptions::default()).await;
        say(&outcome.map_or_else(|error| format!("error {error}"), |_| "woken".to_owned()));
    }
}

/// Submits and works in turns, so that nothing is said out of order.
async fn serially(task: &Task, store: &Store) {
    let mut submitter = Submitter::new(store, &task.name, task.seed);
    let mut laborer = match Laborer::new(store, task.seed + 100).await {
        Ok(laborer) => laborer,
        Err(error) => return say(&format!("stopped {error}")),
    };
    let mut tries_left = TRIES_AFTER_STOP;
    while tries_left > 0 {
        let submission = submitter.submit().await;
        let labor = laborer.work(Duration::ZERO).await;
        let errors = [
            submission.as_ref().err().and_then(|error| match error {
                SubmitError::Store(error) => Some(error),
                _ => None,
            }),
            labor.as_ref().err().and_then(store_error),
        ];
        for error in errors.into_iter().flatten() {
            tries_left = tries_left.saturating_sub(1);
            let word = if matches!(error, StoreError::Stopped(_)) { "stopped" } else { "error" };
            say(&format!("{word} {error}"));
        }
    }
}
