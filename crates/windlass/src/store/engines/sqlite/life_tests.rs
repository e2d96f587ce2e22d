//! The life of the engine: groups, refusals, panics, lost and foreign commits, full disks, shutdown. Other tests cover
//! what commands do inside a commit.

mod cut;
mod faults;
mod left;
mod time;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::*;
use crate::clock::{Clock, ManualClock, Timestamp};
use crate::entropy::Entropy;
use crate::error::StoreError;
use crate::store::engine::DocumentKind;
use crate::store::environment::StoreOptions;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// More answers than any test waits for.
const ANSWERS_MAX: usize = 2 * limits::WRITES_WAITING_MAX;

type Answer = (&'static str, Result<(), StoreError>);

struct Fixture {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    sender: SyncSender<Answer>,
    answers: Receiver<Answer>,
}

impl Fixture {
    fn new() -> Fixture {
        let (sender, answers) = sync_channel(ANSWERS_MAX);
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        Fixture { folder: tempfile::tempdir().unwrap(), clock, sender, answers }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn env(&self) -> Arc<Environment> {
        Arc::new(Environment::new(self.clock.clone(), Entropy::seeded(1), StoreOptions::default()))
    }

    fn open(&self) -> SqliteEngine {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<SqliteEngine, OpenError> {
        SqliteEngine::open(&self.path("jobs.db"), self.env())
    }

    fn location(&self) -> Location {
        open::locate(&self.path("jobs.db")).unwrap()
    }

    /// A writer without a thread.
    fn writer(&self) -> Writer {
        open_writer(&self.location(), self.env(), Arc::default()).unwrap()
    }

    fn commits(&self) -> u64 {
        open::head(&open::connect_reader(&self.path("jobs.db"), 64).unwrap()).unwrap().commits
    }

    fn build(&self, name: &'static str, work: impl FnMut(&mut WriteTx<'_>) + Send + 'static) -> Task {
        let answers = self.sender.clone();
        Task { name, work: Box::new(work), answers, adds_jobs: false, is_urgent: false }
    }

    fn task(
        &self,
        name: &'static str,
        work: impl FnMut(&mut WriteTx<'_>) + Send + 'static,
    ) -> Box<dyn WriteTask> {
        Box::new(self.build(name, work))
    }

    /// A task that changes something.
    fn note(&self, name: &'static str) -> Box<dyn WriteTask> {
        self.task(name, move |tx| put(tx, name, 1))
    }

    fn heartbeat(&self) -> Box<dyn WriteTask> {
        Box::new(Task { is_urgent: true, ..self.build("heartbeat", |_| {}) })
    }

    fn submission(&self, name: &'static str) -> Box<dyn WriteTask> {
        Box::new(Task { adds_jobs: true, ..self.build(name, |tx| put(tx, "big", 1 << 20)) })
    }

    /// Blocks the writer: returns once it has begun, and lets it continue when the sender is used or dropped.
    fn hold(&self, engine: &SqliteEngine) -> SyncSender<()> {
        let (begun, has_begun) = sync_channel(1);
        let (resume, may_continue) = sync_channel::<()>(1);
        engine.write(self.task("hold", move |tx| {
            put(tx, "hold", 1);
            begun.send(()).unwrap();
            let _ = may_continue.recv();
        }));
        has_begun.recv().unwrap();
        resume
    }

    fn answer(&self) -> Answer {
        self.answers.recv_timeout(Duration::from_secs(60)).expect("every task is answered")
    }
}

fn put(tx: &mut WriteTx<'_>, key: &str, size: usize) {
    // The transaction reports errors: a command only stops.
    let _ = tx.put_document(DocumentKind::Cost, key, Some(&vec![7; size]), |_| {});
}

struct Task {
    name: &'static str,
    work: Box<dyn FnMut(&mut WriteTx<'_>) + Send>,
    answers: SyncSender<Answer>,
    adds_jobs: bool,
    is_urgent: bool,
}

impl WriteTask for Task {
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        (self.work)(tx);
    }
    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        self.answers.send((self.name, outcome)).unwrap();
    }
    fn adds_jobs(&self) -> bool {
        self.adds_jobs
    }
    fn is_urgent(&self) -> bool {
        self.is_urgent
    }
}

struct TestRead<F> {
    work: F,
    answers: SyncSender<Answer>,
}

impl<F: FnMut(&mut ReadTx<'_>) + Send> ReadTask for TestRead<F> {
    fn is_long(&self) -> bool {
        false
    }

    fn run(&mut self, tx: &mut ReadTx<'_>) {
        (self.work)(tx);
    }
    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        self.answers.send(("look", outcome)).unwrap();
    }
}

fn test_read(fixture: &Fixture, work: impl FnMut(&mut ReadTx<'_>) + Send + 'static) -> Box<dyn ReadTask> {
    Box::new(TestRead { work, answers: fixture.sender.clone() })
}

#[test]
fn everything_that_waits_shares_one_commit() {
    let t = Fixture::new();
    let engine = t.open();
    let resume = t.hold(&engine);
    let before = t.commits();
    for name in ["a", "b", "c", "d"] {
        engine.write(t.note(name));
    }
    drop(resume);
    let answers: Vec<Answer> = (0..5).map(|_| t.answer()).collect();
    assert_eq!(answers, ["hold", "a", "b", "c", "d"].map(|name| (name, Ok(()))));
    assert_eq!(t.commits(), before + 2);
    assert_eq!(head_marker::read_head(&t.path("jobs.db-head")).unwrap().commits, before + 2);
}

#[test]
fn urgent_tasks_go_before_others() {
    let t = Fixture::new();
    let engine = t.open();
    let resume = t.hold(&engine);
    engine.write(t.note("normal"));
    engine.write(t.heartbeat());
    drop(resume);
    assert_eq!([t.answer().0, t.answer().0, t.answer().0], ["hold", "heartbeat", "normal"]);
}

#[test]
fn one_task_too_many_is_asked_to_come_again_but_heartbeats_are_not() {
    let t = Fixture::new();
    let engine = t.open();
    let resume = t.hold(&engine);
    for _ in 0..limits::WRITES_WAITING_MAX {
        engine.write(t.task("waits", |_| {}));
    }
    engine.write(t.note("too many"));
    let waiting = limits::WRITES_WAITING_MAX;
    let overloaded = StoreError::Overloaded { waiting, retry_after: Duration::from_secs(1) };
    assert_eq!(t.answer(), ("too many", Err(overloaded)));
    engine.write(t.heartbeat());
    drop(resume);
    assert_eq!([t.answer(), t.answer()], [("hold", Ok(())), ("heartbeat", Ok(()))]);
}

#[test]
fn a_read_sees_what_was_committed() {
    let t = Fixture::new();
    let engine = t.open();
    engine.write(t.note("seen"));
    assert_eq!(t.answer(), ("seen", Ok(())));
    let (found, seen) = sync_channel(1);
    engine.read(test_read(&t, move |tx| {
        found.send(tx.db.documents(DocumentKind::Cost).unwrap().remove(0).key).unwrap();
    }));
    assert_eq!((seen.recv().unwrap(), t.answer()), ("seen".to_owned(), ("look", Ok(()))));
}

/// A store with one commit, closed, and its head.
fn closed_store(t: &Fixture) -> head_marker::Head {
    let engine = t.open();
    engine.write(t.note("one"));
    assert_eq!(t.answer(), ("one", Ok(())));
    engine.close();
    head_marker::read_head(&t.path("jobs.db-head")).unwrap()
}

#[test]
fn a_store_that_lost_acknowledged_commits_is_refused_until_the_marker_is_deleted() {
    let t = Fixture::new();
    let head = closed_store(&t);
    let mut marker = Marker::open(&t.path("jobs.db-head"), open::PRIVATE, head).unwrap();
    marker.advance(head.commits + 3);
    let (first_missing, last_acknowledged) = (head.commits + 1, head.commits + 3);
    let missing = OpenError::CommitsMissing { first_missing, last_acknowledged };
    assert_eq!(t.try_open().err(), Some(missing));
    fs::remove_file(t.path("jobs.db-head")).unwrap();
    drop(t.open());
    assert_eq!(head_marker::read_head(&t.path("jobs.db-head")), None, "a reader does not accept the loss");
    let engine = t.open();
    engine.write(t.note("two"));
    assert_eq!(t.answer(), ("two", Ok(())));
    engine.close();
    let accepted = head_marker::read_head(&t.path("jobs.db-head")).unwrap();
    assert_eq!((accepted.store, accepted.commits), (head.store, head.commits + 1));
}

#[test]
fn a_store_that_lost_everything_is_refused() {
    let t = Fixture::new();
    let acknowledged = closed_store(&t).commits;
    fs::write(t.path("jobs.db"), "").unwrap();
    let refused = t.try_open().err();
    assert!(
        matches!(refused, Some(OpenError::DatabaseMissing { commits, .. }) if commits == acknowledged),
        "{refused:?}"
    );
}

#[test]
fn a_marker_that_lags_is_torn_or_belongs_to_another_store_is_overwritten() {
    let t = Fixture::new();
    let head = closed_store(&t);
    let path = t.path("jobs.db-head");
    let lagging = head_marker::Head { commits: 0, ..head };
    let foreign = head_marker::Head { store: [9; 16], commits: 99 };
    fs::remove_file(&path).unwrap();
    drop(Marker::open(&path, open::PRIVATE, lagging).unwrap());
    drop(t.open());
    assert_eq!(head_marker::read_head(&path), Some(head));
    fs::File::options().write(true).open(&path).unwrap().write_all_at(b"torn", 20).unwrap();
    assert_eq!(head_marker::read_head(&path), None);
    drop(t.open());
    assert_eq!(head_marker::read_head(&path), Some(head));
    fs::remove_file(&path).unwrap();
    drop(Marker::open(&path, open::PRIVATE, foreign).unwrap());
    let engine = t.open();
    assert_eq!(
        head_marker::read_head(&path),
        Some(foreign),
        "the file was put beside it; only a commit accepts that"
    );
    engine.write(t.note("two"));
    assert_eq!(t.answer(), ("two", Ok(())));
    engine.close();
    assert_eq!(head_marker::read_head(&path), Some(head_marker::Head { commits: head.commits + 1, ..head }));
}

#[test]
fn a_file_that_is_no_database_is_not_served() {
    let t = Fixture::new();
    fs::write(t.path("jobs.db"), [b'x'; 8192]).unwrap();
    assert!(matches!(t.try_open().err(), Some(OpenError::Store(StoreError::Damaged(_)))));
}

fn assert_stopped(answer: &Answer) {
    assert!(matches!(answer.1, Err(StoreError::Stopped(_))), "{answer:?}");
}

#[test]
fn a_removed_or_replaced_file_stops_the_store_for_good() {
    let take_away: [fn(&Path); 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::copy(path, path.with_extension("copy")).unwrap();
            fs::rename(path.with_extension("copy"), path).unwrap();
        },
        |path| fs::remove_file(path.with_extension("db-wal")).unwrap(),
    ];
    for take in take_away {
        let t = Fixture::new();
        let engine = t.open();
        take(&t.path("jobs.db"));
        engine.write(t.note("first"));
        assert_stopped(&t.answer());
        engine.close();
        engine.write(t.note("later"));
        assert_stopped(&t.answer());
        engine.read(test_read(&t, |_| {}));
        assert_stopped(&t.answer());
    }
}

#[test]
fn a_file_removed_during_a_commit_is_not_acknowledged() {
    let t = Fixture::new();
    let engine = t.open();
    let resume = t.hold(&engine);
    fs::remove_file(t.path("jobs.db")).unwrap();
    drop(resume);
    assert_stopped(&t.answer());
}

#[tokio::test]
async fn a_commit_by_another_engine_wakes_those_who_wait() {
    let t = Fixture::new();
    let env = t.env();
    let _waiting = SqliteEngine::open(&t.path("jobs.db"), env.clone()).unwrap();
    let other = t.open();
    let (mut work, mut ends) = (env.wakeups.work(), env.wakeups.ends());
    other.write(t.note("other"));
    let woken = async { tokio::join!(work.notified(), ends.notified()) };
    tokio::time::timeout(Duration::from_secs(60), woken).await.expect("waiters are woken");
}

#[test]
fn engines_on_one_file_take_turns_without_anybody_noticing() {
    let t = Fixture::new();
    let engines = [t.open(), t.open()];
    let before = t.commits();
    for _ in 0..200 {
        for engine in &engines {
            engine.write(t.note("turn"));
        }
    }
    for _ in 0..400 {
        assert_eq!(t.answer(), ("turn", Ok(())));
    }
    assert_eq!(head_marker::read_head(&t.path("jobs.db-head")).unwrap().commits, t.commits());
    assert!(t.commits() > before);
}

#[test]
fn own_commits_are_not_taken_for_anothers() {
    let t = Fixture::new();
    let (mut writer, mut other) = (t.writer(), t.writer());
    let connection = open::connect_reader(&t.path("jobs.db"), 64).unwrap();
    let mut watch =
        ChangeListener::new(connection, t.env(), writer.own.clone(), t.path("jobs.db-wal"), Vec::new())
            .unwrap();
    writer.commit(vec![t.note("own")]).unwrap();
    assert_eq!(watch.has_foreign_commit(), Ok(false));
    other.commit(vec![t.note("other")]).unwrap();
    writer.commit(vec![t.note("own")]).unwrap();
    assert_eq!(watch.has_foreign_commit(), Ok(true));
    for _ in 0..100 {
        assert_eq!(watch.has_foreign_commit(), Ok(false), "it is asked less often, and still knows");
    }
    other.commit(vec![t.note("other")]).unwrap();
    assert_eq!(watch.has_foreign_commit(), Ok(true), "a change is seen at the first glance");
}

#[test]
fn a_full_disk_refuses_new_jobs_until_the_reserve_is_back() {
    let t = Fixture::new();
    let mut writer = t.writer();
    let reserve = || fs::metadata(t.path("jobs.db-reserve")).unwrap().len();
    let limit = |writer: &Writer, pages: i64| {
        writer.tables.connection().pragma_update(None, "max_page_count", pages).unwrap();
    };
    assert_eq!(reserve(), limits::RESERVE_BYTES);
    limit(&writer, 1);
    writer.commit(vec![t.submission("submit"), t.task("finish", |_| {})]).unwrap();
    assert_eq!([t.answer(), t.answer()], [("submit", Err(StoreError::Full)), ("finish", Ok(()))]);
    assert_eq!(reserve(), 0);
    limit(&writer, 1 << 20);
    writer.commit(vec![t.submission("too soon"), t.note("finish")]).unwrap();
    assert_eq!([t.answer(), t.answer()], [("too soon", Err(StoreError::Full)), ("finish", Ok(()))]);
    t.clock.advance(limits::RESERVE_RETRY_EVERY);
    writer.commit(vec![t.submission("again")]).unwrap();
    assert_eq!((t.answer(), reserve()), (("again", Ok(())), limits::RESERVE_BYTES));
}

#[test]
fn closing_finishes_what_was_taken_and_may_be_repeated() {
    let t = Fixture::new();
    let engine = t.open();
    let resume = t.hold(&engine);
    for name in ["a", "b", "c"] {
        engine.write(t.note(name));
    }
    thread::scope(|scope| {
        scope.spawn(|| engine.close());
        drop(resume);
    });
    let answers: Vec<Answer> = (0..4).map(|_| t.answer()).collect();
    assert_eq!(answers, ["hold", "a", "b", "c"].map(|name| (name, Ok(()))));
    engine.close();
    engine.write(t.note("late"));
    engine.read(test_read(&t, |_| {}));
    let closed = StoreError::Closed;
    assert_eq!([t.answer(), t.answer()], [("late", Err(closed.clone())), ("look", Err(closed))]);
    assert!(!t.path("jobs.db-wal").exists(), "the log is in the database when no other process has it open");
}

#[test]
fn the_last_handle_may_be_dropped_by_a_callback() {
    let t = Fixture::new();
    let engine = Arc::new(t.open());
    let mut own = Some(engine.clone());
    let (gone, is_gone) = sync_channel(1);
    let (resume, may_continue) = sync_channel::<()>(1);
    engine.write(t.task("drops", move |_| {
        let _ = may_continue.recv();
        drop(own.take());
        gone.send(()).unwrap();
    }));
    drop(engine);
    drop(resume);
    is_gone.recv_timeout(Duration::from_secs(60)).expect("the writer does not wait for itself");
    assert_eq!(t.answer(), ("drops", Ok(())));
}

#[test]
fn a_look_that_lasts_too_long_is_ended() {
    let t = Fixture::new();
    drop(t.writer());
    let tables = open_tables(&t.location(), 64).unwrap();
    let reader = Reader::new(tables, t.env(), Arc::default());
    let connection = open::connect_reader(&t.path("jobs.db"), 64).unwrap();
    let mut watch =
        ChangeListener::new(connection, t.env(), Arc::default(), t.path("jobs.db-wal"), vec![reader.turn()])
            .unwrap();
    let endless = thread::spawn(move || reader.read_forever());
    while !endless.is_finished() {
        watch.end_long_reads(limits::SNAPSHOT_MAX);
        thread::yield_now();
    }
    assert!(endless.join().unwrap().unwrap_err().to_string().contains("interrupted"));
}

#[test]
fn a_backup_opens_by_itself_and_overwrites_nothing() {
    let t = Fixture::new();
    let engine = t.open();
    engine.write(t.note("kept"));
    assert_eq!(t.answer(), ("kept", Ok(())));
    let copy = t.path("copy.db");
    engine.copy_to(&copy).unwrap();
    assert!(engine.copy_to(&copy).unwrap_err().to_string().contains("exists"));
    assert!(!t.path("copy.db-partial").exists());
    let restored = SqliteEngine::open(&copy, t.env()).unwrap();
    restored.write(t.note("after"));
    assert_eq!(t.answer(), ("after", Ok(())));
    assert_eq!(head_marker::read_head(&t.path("copy.db-head")).unwrap().commits, t.commits() + 1);
}

#[test]
fn every_file_is_its_owners_alone() {
    let t = Fixture::new();
    let engine = t.open();
    engine.write(t.note("one"));
    assert_eq!(t.answer(), ("one", Ok(())));
    engine.copy_to(&t.path("copy.db")).unwrap();
    let names = ["jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-head", "jobs.db-reserve", "copy.db"];
    for name in names {
        assert_eq!(fs::metadata(t.path(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}
