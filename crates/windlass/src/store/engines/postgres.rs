//! The PostgreSQL engine: one schema, any number of nodes, one writer at a time among them. Each node has a writer
//! thread that commits in groups, a few readers, and a change listener for the other nodes. It contains no rules; it
//! only begins, commits and answers.

mod appends;
#[cfg(feature = "bench")]
pub mod baseline;
mod change_listener;
mod connection;
mod idle_limit;
pub(in crate::store) mod migrate;
mod node_cache;
mod notifications;
mod parameter;
mod prefetch;
mod reader;
mod sql_submit;
mod tables;
mod transaction;
pub(crate) mod transactional_submit;
pub(crate) mod transfer;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

pub use self::transactional_submit::SqlStatement;

use self::appends::appender::Appender;
use self::appends::backlog::Backlog;
use self::appends::gathering::Gathering;
use self::change_listener::ChangeListener;
use self::connection::address::Address;
use self::connection::waits::Closing;
use self::idle_limit::IdleLimit;
use self::notifications::Notifications;
use self::reader::Reader;
use self::sql_submit::Inbox;
use self::tables::Tables;
use self::writer::Writer;
use crate::clock::Timestamp;
use crate::error::OpenError;
use crate::limits;
use crate::store::engine::{Engine, EngineResult, ReadTask, WriteTask};
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::engines::sql::thread::{join, panicked, spawn};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;

/// A store in a PostgreSQL database.
pub struct PostgresEngine {
    writes: Arc<TaskQueue<Box<dyn WriteTask>>>,
    reads: Arc<TaskQueue<Box<dyn ReadTask>>>,
    /// Submissions that need not wait for their turn.
    appends: Arc<TaskQueue<Box<dyn WriteTask>>>,
    notifications: Arc<Notifications>,
    closing: Closing,
    threads: Mutex<Threads>,
    schema: String,
    is_appending: bool,
}

/// The threads that are not joined yet.
#[derive(Default)]
struct Threads {
    /// They pass on to the writer what they cannot do.
    appenders: Vec<JoinHandle<()>>,
    /// Writer and readers.
    workers: Vec<JoinHandle<()>>,
    listener: Option<JoinHandle<()>>,
}

impl PostgresEngine {
    /// The name of the database schema.
    pub(in crate::store) fn schema(&self) -> &str {
        &self.schema
    }

    /// Opens the store at an address such as `postgres://user@host/database?schema=windlass`, or creates it there.
    pub fn open(address: &str, env: &Arc<Environment>) -> Result<PostgresEngine, OpenError> {
        let address = Address::parse(address)?;
        // On a thread of its own: the caller may be inside a runtime, which must not be blocked by another.
        let opened = std::thread::scope(|scope| scope.spawn(|| open_tables(&address, env)).join());
        let tables = opened.map_err(|payload| panicked(payload.as_ref()))??;
        let engine = PostgresEngine {
            writes: Arc::new(TaskQueue::new(limits::WRITES_WAITING_MAX)),
            reads: Arc::new(TaskQueue::new(limits::READS_WAITING_MAX)),
            appends: Arc::new(TaskQueue::new(limits::WRITES_WAITING_MAX)),
            notifications: Arc::default(),
            closing: Closing::default(),
            threads: Mutex::default(),
            schema: address.schema.clone(),
            is_appending: address.is_appending,
        };
        engine.start(tables, &address, env)?;
        Ok(engine)
    }

    fn start(&self, tables: Tables, address: &Address, env: &Arc<Environment>) -> EngineResult<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let inbox = Arc::new(Inbox::new(self.writes.clone()));
        let backlog = Arc::new(Backlog::new(self.writes.clone()));
        let (notifications, closing) = (self.notifications.clone(), self.closing.clone());
        let shared = (inbox.clone(), backlog.clone());
        let writer = Writer::new(tables, address.clone(), env.clone(), notifications, shared, closing);
        let node = writer.node();
        let inboxes = (self.writes.clone(), self.reads.clone());
        threads.workers.push(spawn("windlass-writer", move || writer.serve(&inboxes.0, &inboxes.1))?);
        let count = limits::READERS + limits::READERS_RESERVED;
        for index in 0..count {
            let reader = Reader::new(address.clone(), env.clone(), self.closing.clone(), backlog.clone());
            let inbox = self.reads.clone();
            let is_reserved = index < limits::READERS_RESERVED;
            let serve = move || if is_reserved { reader.serve_urgent(&inbox) } else { reader.serve(&inbox) };
            threads.workers.push(spawn("windlass-reader", serve)?);
        }
        let gathering = Arc::new(Gathering::default());
        let appenders = if address.is_appending { limits::APPENDERS } else { 0 };
        for place in 0..appenders {
            let shared = (self.notifications.clone(), backlog.clone());
            let appender = Appender::new(place, address.clone(), env.clone(), self.closing.clone(), shared);
            let (queue, gathering) = (self.appends.clone(), gathering.clone());
            threads.appenders.push(spawn("windlass-appender", move || appender.serve(&queue, &gathering))?);
        }
        let watch =
            ChangeListener::new(address.clone(), env.clone(), self.notifications.clone(), inbox, node);
        threads.listener = Some(spawn("windlass-listener", move || watch.serve())?);
        Ok(())
    }
}

/// Attempts to open a store that give the lock back as soon as every transaction does.
const OPEN_ATTEMPTS_IN_HASTE: u32 = 2;

fn open_tables(address: &Address, env: &Environment) -> Result<Tables, OpenError> {
    let mut link = connection::Connection::connect(address)?;
    migrate::migrate(&mut link, address)?;
    let mut tables = Tables::new(link, tables::Access::Write);
    let mut idle = IdleLimit::default();
    for attempt in 1.. {
        tables.idle_max = idle.begin(tables.link.round_trip());
        let read = read_last_commit(&mut tables, address, env);
        // A server that has ended the transaction may have answered everything before.
        if tables.link.lost().is_none() || attempt >= limits::OPEN_ATTEMPTS {
            read?;
            break;
        }
        // As for every transaction: a node that is frozen while it is opened gives the lock back soon. But the delay may be on
        // the way, which this thread cannot tell: later attempts have more time in any case.
        if attempt > OPEN_ATTEMPTS_IN_HASTE {
            idle.lost_after(None);
        } else {
            idle.lost();
        }
        tracing::info!(lost = tables.link.lost(), "connecting again to open the store");
        tables.relink(connection::Connection::connect(address)?);
    }
    tables.try_barrier()?;
    tables.set_payload_limit(env.options.payload_bytes_max)?;
    Ok(tables)
}

/// Looks under the lock what the last commit is, and sets the clock by it.
fn read_last_commit(tables: &mut Tables, address: &Address, env: &Environment) -> EngineResult<()> {
    let asked = env.clock.elapsed();
    let now = tables.begin_write(address.lock_key("write"), None, prefetch::PrefetchHints::default)?;
    let admitted = ConnectionCache::default().check_not_moved(tables, env);
    let last = tables.read_appends();
    tables.rollback();
    admitted?;
    env.clock.open_database(last?, Timestamp::from_millis(now), asked);
    Ok(())
}

impl Engine for PostgresEngine {
    fn write(&self, task: Box<dyn WriteTask>) {
        if self.is_appending && task.is_independent() {
            self.appends.put_or_refuse(task, false);
            return;
        }
        let is_urgent = task.is_urgent();
        self.writes.put_or_refuse(task, is_urgent);
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.reads.put_or_refuse(task, false);
    }

    fn read_urgent(&self, task: Box<dyn ReadTask>) {
        self.reads.put_or_refuse(task, true);
    }

    fn close(&self) {
        // Taken out first: a thread that is joined may itself be closing the store.
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.closing.begin();
        self.appends.close();
        threads.appenders.into_iter().for_each(join);
        self.reads.close();
        self.writes.close();
        threads.workers.into_iter().for_each(join);
        // The change listener is closed last: it notifies other nodes of the last commits.
        self.notifications.close();
        threads.listener.into_iter().for_each(join);
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.close();
    }
}
