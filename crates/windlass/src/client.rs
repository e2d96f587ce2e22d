//! The public client: submits typed jobs, reads them and acts on them. It adds types and builders to a [`Store`]; the
//! store enforces every rule.

mod batch;
mod builder;
mod handle;
mod pauses;
mod schedule;
mod stream;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use batch::{Batch, BatchNode, Chain, SubmittedBatch, UnknownNode};
pub use builder::{IntoDependency, JobBuilder, Submit};
pub use handle::{Handle, JobHandle, ResultError};
pub use pauses::ActionResult;
pub use schedule::{ScheduleBuilder, ScheduleHandle, Trigger};
pub use stream::JobStream;

pub use crate::schedule::{CatchUp, Overlap};
pub use crate::store::command::actions::{Patch, Suspend};
pub use crate::store::command::pause::Pause;
pub use crate::store::command::redrive::Redrive;
pub use crate::store::documents::tenant_object::PauseOptions;
pub use crate::store::query::stream::StreamChunk;

use crate::api::Api;
use crate::error::{OpenError, StoreError, SubmitError};
use crate::job::{JobId, Priority, RetryPolicy};
use crate::maintenance;
#[cfg(feature = "remote")]
use crate::remote::Remote;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::submit::SubmitOptions;
use crate::store::environment::{Environment, StoreOptions};

/// A type of work: its data is the payload, and its type name selects the handler.
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The type name stored with every job. If you change it, waiting jobs no longer have a handler.
    const TYPE: &'static str;
    /// The handler's return value.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Options for every job of this type that a submission does not set.
    fn defaults() -> JobDefaults {
        JobDefaults::default()
    }
}

/// Options for every job of a type; unset options follow the store's settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobDefaults {
    /// The queue; `default` if not set.
    pub queue: Option<&'static str>,
    /// The priority.
    pub priority: Option<Priority>,
    /// When and how often to retry.
    pub retry: Option<RetryPolicy>,
    /// Longest duration of one attempt.
    pub timeout: Option<std::time::Duration>,
}

/// A connection to a job store. Cloning is cheap; all clones share the store.
#[derive(Clone)]
pub struct Client {
    api: Arc<dyn Api>,
    /// The store, if it is in this process.
    store: Option<Store>,
    caller: Caller,
    /// Stops maintenance when the last clone is dropped.
    _maintenance: Option<Arc<DropGuard>>,
}

impl Client {
    /// Opens the store at an address and starts its maintenance: `sqlite:PATH`, `postgres://…` with feature `postgres`,
    /// `memory:` for tests, or, with feature `remote`, a server such as `http://127.0.0.1:7788`, which runs the
    /// maintenance itself.
    ///
    /// A server is contacted on the first call. Its API key comes from the options, else from the part before an `@` in
    /// the address, else from the variable `WINDLASS_KEY`.
    ///
    /// # Errors
    /// [`OpenError`] if the address is invalid or the store there cannot be opened.
    pub async fn open(address: &str) -> Result<Client, OpenError> {
        Client::open_with(address, StoreOptions::default()).await
    }

    /// Like [`open`](Client::open), with options.
    pub async fn open_with(address: &str, options: StoreOptions) -> Result<Client, OpenError> {
        Client::open_in(address, Environment::system(options)).await
    }

    /// Like [`open`](Client::open), with the caller's clock and source of randomness.
    pub async fn open_in(address: &str, env: Environment) -> Result<Client, OpenError> {
        #[cfg(feature = "remote")]
        if Remote::is_at(address) {
            return Client::connect_in(address, env);
        }
        let address = address.to_owned();
        let opened = tokio::task::spawn_blocking(move || Store::open_in(&address, env)).await;
        let store = opened.map_err(|error| StoreError::Database(error.to_string()))??;
        Ok(Client::from_store(store))
    }

    /// A client for the server at an address, which is contacted on the first call (see [`open`](Client::open)).
    ///
    /// # Errors
    /// [`OpenError`] if the address is invalid.
    #[cfg(feature = "remote")]
    pub fn connect(address: &str, options: StoreOptions) -> Result<Client, OpenError> {
        Client::connect_in(address, Environment::system(options))
    }

    #[cfg(feature = "remote")]
    pub(crate) fn connect_in(address: &str, env: Environment) -> Result<Client, OpenError> {
        let api = Arc::new(Remote::open(address, env)?);
        Ok(Client { api, store: None, caller: Caller::local(), _maintenance: None })
    }

    /// A client for a store that is already open. Starts maintenance.
    pub fn from_store(store: Store) -> Client {
        let stop = CancellationToken::new();
        let (maintained, stopped) = (store.clone(), stop.clone());
        tokio::spawn(async move { maintenance::run(&maintained, stopped.cancelled()).await });
        let maintenance = Some(Arc::new(stop.drop_guard()));
        Client { _maintenance: maintenance, ..Client::from_store_without_maintenance(store) }
    }

    /// A client for a store whose maintenance runs in another place.
    pub fn from_store_without_maintenance(store: Store) -> Client {
        let api = Arc::new(store.clone());
        Client { api, store: Some(store), caller: Caller::local(), _maintenance: None }
    }

    /// A client that acts as another caller: its role, its tenant, and its name in the audit trail. At a server every
    /// call then fails with [`StoreError::OtherCaller`]: open another client with that caller's API key instead.
    #[must_use]
    pub fn as_caller(&self, caller: Caller) -> Client {
        Client { caller, ..self.clone() }
    }

    /// The verbs of the store, in this process or at a server.
    pub fn api(&self) -> &Arc<dyn Api> {
        &self.api
    }

    /// The store, if it is in this process and not at a server.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// The store, for a verb that needs the database itself.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn local(&self, verb: &'static str) -> Result<&Store, StoreError> {
        self.store().ok_or(StoreError::LocalOnly(verb))
    }

    /// The caller that this client acts as.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Submits a job: set options on the builder, then await it.
    pub fn submit<J: Job>(&self, job: impl Into<JobBuilder<J>>) -> Submit<J> {
        Submit::new(self.clone(), job.into())
    }

    /// Submits jobs of one type, all or none. The handles are in the order of the jobs.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit. Nothing was stored.
    pub async fn submit_all<J: Job, D: Into<JobBuilder<J>>>(
        &self,
        jobs: impl IntoIterator<Item = D>,
    ) -> Result<Vec<Handle<J>>, SubmitError> {
        let mut new = Vec::new();
        for (index, job) in jobs.into_iter().enumerate() {
            let builder: JobBuilder<J> = job.into();
            new.push(builder.into_new().map_err(|invalid| SubmitError::Invalid { index, invalid })?);
        }
        let receipts = self.api.submit(&self.caller, new, SubmitOptions::default()).await?;
        Ok(receipts.into_iter().map(|receipt| Handle::new(self.clone(), &receipt)).collect())
    }

    /// Submits a job in your own transaction on the same file. Committing makes the job visible and wakes a worker;
    /// rolling back discards it. Begin the transaction as `Immediate`.
    ///
    /// # Errors
    /// [`SubmitError`] names the field, value and limit. Your other changes in the transaction stay.
    #[cfg(feature = "sqlite")]
    pub fn submit_in_tx<J: Job>(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        job: impl Into<JobBuilder<J>>,
    ) -> Result<Handle<J>, SubmitError> {
        let new = job.into().into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
        let options = SubmitOptions::default();
        let receipts =
            self.local("submit_in_tx")?.submit_in_tx(transaction, &self.caller, &[new], options)?;
        Ok(Handle::new(self.clone(), &receipts[0]))
    }

    /// Starts a batch: jobs of any type that can depend on each other and are submitted together.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// Starts a chain: jobs that run in sequence, each only if the previous one completed.
    pub fn chain(&self) -> Chain {
        Chain::new(self.clone())
    }

    /// A typed handle for a job id, to read typed results in another process or after a restart.
    pub fn handle<J: Job>(&self, id: JobId) -> Handle<J> {
        Handle::from_job(self.job(id))
    }

    /// A handle for a job id of any type.
    pub fn job(&self, id: JobId) -> JobHandle {
        JobHandle::new(self.clone(), id)
    }

    /// Closes the store; requests that were accepted are finished first.
    pub fn close(&self) {
        self.api.close();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("caller", &self.caller.id).finish_non_exhaustive()
    }
}
