//! The one door to durable state. [`Store`] checks what comes in, hands it to an engine, waits, and wakes whoever waits for
//! what changed; the embedded queue, workers, the server and the command line all go through it.

pub mod api;
pub mod asker;
pub mod caller;
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
#[cfg(feature = "remote")]
mod remote;
pub mod schema;
pub mod tx;
pub mod verify;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::clock::{Deadline, WaitLimit};
use crate::error::{ActError, OpenError, StoreError, SubmitError};
use crate::job::{JobId, JobRecord, NewJob};
use crate::limits;
use asker::ReadSource;
use caller::Caller;
use command::actions::{self, ActionReport, JobAction};
use command::precondition::{ActOptions, IfMatch};
use command::redrive::{self, Redrive};
use command::submit::{self, Receipt, SubmitOptions};
use engine::Engine;
use environment::{Environment, StoreOptions};
use metrics::Fallback;
use notify::wakeup::Listener;
use query::snapshot::{self, Snapshot};
use tx::read_tx::ReadTx;
use tx::request::{Command, IsStoreError, Kind, Query};
use tx::write_tx::WriteTx;

/// Asks the server, if one keeps the store, and answers with what it answers: `ask_server!(self.get(id))`. What is not asked
/// for so ends in [`Store::read`] or [`Store::write`], which then say that only the server can do it.
macro_rules! ask_server {
    ($store:ident.$verb:ident($($argument:expr),*)) => {
        #[cfg(feature = "remote")]
        if let crate::store::Backend::Remote(server) = &$store.backend {
            return server.$verb($($argument),*).await;
        }
    };
}
use ask_server;

/// A store of jobs; cheap to clone, every clone is the same store.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    env: Arc<Environment>,
}

/// Where a store is kept.
#[derive(Clone)]
enum Backend {
    /// In this process, by an engine.
    Local(Arc<dyn Engine>),
    /// By a server.
    #[cfg(feature = "remote")]
    Remote(Arc<remote::Remote>),
}

impl Store {
    /// Opens the store at an address: `sqlite:PATH`, `postgres://…`, `memory:`, or, with feature `remote`, that of a
    /// server, such as `http://127.0.0.1:7788`.
    ///
    /// A server is connected to when it is first asked something. Its key is that of the options, else the one before an `@`
    /// in the address, else that in the environment variable `WINDLASS_KEY`; whom it belongs to is who acts, whatever
    /// [`Caller`] the verbs are given. What only the process that keeps a store can do is refused with
    /// [`StoreError::LocalOnly`].
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the address or with what was found there; nothing is served then.
    pub fn open(address: &str, options: StoreOptions) -> Result<Store, OpenError> {
        Store::open_in(address, Environment::system(options))
    }

    /// The same with a clock and randomness of the caller's.
    pub fn open_in(address: &str, env: Environment) -> Result<Store, OpenError> {
        #[cfg(feature = "remote")]
        if remote::Remote::is_at(address) {
            let mut env = env;
            let backend = Backend::Remote(Arc::new(remote::Remote::open(address, &mut env)?));
            return Ok(Store { backend, env: Arc::new(env) });
        }
        let env = Arc::new(env);
        #[cfg(feature = "sqlite")]
        if let Some(path) = address.strip_prefix("sqlite:") {
            let engine = engines::sqlite::SqliteEngine::open(std::path::Path::new(path), env.clone())?;
            return Ok(Store { backend: Backend::Local(Arc::new(engine)), env });
        }
        #[cfg(feature = "postgres")]
        if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            let engine = engines::postgres::PostgresEngine::open(address, &env)?;
            return Ok(Store { backend: Backend::Local(Arc::new(engine)), env });
        }
        if address == "memory:" {
            let engine = engines::memory::MemoryEngine::new(env.clone());
            return Ok(Store { backend: Backend::Local(Arc::new(engine)), env });
        }
        Err(OpenError::UnknownAddress(address.to_owned()))
    }

    /// What the store was given.
    pub fn environment(&self) -> &Environment {
        &self.env
    }

    /// Ends all work; what was taken is finished first. Calls after this are refused.
    pub fn close(&self) {
        match &self.backend {
            Backend::Local(engine) => engine.close(),
            #[cfg(feature = "remote")]
            Backend::Remote(server) => server.close(),
        }
    }

    /// Whether a server keeps this store, and this process only asks it.
    pub fn is_remote(&self) -> bool {
        !matches!(self.backend, Backend::Local(_))
    }

    /// This store as `caller` may use it. A server knows callers by their keys alone, so through one only whoever opened the
    /// store may: anybody else's calls are refused rather than made in that one's name.
    #[cfg_attr(
        not(feature = "remote"),
        allow(unused_variables, reason = "without servers, every store is kept here")
    )]
    pub(crate) fn as_used_by(&self, caller: &Caller) -> Store {
        #[cfg(feature = "remote")]
        if let Backend::Remote(server) = &self.backend
            && *caller != Caller::local()
        {
            return Store {
                backend: Backend::Remote(Arc::new(server.without_credentials())),
                env: self.env.clone(),
            };
        }
        self.clone()
    }

    /// The engine that keeps this store, for what only the process that keeps it can do.
    #[cfg_attr(
        not(feature = "remote"),
        allow(
            unused_variables,
            clippy::unnecessary_wraps,
            reason = "without servers, every store is kept here"
        )
    )]
    fn engine(&self, verb: &'static str) -> Result<&Arc<dyn Engine>, StoreError> {
        match &self.backend {
            Backend::Local(engine) => Ok(engine),
            #[cfg(feature = "remote")]
            Backend::Remote(_) => Err(StoreError::LocalOnly(verb)),
        }
    }

    /// The events of the server that keeps this store, if one does.
    #[cfg(feature = "remote")]
    fn event_stream(&self, after: Option<u64>) -> Option<remote::events::EventStream> {
        match &self.backend {
            Backend::Local(_) => None,
            Backend::Remote(server) => Some(remote::events::EventStream::new(server.clone(), after)),
        }
    }

    /// Submits jobs, all or none; the receipts are in the jobs' order.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit; nothing was stored.
    pub async fn submit(
        &self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        options: SubmitOptions,
    ) -> Result<Vec<Receipt>, SubmitError> {
        ask_server!(self.submit(jobs, options));
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

    /// Submits jobs within a transaction of the caller's own on the same file: committing makes them visible and wakes
    /// workers, rolling back leaves nothing.
    ///
    /// Begin the transaction as [`Immediate`](rusqlite::TransactionBehavior::Immediate): one that has read before it
    /// writes may find that somebody else wrote in between, and is refused by SQLite.
    ///
    /// # Errors
    /// [`SubmitError`] as for [`submit`](Store::submit); what else the transaction did stays.
    #[cfg(feature = "sqlite")]
    pub fn submit_in_tx(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        caller: &Caller,
        jobs: &[NewJob],
        options: SubmitOptions,
    ) -> Result<Vec<Receipt>, SubmitError> {
        let theirs = transaction.path().map(std::path::Path::new).and_then(|path| path.canonicalize().ok());
        let ours = self.engine("submit_within")?.file().and_then(|path| path.canonicalize().ok());
        if ours.is_none() || theirs != ours {
            let message = "the transaction is on another file than this store".to_owned();
            return Err(StoreError::Database(message).into());
        }
        engines::sqlite::transactional_submit::submit(transaction, &self.env, caller, jobs, options)
    }

    /// The statement that submits a job within a transaction of the caller's own on the same database, with any driver:
    /// committing makes it visible and wakes workers, rolling back leaves nothing.
    ///
    /// # Errors
    /// [`SubmitError`] names field, value and limit; only what can be seen without the database is looked at here.
    #[cfg(feature = "postgres")]
    pub fn sql_call(
        &self,
        caller: &Caller,
        job: &NewJob,
        options: SubmitOptions,
    ) -> Result<engines::postgres::SqlStatement, SubmitError> {
        let schema = self.engine("sql_call")?.schema().ok_or_else(|| {
            StoreError::Database("only a store in PostgreSQL is submitted to in SQL".to_owned())
        })?;
        engines::postgres::transactional_submit::call(schema, &self.env, caller, job, options)
    }

    /// Submits a job within a transaction of the caller's own on the same database, and answers with its id; the owner is
    /// the database's user.
    ///
    /// # Errors
    /// [`SubmitError`] as for [`submit`](Store::submit); what else the transaction did stays.
    #[cfg(feature = "postgres")]
    pub async fn submit_in_postgres_tx(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        caller: &Caller,
        job: &NewJob,
        options: SubmitOptions,
    ) -> Result<JobId, SubmitError> {
        let call = self.sql_call(caller, job, options)?;
        engines::postgres::transactional_submit::submit(transaction, &call, job).await
    }

    /// Does something to a job and says whether it changed.
    pub async fn act(&self, caller: &Caller, id: JobId, act: JobAction) -> Result<ActionReport, ActError> {
        self.act_with(caller, id, act, ActOptions::default()).await
    }

    /// The same, but finding the job as asked already is an error (M51).
    pub async fn act_strictly(
        &self,
        caller: &Caller,
        id: JobId,
        act: JobAction,
    ) -> Result<ActionReport, ActError> {
        self.act_with(caller, id, act, ActOptions { strict: true, ..ActOptions::default() }).await
    }

    /// The same, as the options say: strictly, or only on a version of the job that the caller has seen.
    ///
    /// # Errors
    /// [`ActError::Changed`] if the job is in another version; that is decided in the commit that would have changed it.
    pub async fn act_with(
        &self,
        caller: &Caller,
        id: JobId,
        act: JobAction,
        options: ActOptions,
    ) -> Result<ActionReport, ActError> {
        ask_server!(self.act(id, act, options));
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| actions::act_with(tx, &caller, id, &act, &options);
        self.write("act", Kind::Ordinary, work).await
    }

    /// Submits a final job again as a new one.
    pub async fn redrive(
        &self,
        caller: &Caller,
        id: JobId,
        how: Redrive,
    ) -> Result<crate::job::JobRecord, ActError> {
        self.redrive_if(caller, id, how, IfMatch::any()).await
    }

    /// The same, if the job is in one of these versions.
    ///
    /// # Errors
    /// [`ActError::Changed`] if it is in another one.
    pub async fn redrive_if(
        &self,
        caller: &Caller,
        id: JobId,
        how: Redrive,
        if_match: IfMatch,
    ) -> Result<crate::job::JobRecord, ActError> {
        ask_server!(self.redrive(id, how, if_match));
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| redrive::redrive(tx, &caller, id, how, &if_match);
        self.write("redrive", Kind::Submission, work).await
    }

    /// Removes a final job; its audit records stay.
    pub async fn delete(&self, caller: &Caller, id: JobId) -> Result<(), ActError> {
        self.delete_if(caller, id, IfMatch::any()).await
    }

    /// The same, if the job is in one of these versions.
    ///
    /// # Errors
    /// [`ActError::Changed`] if it is in another one.
    pub async fn delete_if(&self, caller: &Caller, id: JobId, if_match: IfMatch) -> Result<(), ActError> {
        ask_server!(self.delete(id, if_match));
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| actions::delete(tx, &caller, id, &if_match);
        self.write("delete", Kind::Ordinary, work).await
    }

    /// Sends a signal to a job (M72).
    pub async fn signal(
        &self,
        caller: &Caller,
        id: JobId,
        name: &str,
        value: Vec<u8>,
    ) -> Result<crate::job::JobRecord, ActError> {
        ask_server!(self.signal(id, name, value));
        let (caller, name) = (caller.clone(), name.to_owned());
        let work = move |tx: &mut WriteTx<'_>| command::signal::signal(tx, &caller, id, &name, &value);
        self.write("signal", Kind::Ordinary, work).await
    }

    /// The job with this id, if it exists for this caller.
    pub async fn get(&self, caller: &Caller, id: JobId) -> Result<Option<Snapshot>, StoreError> {
        ask_server!(self.get(id));
        let caller = caller.clone();
        self.read("get", move |view| snapshot::get(view, &caller, id)).await
    }

    /// The same without what it was submitted with: for those who look often, however large its payload is.
    pub async fn job(&self, caller: &Caller, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        if self.is_remote() {
            return Ok(self.get(caller, id).await?.map(|found| found.job));
        }
        let caller = caller.clone();
        self.read("job", move |view| snapshot::visible(view, &caller, id)).await
    }

    /// The job once it is final, or as it is when `timeout` is over.
    pub async fn wait(
        &self,
        caller: &Caller,
        id: JobId,
        timeout: Duration,
    ) -> Result<Option<Snapshot>, StoreError> {
        ask_server!(self.wait(id, timeout));
        let patience = WaitLimit::for_duration(timeout);
        // The news that the last wait was for, if it ended without any.
        let mut unheard: Option<Listener> = None;
        let mut has_looked = false;
        loop {
            let mut ends = self.env.wakeups.ends();
            let asking = caller.clone();
            let look = move |view: &mut ReadTx<'_>| snapshot::get_or_expect(view, &asking, id);
            let (found, is_expected) = match self.read::<_, StoreError>("wait", look).await {
                // A caller that waits for thousands of jobs looks at all of them at every news: those that find no place wait on.
                Err(StoreError::TooManyReads { .. }) if has_looked && !patience.is_over() => {
                    patience.wait_for(ends.news(), self.env.timing.backstop_every).await;
                    continue;
                }
                looked => looked?,
            };
            has_looked = true;
            let is_settled = found.as_ref().map_or(!is_expected, |found| found.job.state.is_final());
            if patience.is_over() || is_settled {
                let ended_at = found.as_ref().and_then(|found| found.job.completed_at);
                if unheard.is_some_and(|ends| !ends.has_news())
                    && ended_at.is_some_and(|at| self.env.clock.now().since(at) >= limits::NOTICE_MAX)
                {
                    self.env.meters.fell_back(Fallback::End);
                }
                return Ok(found);
            }
            let has_news = patience.wait_for(ends.news(), self.env.timing.backstop_every).await;
            unheard = (!has_news).then_some(ends);
        }
    }

    /// Runs a command inside the next commit.
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
        self.engine(verb)?.write(task);
        let span = tracing::debug_span!("store", otel.name = format!("store {verb}"));
        answer.wait().instrument(span).await
    }

    /// Returns once the store has answered a look, the least there is; never behind long looks of others.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.read("ready", |view: &mut ReadTx<'_>| view.config().map(drop)).await
    }

    /// Asks a question of a snapshot.
    pub(crate) async fn read<T, E>(
        &self,
        verb: &'static str,
        work: impl FnMut(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        // Proving is the one question that looks at everything.
        let is_long = verb.starts_with("verify");
        let deadline = (!is_long).then(|| Deadline::for_call(self.env.timing.request_max));
        // Cancelled when the caller stops waiting, which drops the guard.
        let asker = CancellationToken::new();
        let _leaves = asker.clone().drop_guard();
        let (task, answer) = Query::with_answer(deadline, asker, ReadSource::current(), work);
        let engine = self.engine(verb)?;
        if URGENT_LOOKS.contains(&verb) {
            engine.read_urgent(task);
        } else {
            engine.read(task);
        }
        let span = tracing::trace_span!("store", verb);
        answer.wait().instrument(span).await
    }
}

/// Looks that a probe, a request's key or a page's frame waits for: they never wait behind long ones.
const URGENT_LOOKS: [&str; 3] = ["ready", "keys", "config"];

fn closed_error() -> StoreError {
    StoreError::Stopped("the store was closed".into())
}
