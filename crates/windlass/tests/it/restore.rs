//! Restoring a backup: a whole store, or nothing; and nobody who was busy when it was lost can write to it.

use std::path::Path;

use tempfile::TempDir;
use windlass::error::RestoreError;
use windlass::job::{JobId, State};
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::claim::{ClaimRequest, Claimed};
use windlass::store::command::finish::{Finish, Outcome, Report};
use windlass::store::command::submit::SubmitOptions;
use windlass::store::command::worker::NewWorker;
use windlass::store::environment::StoreOptions;
use windlass::store::restore::{Restored, restore};

use crate::fixture::new_job;

fn open(path: &Path) -> Store {
    Store::open(&format!("sqlite:{}", path.display()), StoreOptions::default()).expect("the store opens")
}

async fn submit(store: &Store) -> JobId {
    store
        .submit(&Caller::local(), vec![new_job("a")], SubmitOptions::default())
        .await
        .unwrap()
        .remove(0)
        .job
        .id
}

async fn claim(store: &Store, worker: windlass::job::WorkerId) -> Claimed {
    let request = ClaimRequest::new(worker, 1);
    store.claim(&Caller::local(), &request, std::time::Duration::ZERO).await.unwrap().jobs.remove(0)
}

async fn finish(store: &Store, worker: windlass::job::WorkerId, claimed: &Claimed) -> Finish {
    let outcome = Outcome::Completed { result: None };
    let report = Report::new(claimed.job.id, claimed.job.fence, outcome);
    store.finish(&Caller::local(), worker, vec![report]).await.unwrap().remove(0)
}

async fn put_back(folder: &TempDir) -> Result<Restored, RestoreError> {
    restore(&folder.path().join("copy.db"), &folder.path().join("new.db"), |_| {}).await
}

/// M5, M101: a fence that was given out after the backup is not given out a second time.
#[tokio::test]
async fn a_worker_from_before_the_loss_cannot_write_to_what_was_restored() {
    let folder = tempfile::tempdir().unwrap();
    let lost = open(&folder.path().join("jobs.db"));
    let worker = lost.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
    let running = submit(&lost).await;
    let held = claim(&lost, worker).await;
    assert_eq!(held.job.id, running);
    let waiting = submit(&lost).await;
    let done = submit(&lost).await;
    lost.backup(&folder.path().join("copy.db")).await.unwrap();
    // All of this is lost.
    let later = claim(&lost, worker).await;
    assert_eq!(later.job.id, waiting);
    submit(&lost).await;
    lost.close();

    let restored = put_back(&folder).await.unwrap();
    assert_eq!((restored.jobs, restored.fenced, restored.released), (3, 3, 1));
    let store = open(&folder.path().join("new.db"));
    // Somebody else has them by now, at whatever fence.
    let other = store.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
    let again = [claim(&store, other).await, claim(&store, other).await];
    assert!(again.iter().all(|claimed| claimed.job.fence > held.job.fence.max(later.job.fence)));
    for stale in [&held, &later] {
        let answer = finish(&store, worker, stale).await;
        assert!(matches!(answer, Finish::Stale), "{answer:?}");
    }
    for claimed in &again {
        assert!(matches!(finish(&store, other, claimed).await, Finish::Applied(_)));
    }
    assert_eq!(store.get(&Caller::local(), done).await.unwrap().unwrap().job.state, State::Scheduled);
    for verdict in store.verify().await.unwrap() {
        assert!(verdict.holds(), "{}: {:#?}", verdict.promise, verdict.findings);
    }
    store.close();
}

#[tokio::test]
async fn nothing_is_overwritten_and_half_a_backup_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(put_back(&folder).await, Err(RestoreError::NoBackup(_))));
    let store = open(&folder.path().join("jobs.db"));
    for _ in 0..200 {
        submit(&store).await;
    }
    store.backup(&folder.path().join("copy.db")).await.unwrap();
    for name in ["new.db", "new.db-head", "new.db-wal"] {
        std::fs::write(folder.path().join(name), "").unwrap();
        let refused = put_back(&folder).await;
        assert!(matches!(&refused, Err(RestoreError::Exists(path)) if path.ends_with(name)), "{refused:?}");
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    let whole = std::fs::read(folder.path().join("copy.db")).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 16_384].fill(7);
    for bytes in [&whole[..whole.len() / 2], &damaged] {
        std::fs::write(folder.path().join("copy.db"), bytes).unwrap();
        assert!(put_back(&folder).await.is_err());
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("new"))
            .collect();
        assert!(left.is_empty(), "nothing is left of the attempt: {left:?}");
    }
    std::fs::write(folder.path().join("copy.db"), &whole).unwrap();
    assert_eq!(put_back(&folder).await.unwrap().jobs, 200);
    store.close();
}

#[tokio::test]
async fn a_store_in_use_is_restored_from_as_it_is_at_that_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("copy.db"));
    submit(&store).await;
    assert_eq!(put_back(&folder).await.unwrap().jobs, 1);
    submit(&store).await;
    store.close();
}
