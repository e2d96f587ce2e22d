//! The entry point to durable state. [`Store`] validates requests, passes them to an engine, waits for the result and
//! wakes the waiters of whatever changed. The embedded client, workers, the server and the command line all use it.

mod claim_order;
pub(crate) mod command;
pub(crate) mod documents;
pub mod engine;
pub mod engines;
pub(crate) mod environment;
pub(crate) mod filter;
pub(crate) mod methods;
pub(crate) mod metrics;
pub mod move_store;
pub(crate) mod notify;
pub(crate) mod query;
pub(crate) mod read_source;
mod schema;
pub(crate) mod tx;
pub mod verify;
#[cfg(feature = "api")]
pub(crate) mod wire;

use std::path::Path;
pub use windlass_core::caller;

pub use crate::settings::PauseMode;
pub use claim_order::ClaimOrder;
pub use command::actions::{ActionReport, ActionRequest, Patch, Suspend};
pub use command::alert::evaluate::AlertReport;
pub use command::attempt_writes::{AttemptWrite, JobWrites, JobWritesResult, LeaseRef, LogLine, StepTime};
pub use command::bulk::{BulkAction, BulkCursor, BulkReport};
pub use command::children::{NewGroup, SpawnOptions, SpawnReport};
pub use command::claim::{Checkpoint, ClaimAnswer, ClaimRequest, ClaimedJob};
pub use command::finish::{Finish, Outcome, Park, Report};
pub use command::generation::NewGeneration;
pub use command::heartbeat::{Directive, HeartbeatItem, HeartbeatReply};
pub use command::key::NewKey;
pub use command::maintenance::audit_chain::SealReport;
pub use command::maintenance::retention::RetentionSet;
pub use command::maintenance::roll_up::RollUpReport;
pub use command::maintenance::{PruneReport, TickReport};
pub use command::pause::{Pause, PauseTarget};
pub use command::precondition::{ActionOptions, IfMatch};
pub use command::redrive::Redrive;
pub use command::settings::{Settings, SettingsReport};
pub use command::submit::{Receipt, SubmitOptions};
pub use command::worker::NewWorker;
pub use documents::alerts::{Alert, PutAlert};
pub use documents::attempt::AttemptRecord;
pub use documents::config::{Config, NamesMax, PauseRecord, PauseScope, PushTargets, Resumption, Worker};
pub use documents::counters::{Counts, LimitScope, StateCounts};
pub use documents::error_stats::{ErrorCount, ErrorStats};
pub use documents::history::{Gauge, HistorySubject, Point};
pub use documents::latency::{Exemplar, Exemplars, LatencyHistogram};
pub use documents::minute_stats::{DueRate, Minute, Rates};
pub use documents::schedules::{DeletedSchedule, NewSchedule, PutSchedule, RefusedRun, RetriedRun, Schedule};
pub use documents::tenant_object::{AlertRef, ObjectPause, ObjectRef, PauseOptions, ScheduleRef};
pub use documents::webhook::WebhookSecret;
pub use environment::{Environment, FileCheck, StoreOptions, TicketOptions};
pub use filter::{Filter, Order, Scan, SearchResult};
pub use methods::auth::{ApiKey, CreatedKey, KeyCache};
#[cfg(feature = "sqlite")]
pub use methods::restore::{RestoreReport, Restoring, restore};
pub use metrics::deliveries::{Deliveries, DeliveryKind, DeliveryOutcome};
pub use metrics::{Fallback, Histogram, HistogramReading, Metrics};
pub use notify::events::EventFeed;
pub use notify::feed::{Change, Feed};
pub use query::audit::RecordPage;
pub use query::explain::Reason;
pub use query::history::{History, HistoryRequest};
pub use query::job_details::{
    Attempt, ChildPage, ChildQuery, ChildResult, DecidedGroup, Group, JobResult, Neighbours,
};
pub use query::known::{KnownNames, ObjectName};
pub use query::list::{CountResult, Cursor, ListRequest, Page, WorkerLoad};
pub use query::queues::QueueInfo;
pub use query::snapshot::Snapshot;
pub use query::stats::{ByState, OmittedCounts, Stats};
pub use query::stream::{StreamChunk, StreamPage};
pub use query::types::TypeInfo;
pub use schema::Schema;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::clock::Deadline;
use crate::error::{OpenError, StoreError};
use caller::Caller;
use engine::Engine;
use read_source::ReadSource;
use tx::read_tx::ReadTx;
use tx::request::{Command, Kind, Query};
use tx::work::IsStoreError;
use tx::write_tx::WriteTx;

/// A store of jobs. Cheap to clone; all clones share the same store.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    env: Arc<Environment>,
}

impl Store {
    /// Opens the store at an address: `sqlite:PATH`, `postgres://…` or `memory:`. A server is opened with
    /// [`Client::open`](crate::Client::open).
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the address or the database. Nothing is served in that case.
    pub fn open(address: &str, options: StoreOptions) -> Result<Store, OpenError> {
        Store::open_in(address, Environment::system(options))
    }

    /// Like [`open`](Store::open), with the caller's clock and source of randomness.
    pub fn open_in(address: &str, env: Environment) -> Result<Store, OpenError> {
        #[cfg(feature = "sqlite")]
        if let Some(path) = address.strip_prefix("sqlite:") {
            return Store::with_engine(env, |env| {
                engines::sqlite::SqliteEngine::open(std::path::Path::new(path), env)
            });
        }
        #[cfg(feature = "postgres")]
        if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            return Store::with_engine(env, |env| engines::postgres::PostgresEngine::open(address, &env));
        }
        if address == "memory:" {
            return Store::with_engine(env, |env| Ok(engines::memory::MemoryEngine::new(env)));
        }
        if address.starts_with("http://") || address.starts_with("https://") {
            return Err(OpenError::ServerAddress);
        }
        Err(OpenError::UnknownAddress(address.to_owned()))
    }

    /// A store on an engine of your own: any type that implements the [contract](engine). It is opened with the
    /// environment of the store, where its commits are announced.
    ///
    /// ```
    /// use windlass::error::OpenError;
    /// use windlass::store::engines::memory::MemoryEngine;
    /// use windlass::store::{Environment, StoreOptions};
    /// use windlass::{Client, Store};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let env = Environment::system(StoreOptions::default());
    /// let store = Store::with_engine(env, |env| Ok::<_, OpenError>(MemoryEngine::new(env)))?;
    /// let client = Client::from_store(store);
    /// # Ok::<(), OpenError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `open`.
    pub fn with_engine<E: Engine, Error>(
        env: Environment,
        open: impl FnOnce(Arc<Environment>) -> Result<E, Error>,
    ) -> Result<Store, Error> {
        let env = Arc::new(env);
        let engine = open(env.clone())?;
        Ok(Store { engine: Arc::new(engine), env })
    }

    /// The clock, randomness and options that the store was opened with.
    pub fn environment(&self) -> &Environment {
        &self.env
    }

    /// Stops the store after finishing the work it has accepted. Later calls are refused.
    pub fn close(&self) {
        self.engine.close();
    }

    /// Copies the store to a new file while it is in use; an existing file is refused. Of the engines here, only SQLite
    /// makes such copies.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        const NO_COPIES: &str = "this store has no file to copy; a store in PostgreSQL is backed up with pg_dump or pg_basebackup";
        let (engine, to) = (self.engine.clone(), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || match engine.backup() {
            Some(backup) => backup.copy_to(&to),
            None => Err(StoreError::Database(NO_COPIES.to_owned())),
        });
        copied.await.unwrap_or_else(|error| Err(StoreError::Database(error.to_string())))
    }

    /// Runs a command in the next commit.
    pub(crate) async fn write<T, E>(
        &self,
        verb: &'static str,
        kind: Kind,
        work: impl FnMut(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: IsStoreError + Send + 'static,
    {
        let deadline = Deadline::for_call(self.env.timing.request_max);
        let (task, answer) = Command::with_answer(kind, deadline, work);
        self.engine.write(task);
        answer.wait(write_span(verb)).await
    }

    /// Returns once the store has answered a minimal read. The read never waits behind long ones.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.read_as(ReadKind::Urgent, "ready", |view: &mut ReadTx<'_>| view.config().map(drop)).await
    }

    /// Runs a query on a snapshot.
    pub(crate) async fn read<T, E>(
        &self,
        verb: &'static str,
        work: impl FnMut(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.read_as(ReadKind::Ordinary, verb, work).await
    }

    /// Runs a query on a snapshot, with the priority and the time that queries of this kind have.
    pub(crate) async fn read_as<T, E>(
        &self,
        kind: ReadKind,
        verb: &'static str,
        work: impl FnMut(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let deadline = (kind != ReadKind::Long).then(|| Deadline::for_call(self.env.timing.request_max));
        // Cancelled when the caller stops waiting, which drops the guard.
        let cancellation = CancellationToken::new();
        let _leaves = cancellation.clone().drop_guard();
        let (task, answer) = Query::with_answer(deadline, cancellation, ReadSource::current(), work);
        match kind {
            ReadKind::Urgent => self.engine.read_urgent(task),
            ReadKind::Ordinary | ReadKind::Long => self.engine.read(task),
        }
        answer.wait(tracing::trace_span!("store", verb)).await
    }

    /// Like [`write`](Store::write), on behalf of a caller.
    pub(crate) async fn write_for<T, E>(
        &self,
        caller: &Caller,
        verb: &'static str,
        kind: Kind,
        mut work: impl FnMut(&mut WriteTx<'_>, &Caller) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: IsStoreError + Send + 'static,
    {
        let caller = caller.clone();
        self.write(verb, kind, move |tx| work(tx, &caller)).await
    }

    /// Like [`read`](Store::read), on behalf of a caller.
    pub(crate) async fn read_for<T, E>(
        &self,
        caller: &Caller,
        verb: &'static str,
        mut work: impl FnMut(&mut ReadTx<'_>, &Caller) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let caller = caller.clone();
        self.read(verb, move |tx| work(tx, &caller)).await
    }
}

/// How a query is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadKind {
    /// It waits for its turn.
    Ordinary,
    /// It never waits behind long ones: for health probes, request authentication and page layouts.
    Urgent,
    /// It reads everything and has no deadline.
    Long,
}

/// The span of a commit. Submitting, claiming and finishing have the names of OpenTelemetry's conventions for messaging;
/// without a queue, because one commit may be about several.
fn write_span(verb: &'static str) -> tracing::Span {
    let (operation, kind) = match verb {
        "submit" => ("send", "producer"),
        "claim" => ("receive", "client"),
        "finish" => ("settle", "client"),
        _ => return tracing::debug_span!("store", otel.name = format!("store {verb}")),
    };
    tracing::debug_span!(
        "store",
        otel.name = operation,
        otel.kind = kind,
        messaging.system = "windlass",
        messaging.operation.name = verb,
        messaging.operation.type = operation,
    )
}
