//! Puts together what may be found after a loss of power, opens it, and compares it with what was acknowledged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;
use windlass::clock::Stopwatch;
use windlass::store::caller::Caller;
use windlass::store::{Store, SubmitOptions, restore};

use super::super::ledger::{Ack, Ledger, all_jobs, check_wholeness};
use super::super::load::new_job;
use super::super::{open_at, verify};
use super::disk::{Disk, Image, Loss};
use super::recording::Event;
use crate::fixture::START;

/// What belongs to a store, besides its reserve.
const ENDINGS: [&str; 4] = ["", "-wal", "-head", "-journal"];

/// Of the images of an interrupted restore, one in this many is restored again.
const RESTORED_ONE_IN: u64 = 4;

/// What has been looked at already, by the threads together.
#[derive(Default)]
struct Seen {
    /// Files of a store that were opened, with the number of acknowledgements that were found in them.
    files: HashMap<u64, usize>,
    /// The same for contents, which many files have in common.
    contents: HashMap<u64, usize>,
    /// The one content after each commit.
    commits: HashMap<(String, i64), u64>,
    restored: HashSet<u64>,
    images: BTreeMap<Loss, usize>,
    opened: usize,
}

struct Checker<'a> {
    events: &'a [Event],
    ledger: Ledger,
    reserve: &'a Path,
    record: &'a Path,
    seen: Mutex<Seen>,
}

/// Says which image it was when a check fails.
struct Story<'a> {
    checker: &'a Checker<'a>,
    image: String,
    at: usize,
}

impl Drop for Story<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut story = String::new();
        for event in &self.checker.events[self.at.saturating_sub(12)..self.at] {
            let _ = writeln!(story, "  {}", shorten(event));
        }
        eprintln!("image {} of {}; it follows on\n{story}", self.image, self.checker.record.display());
        eprintln!("the same again: WINDLASS_POWERLOSS_RECORD={}", self.checker.record.display());
    }
}

fn shorten(event: &Event) -> String {
    let mut text = format!("{event:?}");
    text.truncate(110);
    text
}

/// How many images there are to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) images: usize,
    /// Images of one round over all moments. The first round is always whole.
    pub(super) in_round: usize,
    /// What is measured, and how long it may take.
    pub(super) limit: Option<(Stopwatch, Duration)>,
    /// Changes all images.
    pub(super) seed: u64,
}

impl Wanted {
    fn is_over(&self, round: usize) -> bool {
        round > 0 && self.limit.is_some_and(|(watch, limit)| watch.elapsed() > limit)
    }
}

/// Checks images of every moment, in rounds; says what was seen.
pub(super) fn check_all(events: &[Event], wanted: Wanted, record: &Path, reserve: &Path) -> String {
    let mut ledger = Ledger::default();
    let said: Vec<String> = events.iter().filter_map(said).map(str::to_owned).collect();
    ledger.take(&said);
    let moments = events.len() + 1;
    let per_moment = wanted.images.min(wanted.in_round).div_ceil(moments);
    let rounds = wanted.images.div_ceil(per_moment * moments);
    let checker = Checker { events, ledger, reserve, record, seen: Mutex::default() };
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(8);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let checker = &checker;
            scope.spawn(move || {
                for round in 0..rounds {
                    let first = round * moments * per_moment;
                    checker.check_every((thread, threads), (first, per_moment), wanted, round);
                }
            });
        }
    });
    let seen = checker.seen.into_inner().unwrap();
    let images: usize = seen.images.values().sum();
    assert!(
        images >= per_moment * moments && seen.restored.len() > 3 && seen.contents.len() > 20,
        "{images}"
    );
    format!(
        "{} events with {} acknowledgements: {images} images ({:?}), {} sets of files opened, {} contents verified, {} \
         restores repeated",
        events.len(),
        checker.ledger.acks.len(),
        seen.images,
        seen.opened,
        seen.contents.len(),
        seen.restored.len()
    )
}

fn said(event: &Event) -> Option<&str> {
    match event {
        Event::Said(line) => Some(line),
        Event::Disk(_) => None,
    }
}

/// What was said before a moment.
#[derive(Debug, Default, Clone, Copy)]
struct Moment {
    /// Acknowledgements, and those before the backup began.
    acks: usize,
    acks_in_backup: usize,
    phase: Phase,
}

/// How far the recorded program had come, in its order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    New,
    Opened,
    BackedUp,
    Restoring,
    Restored,
}

impl Moment {
    fn record(&mut self, line: &str) {
        match line {
            "opened" => self.phase = self.phase.max(Phase::Opened),
            "backing-up" => self.acks_in_backup = self.acks,
            "backed-up" => self.phase = Phase::BackedUp,
            "restoring" => self.phase = Phase::Restoring,
            "restored" => self.phase = Phase::Restored,
            line => self.acks += usize::from(Ack::parse(line).is_some()),
        }
    }
}

impl Checker<'_> {
    /// Checks the moments of one thread.
    fn check_every(
        &self,
        (thread, threads): (usize, usize),
        (first, per_moment): (usize, usize),
        wanted: Wanted,
        round: usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut disk, mut moment) = (Disk::default(), Moment::default());
        for at in 0..=self.events.len() {
            if at % threads == thread && !wanted.is_over(round) {
                for number in first + at * per_moment..first + (at + 1) * per_moment {
                    let loss = Loss::ALL[number % Loss::ALL.len()];
                    let seed = wanted.seed.wrapping_add(number as u64);
                    let _story = Story { checker: self, image: format!("{at} {loss:?} {seed}"), at };
                    self.check_image(&runtime, &disk.lose(loss, seed), moment);
                    *self.seen.lock().unwrap().images.entry(loss).or_default() += 1;
                }
            }
            match self.events.get(at) {
                Some(Event::Said(line)) => moment.record(line),
                Some(Event::Disk(event)) => disk.apply(event),
                None => {}
            }
        }
    }

    fn check_image(&self, runtime: &Runtime, image: &Image, moment: Moment) {
        let has = |name: &str| image.contains_key(name);
        assert!(has("jobs.db") || moment.phase < Phase::Opened, "the database is gone");
        assert!(has("copy.db") || moment.phase < Phase::BackedUp, "the backup is gone");
        assert!(has("new.db") || moment.phase < Phase::Restored, "the restored store is gone");
        for (name, acks) in
            [("jobs.db", moment.acks), ("copy.db", moment.acks_in_backup), ("new.db", moment.acks_in_backup)]
        {
            // A database that is not there is made; of the others, nothing is expected then.
            if has(name) || name == "jobs.db" {
                self.check_store(runtime, image, name, acks);
            }
        }
        if moment.phase >= Phase::Restoring && !has("new.db") {
            self.restore_again(runtime, image, moment);
        }
    }

    /// The store of this name opens, and has these acknowledgements.
    fn check_store(&self, runtime: &Runtime, image: &Image, name: &str, acks: usize) {
        let files: Vec<_> = ENDINGS.map(|ending| (ending, image.get(&format!("{name}{ending}")))).into();
        let key = hash(&(name, &files));
        if self.seen.lock().unwrap().files.get(&key).is_some_and(|found| *found >= acks) {
            return;
        }
        let place = crate::fixture::store_folder();
        for (ending, content) in files {
            if let Some(content) = content {
                fs::write(place.path().join(format!("jobs.db{ending}")), content).unwrap();
            }
        }
        super::lend_reserve(self.reserve, place.path());
        runtime.block_on(self.open(place.path(), name, acks));
        let mut seen = self.seen.lock().unwrap();
        seen.opened += 1;
        seen.files.insert(key, acks);
    }

    async fn open(&self, place: &Path, name: &str, acks: usize) {
        let (store, _) =
            open_at(&super::address(place), START).unwrap_or_else(|error| panic!("{name}: {error}"));
        let generation = store.generation().await.unwrap();
        assert_eq!(generation, if name == "new.db" { 2 } else { 1 }, "{name}: the generation");
        let (commits, content) = read(&place.join("jobs.db"));
        let checked = {
            let mut seen = self.seen.lock().unwrap();
            // The restored store has commits of its own, and a new store has an id of its own.
            if commits > 0 {
                let first = *seen.commits.entry((name.to_owned(), commits)).or_insert(content);
                assert_eq!(first, content, "{name}: commit {commits} is there in part");
            }
            seen.contents.get(&content).copied()
        };
        if checked.is_none_or(|checked| checked < acks) {
            self.check_content(&store, name, acks, checked).await;
            self.seen.lock().unwrap().contents.insert(content, acks);
        }
        // A store that lost power continues; what was put in place without its marker begins a generation with this commit.
        if name == "jobs.db" {
            store
                .submit(&Caller::local(), vec![new_job("afterwards")], SubmitOptions::default())
                .await
                .unwrap();
            assert_eq!(store.generation().await.unwrap(), 1, "a loss of power is not a restore");
        }
        store.close();
    }

    async fn check_content(&self, store: &Store, name: &str, acks: usize, checked: Option<usize>) {
        for ack in &self.ledger.acks[checked.unwrap_or(0)..acks] {
            self.ledger.check_one(store, ack).await;
        }
        if checked.is_none() {
            check_wholeness(&all_jobs(store, windlass::store::Filter::default()).await);
            verify(store, name).await;
        }
    }

    /// A restore that was interrupted leaves nothing behind that is in the way of the next one.
    fn restore_again(&self, runtime: &Runtime, image: &Image, moment: Moment) {
        let key = hash(&image.iter().collect::<Vec<_>>());
        // It takes as long as ten openings. What could look like the remains of a store is rare, and never left out.
        let is_named = |name: &String| name.starts_with("new.db-") && !name.starts_with("new.db-restoring");
        if !image.keys().any(is_named) && !key.is_multiple_of(RESTORED_ONE_IN) {
            return;
        }
        if !self.seen.lock().unwrap().restored.insert(key) {
            return;
        }
        let place = crate::fixture::store_folder();
        for (name, content) in image {
            fs::write(place.path().join(name), content).unwrap();
        }
        let (from, to) = (place.path().join("copy.db"), place.path().join("new.db"));
        runtime.block_on(async {
            restore(&from, &to, |_| {}).await.unwrap_or_else(|error| panic!("restore again: {error}"));
            let (store, _) = open_at(&format!("sqlite:{}", to.display()), START).unwrap();
            self.check_content(&store, "restored again", moment.acks_in_backup, None).await;
            store.close();
        });
    }
}

/// Disks are gigabytes in all: the default hasher of the standard library, which is not optimised in tests, takes minutes.
#[derive(Default)]
struct Digest(Sha256);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        let first = digest.first_chunk().expect("a digest has 32 bytes");
        u64::from_le_bytes(*first)
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = Digest::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The number of commits in a database, and a digest of all its rows.
fn read(path: &Path) -> (i64, u64) {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let commits = database.query_row("SELECT commits FROM meta", [], |row| row.get(0)).unwrap();
    let sql =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut tables = database.prepare(sql).unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut hasher = Digest::default();
    for table in tables {
        table.hash(&mut hasher);
        let mut statement = database.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                match row.get_ref(column).unwrap() {
                    ValueRef::Null => 0.hash(&mut hasher),
                    ValueRef::Integer(number) => number.hash(&mut hasher),
                    ValueRef::Real(number) => number.to_bits().hash(&mut hasher),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.hash(&mut hasher),
                }
            }
        }
    }
    (commits, hasher.finish())
}
