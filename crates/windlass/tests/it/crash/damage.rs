//! Damaged files: a bit that flips or an end that is cut off is noticed before anything wrong is served. Each test damages
//! copies of one store at many seeded places.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::error::{OpenError, StoreError};
use windlass::job::{JobId, NewJob};
use windlass::store::caller::Caller;
use windlass::store::{Environment, Filter, Store, StoreOptions, SubmitOptions};

use super::fingerprint::Fingerprint;
use super::ledger::all_jobs;
use super::load::{Laborer, Submitter, new_job};
use super::{address, lend_reserve, open_at};
use crate::fixture::{START, store_folder};

const SEED: u64 = 0x5EED_0028;
/// Places in the database; half as many in each kind of log.
const PLACES: usize = 240;

/// Where the work of a store is when its files are copied.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Log,
    /// What is old in the database, what is new at the beginning of the log, before old frames.
    LogBegunAgain,
    Database,
}

/// A store with some of everything, and copies of its files to be damaged.
struct Original {
    folder: TempDir,
    ids: Vec<JobId>,
    keys: Vec<String>,
    reference: Fingerprint,
}

impl Original {
    async fn new(kept: Kept) -> Original {
        let folder = store_folder();
        let live = folder.path().join("live");
        fs::create_dir(&live).unwrap();
        // Seeded, so that a place is the same place in every run.
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        let env = Environment::new(clock.clone(), Entropy::seeded(SEED), StoreOptions::default());
        let store = Store::open_in(&address(&live), env).unwrap();
        let keys = load(&store, "d", 30).await;
        clock.advance(Duration::from_secs(1));
        match kept {
            Kept::Log => {}
            Kept::LogBegunAgain => {
                let other = rusqlite::Connection::open(live.join("jobs.db")).unwrap();
                let moved: (i64, i64, i64) = other
                    .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                    })
                    .unwrap();
                assert_eq!((moved.0, moved.1), (0, moved.2), "everything was moved");
                load(&store, "e", 5).await;
            }
            Kept::Database => store.close(),
        }
        let whole = folder.path().join("whole");
        copy(&live, &whole);
        store.close();
        let (store, _) = open_at(&address(&copy_of(&folder, "whole", "reference")), START).unwrap();
        let ids: Vec<JobId> =
            all_jobs(&store, Filter::default()).await.iter().map(|found| found.job.id).collect();
        let reference = Fingerprint::of(&store, &ids, &keys).await;
        assert_eq!(reference.errors(), 0);
        store.close();
        Original { folder, ids, keys, reference }
    }

    /// A fresh copy to be damaged.
    fn copy(&self) -> PathBuf {
        copy_of(&self.folder, "whole", "damaged")
    }
}

/// Jobs of every kind in every state, the audit trail sealed; says which keys were used.
async fn load(store: &Store, name: &str, rounds: usize) -> Vec<String> {
    let mut submitter = Submitter::new(store, name, SEED);
    let mut laborer = Laborer::new(store, SEED).await.unwrap();
    let keys: Vec<String> = (0..20).map(|number| format!("{name}-{number}")).collect();
    for key in &keys {
        let mut job = new_job(&format!("{name}.{key}"));
        job.metadata.tags.insert("kind".into(), key.clone());
        let jobs = vec![NewJob { idempotency_key: Some(key.clone()), ..job }];
        store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
    }
    for _ in 0..rounds {
        submitter.submit().await.unwrap();
        laborer.work(Duration::ZERO).await.unwrap();
    }
    for _ in 0..10 {
        submitter.submit().await.unwrap();
    }
    while store.seal().await.unwrap().has_more {}
    keys
}

/// Copies the files of a store, except for files that SQLite recreates and the reserve, which is shared.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for name in ["jobs.db", "jobs.db-wal", "jobs.db-head"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
    lend_reserve(from, to);
}

fn copy_of(folder: &TempDir, from: &str, to: &str) -> PathBuf {
    let path = folder.path().join(to);
    copy(&folder.path().join(from), &path);
    path
}

fn flip(path: &Path, bit: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (bit % 8))], bit / 8).unwrap();
}

/// The state of a damaged copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    RefusedAtStart,
    ErrorWhenRead,
    FoundByVerify,
    Harmless,
    /// A job or its data reads back wrong without an error.
    WrongJobServed,
    /// Something else is wrong, and nothing notices.
    Undetected,
}

async fn fate(original: &Original, copy: &Path, context: &str) -> Fate {
    let store = match open_at(&address(copy), START) {
        Ok((store, _)) => store,
        Err(
            OpenError::CommitsMissing { .. }
            | OpenError::NewerSchema { .. }
            | OpenError::Store(StoreError::Damaged(_)),
        ) => return Fate::RefusedAtStart,
        Err(error) => {
            // Refused as well, but not for the right reason.
            println!("{context}: {error}");
            return Fate::RefusedAtStart;
        }
    };
    let results = store.verify().await;
    let found = Fingerprint::of(&store, &original.ids, &original.keys).await;
    store.close();
    let [jobs, others] = found.wrong(&original.reference);
    let is_found = results.as_ref().map_or(true, |results| results.iter().any(|result| !result.holds()));
    if !jobs.is_empty() || (!others.is_empty() && !is_found) {
        println!("{context}: wrong about {jobs:?} {others:?}, found by verification: {is_found}");
    }
    match (jobs.is_empty(), others.is_empty(), found.errors() > 0, is_found) {
        (false, ..) => Fate::WrongJobServed,
        (_, _, true, _) => Fate::ErrorWhenRead,
        (_, _, _, true) => Fate::FoundByVerify,
        (_, false, ..) => Fate::Undetected,
        (..) => Fate::Harmless,
    }
}

fn report(fates: &BTreeMap<Fate, usize>) {
    println!("{fates:?}");
    assert_eq!(fates.get(&Fate::WrongJobServed), None);
    assert_eq!(fates.get(&Fate::Undetected), None);
}

#[tokio::test]
async fn a_damaged_log_is_refused_or_nothing_of_it_is_missing() {
    damage_log(Kept::Log).await;
}

#[tokio::test]
async fn a_damaged_log_that_had_begun_again_is_refused_or_nothing_of_it_is_missing() {
    damage_log(Kept::LogBegunAgain).await;
}

async fn damage_log(kept: Kept) {
    println!("seed {SEED:#x}, {} places, work {kept:?}", PLACES / 2);
    let original = Original::new(kept).await;
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut fates = BTreeMap::new();
    for place in 0..PLACES / 2 {
        let copy = original.copy();
        let log = copy.join("jobs.db-wal");
        let bytes = fs::metadata(&log).unwrap().len();
        let context = if place % 4 == 3 {
            let kept = rng.random_range(0..bytes);
            fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(kept).unwrap();
            format!("log cut to {kept} of {bytes}")
        } else {
            let bit = rng.random_range(0..bytes * 8);
            flip(&log, bit);
            format!("bit {bit} of a log of {bytes} bytes")
        };
        let damaged = [fs::read(copy.join("jobs.db")).unwrap(), fs::read(&log).unwrap()];
        let fate = fate(&original, &copy, &context).await;
        if fate == Fate::RefusedAtStart {
            let left = [fs::read(copy.join("jobs.db")).unwrap(), fs::read(&log).unwrap_or_default()];
            assert!(damaged == left, "{context}: refused, but what could have been saved was changed");
        }
        assert!(matches!(fate, Fate::RefusedAtStart | Fate::Harmless), "{context}: {fate:?}");
        *fates.entry(fate).or_default() += 1;
    }
    report(&fates);
}

#[tokio::test]
async fn a_damaged_page_is_noticed_or_holds_nothing() {
    println!("seed {SEED:#x}, {PLACES} places");
    let original = Original::new(Kept::Database).await;
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut fates = BTreeMap::new();
    for _ in 0..PLACES {
        let copy = original.copy();
        let file = copy.join("jobs.db");
        let bytes = fs::metadata(&file).unwrap().len();
        let bit = rng.random_range(0..bytes * 8);
        flip(&file, bit);
        let context = format!(
            "bit {bit} of a database of {bytes} bytes (page {}, byte {})",
            bit / 8 / 8192 + 1,
            bit / 8 % 8192
        );
        *fates.entry(fate(&original, &copy, &context).await).or_default() += 1;
    }
    report(&fates);
}
