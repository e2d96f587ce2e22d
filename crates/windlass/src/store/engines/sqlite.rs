//! The SQLite engine: one file, one writer thread that commits in groups, a few readers, and a change listener for
//! other processes on the same file. It contains no rules; it only begins, commits and answers.
//!
//! Next to `jobs.db` are SQLite's `-wal` and `-shm`, the head marker `-head` and the disk reserve `-reserve`. After an
//! older backup was put in place, deleting `-head` confirms that the later commits are given up on purpose.

pub(in crate::store) mod backup;
#[cfg(feature = "bench")]
pub mod baseline;
mod busy;
mod change_listener;
mod checkpoint;
mod damage;
mod disk_reserve;
mod filesystem;
mod head_marker;
mod log_length;
pub(in crate::store) mod migrate;
mod open;
mod reader;
mod soundness;
mod tables;
pub(crate) mod transactional_submit;
pub(crate) mod transfer;
mod writer;

#[cfg(test)]
mod life_tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use self::change_listener::{ChangeListener, OwnCommits, Signal};
use self::disk_reserve::Reserve;
use self::head_marker::Marker;
use self::log_length::LogLength;
use self::open::{Identity, Location};
use self::reader::Reader;
use self::soundness::Soundness;
use self::tables::Tables;
use self::writer::Writer;
use crate::error::OpenError;
use crate::limits;
use crate::store::engine::{Backup, Engine, EngineResult, ReadTask, WriteTask};
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::engines::sql::thread::{join, spawn};
use crate::store::environment::{Environment, FileCheck};
use crate::store::tx::cache::ConnectionCache;

/// A store in one SQLite file.
pub struct SqliteEngine {
    writes: Arc<TaskQueue<Box<dyn WriteTask>>>,
    reads: Arc<TaskQueue<Box<dyn ReadTask>>>,
    bell: Arc<Signal>,
    location: Location,
    identity: Identity,
    soundness: Arc<Soundness>,
    threads: Mutex<Threads>,
}

/// The threads that are not joined yet.
#[derive(Default)]
struct Threads {
    /// Readers and change listener.
    others: Vec<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
}

impl SqliteEngine {
    /// Opens the file, or creates it; several processes may have it open. The options say when it is checked for
    /// damage.
    pub fn open(path: &Path, env: Arc<Environment>) -> Result<SqliteEngine, OpenError> {
        let location = open::locate(path)?;
        let own = Arc::new(OwnCommits::default());
        let writer = open_writer(&location, env.clone(), own.clone())?;
        let count = limits::READERS + limits::READERS_RESERVED;
        let readers = (0..count)
            .map(|_| {
                let tables = open_tables(&location, limits::READER_CACHE_KIB)?;
                Ok(Reader::new(tables, env.clone(), writer.soundness.clone()))
            })
            .collect::<EngineResult<Vec<Reader>>>()?;
        let turns = readers.iter().map(Reader::turn).collect();
        // It reads one row.
        let listener = open::connect_reader(location.path(), 64)?;
        let is_unchecked = env.options.file_check == FileCheck::InBackground;
        let watch = ChangeListener::new(listener, env, own, location.beside("-wal"), turns)?;
        let engine = SqliteEngine {
            writes: Arc::new(TaskQueue::new(limits::WRITES_WAITING_MAX)),
            reads: Arc::new(TaskQueue::new(limits::READS_WAITING_MAX)),
            bell: Arc::default(),
            identity: writer.identity.clone(),
            soundness: writer.soundness.clone(),
            location,
            threads: Mutex::default(),
        };
        engine.start(writer, readers, watch)?;
        if is_unchecked {
            engine.check_in_background()?;
        }
        Ok(engine)
    }

    fn start(&self, writer: Writer, readers: Vec<Reader>, watch: ChangeListener) -> EngineResult<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let inboxes = (self.writes.clone(), self.reads.clone());
        threads.writer = Some(spawn("windlass-writer", move || writer.serve(&inboxes.0, &inboxes.1))?);
        for (index, reader) in readers.into_iter().enumerate() {
            let inbox = self.reads.clone();
            let is_reserved = index < limits::READERS_RESERVED;
            let serve = move || if is_reserved { reader.serve_urgent(&inbox) } else { reader.serve(&inbox) };
            threads.others.push(spawn("windlass-reader", serve)?);
        }
        let bell = self.bell.clone();
        threads.others.push(spawn("windlass-listener", move || watch.serve(&bell))?);
        Ok(())
    }
}

impl SqliteEngine {
    /// The path of the file.
    pub(in crate::store) fn file(&self) -> &Path {
        self.location.path()
    }

    fn check_in_background(&self) -> EngineResult<()> {
        let (soundness, location) = (self.soundness.clone(), self.location.clone());
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.others.push(spawn("windlass-check", move || soundness.check_whole_file(&location))?);
        Ok(())
    }
}

fn open_writer(
    location: &Location,
    env: Arc<Environment>,
    own: Arc<OwnCommits>,
) -> Result<Writer, OpenError> {
    let head_path = location.beside("-head");
    let (acknowledged, is_marked) = (head_marker::read_head(&head_path), head_path.exists());
    let is_checked_first = env.options.file_check == FileCheck::BeforeServing;
    let mut connection = busy::retry_while_locked(None, || {
        let connection = open::connect_writer(location.path())?;
        if is_checked_first {
            open::quick_check(&connection)?;
        }
        Ok(connection)
    })?;
    // An existing database without content has lost everything, because it was emptied or because the start of its log
    // is lost; if it were initialized again, it would look like another store.
    let is_blank = migrate::is_blank(&connection)?;
    if let Some(head) = acknowledged.filter(|head| is_blank && location.was_there && head.commits > 0) {
        return Err(OpenError::CommitsMissing { first_missing: 1, last_acknowledged: head.commits });
    }
    // Before the schema is migrated: a refused file is left unchanged.
    if !is_blank {
        head_marker::refuse_lost_commits(acknowledged, open::head(&connection)?)?;
    }
    migrate::migrate(&mut connection)?;
    if is_checked_first {
        open::check_indexes(&connection)?;
    }
    let head = open::head(&connection)?;
    let put_back = head_marker::why_put_back(acknowledged, is_marked, head);
    open::own_log(&connection)?;
    let mut tables = Tables::new(connection)?;
    let marker = if let Some(reason) = put_back {
        tables.put_back = Some((reason.to_owned(), tables.meta.generation));
        // Not before the first commit, which begins a new generation: until then the file still counts as one that was
        // put in place.
        Marker::later(&head_path, location.mode, head.store)
    } else {
        Marker::open(&head_path, location.mode, head)
            .map_err(|error| open::cannot("write", &head_path, &error))?
    };
    ConnectionCache::default().check_not_moved(&mut tables, &env)?;
    env.clock.open_file(tables.meta.stamp, marker.is_alone());
    Ok(Writer {
        tables,
        env,
        identity: Identity::read(location),
        log: LogLength::new(location.beside("-wal")),
        marker,
        reserve: Reserve::open(&location.beside("-reserve"), location.mode),
        own,
        cache: ConnectionCache::default(),
        soundness: Arc::default(),
    })
}

fn open_tables(location: &Location, cache_kib: i64) -> EngineResult<Tables> {
    Tables::new(open::connect_reader(location.path(), cache_kib)?)
}

impl Backup for SqliteEngine {
    /// The copy can be opened as a store of its own; an existing file is refused.
    fn copy_to(&self, to: &Path) -> EngineResult<()> {
        self.identity.clone().check()?;
        backup::backup(self.location.path(), to)
    }
}

impl Engine for SqliteEngine {
    fn write(&self, task: Box<dyn WriteTask>) {
        let is_urgent = task.is_urgent();
        self.writes.put_or_refuse(task, is_urgent);
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.reads.put_or_refuse(task, false);
    }

    fn read_urgent(&self, task: Box<dyn ReadTask>) {
        self.reads.put_or_refuse(task, true);
    }

    fn backup(&self) -> Option<&dyn Backup> {
        Some(self)
    }

    fn close(&self) {
        // Taken out first: a thread that is joined may itself be closing the store.
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.reads.close();
        self.soundness.close();
        self.bell.end();
        threads.others.into_iter().for_each(join);
        // The writer is closed last: as the last connection it removes the log.
        self.writes.close();
        threads.writer.into_iter().for_each(join);
    }
}

impl Drop for SqliteEngine {
    fn drop(&mut self) {
        self.close();
    }
}
