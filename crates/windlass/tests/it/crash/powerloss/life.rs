//! The life that is recorded: a store is made, loaded, moved into its file, closed and opened again, backed up and restored.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::store::{Environment, Store, StoreOptions, restore};

use super::super::load::{Laborer, Submitter};
use super::super::process::{Task, say};

/// Rounds of a submission and a claim between two other things.
const ROUNDS: usize = 5;

/// Does everything once; each line is said after what it names was acknowledged.
pub(in super::super) async fn live(task: &Task) {
    let path = Path::new(task.address.strip_prefix("sqlite:").unwrap());
    for life in 0..3 {
        let env = Environment::new(
            Arc::new(ManualClock::new(Timestamp::from_millis(task.now.unwrap() + life * 1_000))),
            Entropy::seeded(task.seed + life.unsigned_abs()),
            StoreOptions { cascade_jobs_per_commit: 1, ..StoreOptions::default() },
        );
        let store = Store::open_in(&task.address, env).unwrap();
        say("opened");
        work(task, &store, life, 0).await;
        // As after 2,000 pages: the log begins again in the same file.
        let other = Connection::open(path).unwrap();
        other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        say("moved");
        work(task, &store, life, 1).await;
        if life == 1 {
            say("backing-up");
            store.backup(&path.with_file_name("copy.db")).await.unwrap();
            say("backed-up");
            work(task, &store, life, 2).await;
        }
        drop(other);
        store.close();
        say("closed");
    }
    say("restoring");
    restore(&path.with_file_name("copy.db"), &path.with_file_name("new.db"), |_| {}).await.unwrap();
    say("restored");
}

async fn work(task: &Task, store: &Store, life: i64, part: u64) {
    let seed = task.seed + life.unsigned_abs() * 10 + part;
    let mut submitter = Submitter::new(store, &format!("l{life}p{part}"), seed);
    let mut laborer = Laborer::new(store, seed).await.unwrap();
    for _ in 0..ROUNDS {
        submitter.submit().await.unwrap();
        laborer.work(Duration::ZERO).await.unwrap();
    }
}
