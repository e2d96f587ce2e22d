//! The entry point to durable state. [`Store`] validates requests, passes them to an engine, waits for the result and
//! wakes the waiters of whatever changed. The embedded client, workers, the server and the command line all use it.

pub mod api;
pub mod claim_order;
pub mod command;
pub mod documents;
pub mod engine;
pub mod engines;
pub mod environment;
pub mod filter;
pub mod metrics;
pub mod move_store;
pub mod notify;
pub mod query;
pub mod read_source;
pub mod schema;
pub mod tx;
pub mod verify;
#[cfg(feature = "api")]
#[doc(hidden)]
pub mod wire;

use std::path::Path;
pub use windlass_core::caller;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::clock::{Deadline, WaitLimit};
use crate::error::{ActError, OpenError, StoreError, SubmitError};
use crate::job::{JobId, JobRecord, NewJob};
use crate::limits;
use caller::Caller;
use command::actions::{self, ActionReport, ActionRequest};
use command::precondition::{ActOptions, IfMatch};
use command::redrive::{self, Redrive};
use command::submit::{self, Receipt, SubmitOptions};
use engine::Engine;
use environment::{Environment, StoreOptions};
use metrics::Fallback;
use notify::wakeup::Listener;
use query::snapshot::{self, Snapshot};
use read_source::ReadSource;
use tx::read_tx::ReadTx;
use tx::request::{Command, IsStoreError, Kind, Query};
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
    /// use windlass::store::environment::{Environment, StoreOptions};
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

    /// Submits jobs, all or none. Receipts are in the order of the jobs.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit; nothing was stored.
    pub async fn submit(
        &self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        options: SubmitOptions,
    ) -> Result<Vec<Receipt>, SubmitError> {
        submit::check(&jobs, self.env.options.payload_bytes_max, &self.env.options.targets)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let caller = caller.clone();
        self.write("submit", Kind::Batch(jobs.len()), move |tx| {
            submit::submit(tx, &caller, &jobs, options, None)
        })
        .await
    }

    /// Applies an action to a job. The report says whether the job changed.
    pub async fn act(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
    ) -> Result<ActionReport, ActError> {
        self.act_with(caller, id, act, ActOptions::default()).await
    }

    /// Like [`act`](Store::act), but returns an error if the job is already in the requested state.
    pub async fn act_strictly(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
    ) -> Result<ActionReport, ActError> {
        self.act_with(caller, id, act, ActOptions { strict: true, ..ActOptions::default() }).await
    }

    /// Like [`act`](Store::act), with options: strict, or only for given versions of the job.
    ///
    /// # Errors
    /// [`ActError::Changed`] if the job has another version in the commit that applies the action.
    pub async fn act_with(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
        options: ActOptions,
    ) -> Result<ActionReport, ActError> {
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| actions::act_with(tx, &caller, id, &act, &options);
        self.write("act", Kind::Ordinary, work).await
    }

    /// Submits a copy of a final job as a new job.
    pub async fn redrive(
        &self,
        caller: &Caller,
        id: JobId,
        how: Redrive,
    ) -> Result<crate::job::JobRecord, ActError> {
        self.redrive_if(caller, id, how, IfMatch::any()).await
    }

    /// Like [`redrive`](Store::redrive), if the job has one of these versions.
    ///
    /// # Errors
    /// [`ActError::Changed`] if it has another version.
    pub async fn redrive_if(
        &self,
        caller: &Caller,
        id: JobId,
        how: Redrive,
        if_match: IfMatch,
    ) -> Result<crate::job::JobRecord, ActError> {
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| redrive::redrive(tx, &caller, id, how, &if_match);
        self.write("redrive", Kind::Submission, work).await
    }

    /// Deletes a final job. Its audit records are kept.
    pub async fn delete(&self, caller: &Caller, id: JobId) -> Result<(), ActError> {
        self.delete_if(caller, id, IfMatch::any()).await
    }

    /// Like [`delete`](Store::delete), if the job has one of these versions.
    ///
    /// # Errors
    /// [`ActError::Changed`] if it has another version.
    pub async fn delete_if(&self, caller: &Caller, id: JobId, if_match: IfMatch) -> Result<(), ActError> {
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| actions::delete(tx, &caller, id, &if_match);
        self.write("delete", Kind::Ordinary, work).await
    }

    /// Sends a signal to a job.
    pub async fn signal(
        &self,
        caller: &Caller,
        id: JobId,
        name: &str,
        value: Vec<u8>,
    ) -> Result<crate::job::JobRecord, ActError> {
        let (caller, name) = (caller.clone(), name.to_owned());
        let work = move |tx: &mut WriteTx<'_>| command::signal::signal(tx, &caller, id, &name, &value);
        self.write("signal", Kind::Ordinary, work).await
    }

    /// The job with this id, if the caller can see it.
    pub async fn get(&self, caller: &Caller, id: JobId) -> Result<Option<Snapshot>, StoreError> {
        let caller = caller.clone();
        self.read("get", move |view| snapshot::get(view, &caller, id)).await
    }

    /// Like [`get`](Store::get), but without the payload, which can be large: for callers that poll.
    pub async fn job(&self, caller: &Caller, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        let caller = caller.clone();
        self.read("job", move |view| snapshot::visible(view, &caller, id)).await
    }

    /// Returns the job once it is final, or in its current state after `timeout`.
    pub async fn wait(
        &self,
        caller: &Caller,
        id: JobId,
        timeout: Duration,
    ) -> Result<Option<Snapshot>, StoreError> {
        let wait_limit = WaitLimit::for_duration(timeout);
        // The subscription of the last wait, if it timed out without a notification.
        let mut timed_out: Option<Listener> = None;
        let mut has_read = false;
        loop {
            let mut ends = self.env.wakeups.ends();
            let asking = caller.clone();
            let query = move |view: &mut ReadTx<'_>| snapshot::get_or_expect(view, &asking, id);
            let (found, is_expected) = match self.read::<_, StoreError>("wait", query).await {
                // A caller that waits for thousands of jobs reads all of them on every notification.
                Err(StoreError::TooManyReads { .. }) if has_read && !wait_limit.is_over() => {
                    wait_limit.wait_for(ends.notified(), self.env.timing.backstop_every).await;
                    continue;
                }
                found => found?,
            };
            has_read = true;
            let is_settled = found.as_ref().map_or(!is_expected, |found| found.job.state.is_final());
            if wait_limit.is_over() || is_settled {
                let ended_at = found.as_ref().and_then(|found| found.job.completed_at);
                if timed_out.is_some_and(|ends| !ends.is_notified())
                    && ended_at.is_some_and(|at| self.env.clock.now().since(at) >= limits::NOTICE_MAX)
                {
                    self.env.metrics.fell_back(Fallback::End);
                }
                return Ok(found);
            }
            let is_notified = wait_limit.wait_for(ends.notified(), self.env.timing.backstop_every).await;
            timed_out = (!is_notified).then_some(ends);
        }
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
        let span = tracing::debug_span!("store", otel.name = format!("store {verb}"));
        answer.wait().instrument(span).await
    }

    /// Returns once the store has answered a minimal read. The read never waits behind long ones.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.read("ready", |view: &mut ReadTx<'_>| view.config().map(drop)).await
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
        // `verify` is the only query that reads everything.
        let is_long = verb.starts_with("verify");
        let deadline = (!is_long).then(|| Deadline::for_call(self.env.timing.request_max));
        // Cancelled when the caller stops waiting, which drops the guard.
        let cancellation = CancellationToken::new();
        let _leaves = cancellation.clone().drop_guard();
        let (task, answer) = Query::with_answer(deadline, cancellation, ReadSource::current(), work);
        if URGENT_READS.contains(&verb) {
            self.engine.read_urgent(task);
        } else {
            self.engine.read(task);
        }
        let span = tracing::trace_span!("store", verb);
        answer.wait().instrument(span).await
    }
}

/// Reads needed by health probes, request authentication and page layouts: they never wait behind long ones.
const URGENT_READS: [&str; 3] = ["ready", "keys", "config"];

pub(crate) fn closed_error() -> StoreError {
    StoreError::Stopped("the store was closed".into())
}
