//! Files that are taken away, replaced, from the future, copied and put back.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use windlass::error::{OpenError, StoreError, SubmitError};
use windlass::store::caller::Caller;
use windlass::store::engine::Backup;
use windlass::store::engines::sqlite::SqliteEngine;
use windlass::store::{Environment, Schema, Store, StoreOptions, SubmitOptions};

use super::ledger::{Ack, Ledger};
use super::load::new_job;
use super::process::{Process, Role, Task};
use super::{address, open_at, verify};
use crate::fixture::START;

async fn submit(store: &Store, tag: &str) -> Result<Ack, SubmitError> {
    let receipts = store.submit(&Caller::local(), vec![new_job(tag)], SubmitOptions::default()).await?;
    Ok(Ack::Submitted { id: receipts[0].job.id, tag: tag.to_owned() })
}

fn is_stopped<T>(outcome: &Result<T, SubmitError>) -> bool {
    matches!(outcome, Err(SubmitError::Store(StoreError::Stopped(_))))
}

/// Model: at-least-once
#[tokio::test]
async fn a_file_that_is_removed_or_replaced_stops_the_store() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("removed", |path| fs::remove_file(path).unwrap()),
        ("moved away", |path| fs::rename(path, path.with_extension("old")).unwrap()),
        ("replaced by a copy", |path| {
            fs::copy(path, path.with_extension("new")).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("without its log", |path| fs::remove_file(path.with_extension("db-wal")).unwrap()),
        ("without the locks of its log", |path| fs::remove_file(path.with_extension("db-shm")).unwrap()),
    ];
    for (what, harm) in harms {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open_at(&address(folder.path()), START).unwrap();
        submit(&store, "before").await.unwrap();
        harm(&folder.path().join("jobs.db"));
        assert!(is_stopped(&submit(&store, "after").await), "a file {what} is noticed");
        assert!(is_stopped(&submit(&store, "later").await), "nothing more is taken, file {what}");
        let read = store.verify().await;
        assert!(matches!(read, Err(StoreError::Stopped(_))), "nothing more is served, file {what}: {read:?}");
        store.close();
    }
}

/// Model: at-least-once. The locks of the log are deleted under a server, and then a command is run on its store: without the locks both
/// believe to be alone, so one of them must stop before it writes over the log of the other.
#[tokio::test]
async fn another_process_after_the_locks_were_deleted_destroys_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let mut ledger = Ledger::default();
    let (store, _) = open_at(&address, START).unwrap();
    for number in 0..20 {
        ledger.acks.push(submit(&store, &format!("before.{number}")).await.unwrap());
    }
    fs::remove_file(folder.path().join("jobs.db-shm")).unwrap();
    let name = "load".to_owned();
    let task = Task { role: Role::Mixed, address: address.clone(), seed: 37, now: Some(START), name };
    let mut process = Process::start(&task);
    let lines: Vec<String> = std::iter::from_fn(|| process.read_line()).take(60).collect();
    assert_eq!(lines.len(), 60, "the other process works");
    ledger.take(&lines);
    assert!(is_stopped(&submit(&store, "after").await), "the server takes nothing more");
    store.close();
    let more: Vec<String> = std::iter::from_fn(|| process.read_line()).take(60).collect();
    process.kill();
    ledger.take(&more);
    ledger.take(&process.hear_all());
    let (store, _) = open_at(&address, START).unwrap();
    ledger.check(&store, 0).await;
    verify(&store, "after another process").await;
    store.close();
}

/// Model: at-least-once. A restart after the database was deleted must not begin an empty store and delete what is left of the old one.
#[tokio::test]
async fn a_database_that_is_missing_beside_its_other_files_is_refused() {
    for is_closed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let address = address(folder.path());
        let path = folder.path().join("jobs.db");
        if is_closed {
            let (store, _) = open_at(&address, START).unwrap();
            submit(&store, "kept").await.unwrap();
            store.close();
        } else {
            let name = "load".to_owned();
            let task = Task { role: Role::Mixed, address: address.clone(), seed: 36, now: Some(START), name };
            let mut process = Process::start(&task);
            let _acknowledged: Vec<String> = std::iter::from_fn(|| process.read_line()).take(60).collect();
            process.kill();
        }
        fs::rename(&path, folder.path().join("moved")).unwrap();
        let remains = |ending: &str| fs::read(path.with_extension(ending)).ok();
        let before = ["db-wal", "db-head"].map(remains);
        assert_eq!(before[0].is_none(), is_closed, "a store that was killed leaves its log");
        for _ in 0..2 {
            let refused = open_at(&address, START).map(drop);
            assert!(matches!(refused, Err(OpenError::DatabaseMissing { commits: 1.., .. })), "{refused:?}");
        }
        assert!(["db-wal", "db-head"].map(remains) == before, "what is left is left alone");
        // A file that was cut to nothing is no better than none.
        fs::write(&path, "").unwrap();
        let refused = open_at(&address, START).map(drop);
        assert!(matches!(refused, Err(OpenError::DatabaseMissing { commits: 1.., .. })), "{refused:?}");
        assert!(Schema::read(&address).is_err(), "other commands refuse it, too");
        assert!(["db-wal", "db-head"].map(remains) == before, "the log of an empty file is left alone");
        fs::remove_file(&path).unwrap();
        // The log alone is enough to refuse.
        if !is_closed {
            fs::rename(path.with_extension("db-head"), folder.path().join("head")).unwrap();
            let refused = open_at(&address, START).map(drop);
            assert!(matches!(refused, Err(OpenError::DatabaseMissing { commits: 0, .. })), "{refused:?}");
            fs::rename(folder.path().join("head"), path.with_extension("db-head")).unwrap();
        }
        fs::rename(folder.path().join("moved"), &path).unwrap();
        let (store, _) = open_at(&address, START).expect("put back, the store opens");
        verify(&store, "a database that was put back").await;
        store.close();
    }
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let (store, _) = open_at(&address, START).unwrap();
    submit(&store, "old").await.unwrap();
    store.close();
    // Bytes 60 to 63 of the file are the schema's version.
    let path = folder.path().join("jobs.db");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&999_u32.to_be_bytes(), 60).unwrap();
    drop(file);
    let before = fs::read(&path).unwrap();
    let refused = open_at(&address, START).map(drop);
    assert!(matches!(refused, Err(OpenError::NewerSchema { found: 999, .. })), "{refused:?}");
    assert!(fs::read(&path).unwrap() == before, "a file that is refused is left as it was");
}

/// Model: at-least-once
#[tokio::test]
async fn a_backup_taken_under_load_opens_in_another_place() {
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let name = "load".to_owned();
    let task = Task { role: Role::Mixed, address: address.clone(), seed: 35, now: Some(START), name };
    let mut process = Process::start(&task);
    let env = || Arc::new(Environment::system(StoreOptions::default()));
    let mut ledger = Ledger::default();
    let mut copies = Vec::new();
    for number in 0..5 {
        let lines: Vec<String> = std::iter::from_fn(|| process.read_line()).take(60).collect();
        ledger.take(&lines);
        let engine = SqliteEngine::open(&folder.path().join("jobs.db"), env()).unwrap();
        let copy = folder.path().join(format!("copy{number}"));
        fs::create_dir(&copy).unwrap();
        engine.copy_to(&copy.join("jobs.db")).unwrap();
        copies.push((copy, ledger.acks.len()));
    }
    process.kill();
    process.hear_all();
    for (copy, acks) in &copies {
        let (store, _) = open_at(&super::address(copy), START).unwrap();
        for ack in &ledger.acks[..*acks] {
            ledger.check_one(&store, ack).await;
        }
        verify(&store, "a backup").await;
        store.close();
    }
    println!("5 backups under load, the last with {} acknowledged", ledger.acks.len());
}

#[tokio::test]
async fn an_older_backup_is_refused_until_the_loss_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let path = folder.path().join("jobs.db");
    let (store, _) = open_at(&address, START).unwrap();
    let mut ledger = Ledger::default();
    ledger.acks.push(submit(&store, "kept").await.unwrap());
    store.close();
    let env = Arc::new(Environment::system(StoreOptions::default()));
    let engine = SqliteEngine::open(&path, env).unwrap();
    let copy = folder.path().join("copy.db");
    engine.copy_to(&copy).unwrap();
    drop(engine);
    let (store, _) = open_at(&address, START).unwrap();
    for number in 0..3 {
        submit(&store, &format!("given-up.{number}")).await.unwrap();
    }
    store.close();

    fs::rename(&copy, &path).unwrap();
    for _ in 0..2 {
        let refused = open_at(&address, START).map(drop);
        assert!(matches!(refused, Err(OpenError::CommitsMissing { .. })), "{refused:?}");
    }
    fs::remove_file(folder.path().join("jobs.db-head")).unwrap();
    let (store, _) = open_at(&address, START).unwrap();
    ledger.check(&store, 0).await;
    verify(&store, "an older backup").await;
    submit(&store, "afterwards").await.unwrap();
    store.close();
}
