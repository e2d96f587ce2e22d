//! Restoring a backup: a whole store, or nothing; and no worker that was busy when it was lost can write to it.

use std::path::Path;

use tempfile::TempDir;
use windlass::error::{RestoreError, WorkError};
use windlass::job::{GroupStrategy, JobId, JobState, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{
    AttemptWrite, ClaimRequest, ClaimedJob, Finish, LeaseRef, NewGroup, NewWorker, Outcome, Report,
    RestoreReport, Store, StoreOptions, SubmitOptions, restore,
};

use crate::fixture::{new_job, store_folder};

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

async fn claim(store: &Store, worker: WorkerId) -> ClaimedJob {
    let request = ClaimRequest::new(worker, 1);
    store.claim(&Caller::local(), &request, std::time::Duration::ZERO).await.unwrap().jobs.remove(0)
}

async fn finish(store: &Store, worker: WorkerId, claimed: &ClaimedJob) -> Finish {
    let outcome = Outcome::Completed { result: None };
    let report = Report::new(claimed.job.id, claimed.job.fence, outcome);
    store.finish(&Caller::local(), worker, vec![report]).await.unwrap().remove(0)
}

async fn put_back(folder: &TempDir) -> Result<RestoreReport, RestoreError> {
    restore(&folder.path().join("copy.db"), &folder.path().join("new.db"), |_| {}).await
}

/// Nothing that a worker with this claim writes is taken, whether it names itself or not.
async fn writes_nothing(store: &Store, worker: WorkerId, claimed: &ClaimedJob) {
    let (me, job, fence) = (Caller::local(), claimed.job.id, claimed.job.fence);
    assert!(matches!(finish(store, worker, claimed).await, Finish::Stale));
    for worker in [Some(worker), None] {
        let lease = LeaseRef { job, fence, worker };
        let note = AttemptWrite::Checkpoint { step: "charge".into(), value: b"1".to_vec() };
        assert_eq!(store.record(&me, lease, vec![note]).await, Err(WorkError::Stale(job)));
        let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: Vec::new() };
        assert_eq!(store.spawn(&me, lease, group).await.err(), Some(WorkError::Stale(job)));
    }
    assert!(store.checkpoints(&me, job).await.unwrap().unwrap().is_empty());
}

/// Model: store-generation, one-lease-at-a-time. A file that was put in place by hand begins a new generation with its first commit; looking at it does not.
#[tokio::test]
async fn a_file_that_was_put_in_place_by_hand_begins_a_new_generation() {
    let folder = store_folder();
    let lost = open(&folder.path().join("jobs.db"));
    let worker = lost.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
    submit(&lost).await;
    lost.backup(&folder.path().join("copy.db")).await.unwrap();
    let before = claim(&lost, worker).await;
    lost.close();
    for look in 0..3 {
        let store = open(&folder.path().join("copy.db"));
        assert_eq!(store.generation().await.unwrap(), 1, "look {look}");
        store.close();
    }
    let store = open(&folder.path().join("copy.db"));
    let second = open(&folder.path().join("copy.db"));
    let other = store.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
    let again = claim(&store, other).await;
    assert_eq!((again.job.id, again.job.fence.generation()), (before.job.id, 2));
    writes_nothing(&store, worker, &before).await;
    // Another process that opened it at the same time does not begin one more.
    writes_nothing(&second, worker, &before).await;
    submit(&second).await;
    assert_eq!(second.generation().await.unwrap(), 2);
    assert!(matches!(finish(&second, other, &again).await, Finish::Applied(JobState::Completed)));
    store.close();
    second.close();
    let store = open(&folder.path().join("copy.db"));
    submit(&store).await;
    assert_eq!(store.generation().await.unwrap(), 2, "it has a marker of its own now");
    store.close();
}

/// Model: counters-and-fences, one-lease-at-a-time. A fence that was given out after the backup is not given out a second time.
#[tokio::test]
async fn a_worker_from_before_the_loss_cannot_write_to_what_was_restored() {
    let folder = store_folder();
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
    assert_eq!((restored.jobs, restored.open, restored.released, restored.generation), (3, 3, 1, 2));
    let store = open(&folder.path().join("new.db"));
    // Other workers have them by now, at any fence.
    let other = store.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
    let again = [claim(&store, other).await, claim(&store, other).await];
    assert!(again.iter().all(|claimed| claimed.job.fence > held.job.fence.max(later.job.fence)));
    for stale in [&held, &later] {
        writes_nothing(&store, worker, stale).await;
    }
    for claimed in &again {
        assert!(matches!(finish(&store, other, claimed).await, Finish::Applied(_)));
    }
    assert_eq!(store.get(&Caller::local(), done).await.unwrap().unwrap().job.state, JobState::Scheduled);
    for result in store.verify().await.unwrap() {
        assert!(result.holds(), "{}: {:#?}", result.promise, result.findings);
    }
    store.close();
}

#[tokio::test]
async fn nothing_is_overwritten_and_half_a_backup_is_no_store() {
    let folder = store_folder();
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

/// A backup cut to nothing, as by a full disk, would otherwise become an empty store that passes every check.
#[tokio::test]
async fn an_empty_file_and_another_programs_database_are_not_restored() {
    let folder = store_folder();
    let copy = folder.path().join("copy.db");
    std::fs::write(&copy, "").unwrap();
    let refused = put_back(&folder).await;
    assert!(matches!(refused, Err(RestoreError::NotAStore(_))), "{refused:?}");
    let foreign = rusqlite::Connection::open(&copy).unwrap();
    foreign.execute_batch("CREATE TABLE notes (body TEXT); INSERT INTO notes VALUES ('a')").unwrap();
    drop(foreign);
    let refused = put_back(&folder).await;
    assert!(matches!(refused, Err(RestoreError::NotAStore(_))), "{refused:?}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "nothing but the file that was given");
}

#[tokio::test]
async fn a_store_in_use_is_restored_from_as_it_is_at_that_moment() {
    let folder = store_folder();
    let store = open(&folder.path().join("copy.db"));
    submit(&store).await;
    assert_eq!(put_back(&folder).await.unwrap().jobs, 1);
    submit(&store).await;
    store.close();
}

/// What an interrupted backup or restore leaves behind is not in the way of the next; a backup that is in progress is.
#[tokio::test]
async fn an_interrupted_backup_or_restore_is_not_in_the_way_of_the_next() {
    let folder = store_folder();
    let store = open(&folder.path().join("jobs.db"));
    let kept = submit(&store).await;
    let (copy, partial) = (folder.path().join("copy.db"), folder.path().join("copy.db-partial"));
    std::fs::write(&partial, vec![7; 100_000]).unwrap();
    let other = std::fs::File::open(&partial).unwrap();
    other.lock().unwrap();
    let refused = store.backup(&copy).await.unwrap_err().to_string();
    assert!(refused.contains("in progress"), "{refused}");
    assert_eq!(std::fs::metadata(&partial).unwrap().len(), 100_000, "it belongs to the other backup");
    drop(other);
    store.backup(&copy).await.unwrap();
    assert!(!partial.exists());
    store.close();
    for left in ["", "-head", "-partial", "-wal"] {
        std::fs::write(folder.path().join(format!("new.db-restoring{left}")), b"half").unwrap();
    }
    // With a log beside it, the backup is copied page by page.
    std::fs::write(folder.path().join("copy.db-wal"), b"").unwrap();
    put_back(&folder).await.unwrap();
    let restored = open(&folder.path().join("new.db"));
    assert!(restored.get(&Caller::local(), kept).await.unwrap().is_some());
    restored.close();
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let left: Vec<_> = names.iter().filter(|name| name.to_string_lossy().contains("restoring")).collect();
    assert!(left.is_empty(), "{left:?}");
}
