//! What users hold: one handle to submit typed jobs, look at them and act on them. It adds types and builders to a
//! [`Store`], and nothing else; every rule is the store's.

mod batch;
mod builder;
mod handle;
mod pauses;
mod schedule;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use batch::{Batch, BatchNode, Chain, Submitted, UnknownNode};
pub use builder::{IntoDependency, JobBuilder, Submit};
pub use handle::{Handle, JobHandle, ResultError};
pub use pauses::ActionResult;
pub use schedule::{ScheduleBuilder, ScheduleHandle, Trigger};

pub use crate::schedule::{CatchUp, Overlap};
pub use crate::store::command::actions::{Patch, Suspend};
pub use crate::store::command::pause::Pause;
pub use crate::store::command::redrive::Redrive;
pub use crate::store::documents::schedules::PauseSchedule;

use crate::error::{OpenError, SubmitError};
use crate::job::{JobId, Priority, RetryPolicy};
use crate::maintenance;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::submit::SubmitOptions;
use crate::store::environment::StoreOptions;

/// A kind of work: its data is the payload, its type name decides which handler runs it.
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name under which its jobs are stored; changing it orphans those that wait.
    const TYPE: &'static str;
    /// What its handler returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// What every job of this kind asks for unless its submission says otherwise.
    fn defaults() -> JobDefaults {
        JobDefaults::default()
    }
}

/// What every job of a kind asks for; what is not set follows the store's settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobDefaults {
    /// Where it waits.
    pub queue: Option<&'static str>,
    /// How urgent it is.
    pub priority: Option<Priority>,
    /// When and how often it is tried again.
    pub retry: Option<RetryPolicy>,
    /// Longest attempt.
    pub timeout: Option<std::time::Duration>,
}

/// A durable queue of jobs; cheap to clone, every clone is the same queue.
#[derive(Clone)]
pub struct Client {
    store: Store,
    caller: Caller,
    /// Ends maintenance when the last clone goes.
    _maintenance: Option<Arc<DropGuard>>,
}

impl Client {
    /// Opens the queue at an address and keeps it going: `sqlite:PATH`, `memory:` for tests, or, with feature `remote`, that
    /// of a server, such as `http://127.0.0.1:7788`, which keeps it going itself (see [`Store::open`]).
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the address or with what was found there.
    pub async fn open(address: &str) -> Result<Client, OpenError> {
        Client::open_with(address, StoreOptions::default()).await
    }

    /// The same with options.
    pub async fn open_with(address: &str, options: StoreOptions) -> Result<Client, OpenError> {
        let address = address.to_owned();
        let opened = tokio::task::spawn_blocking(move || Store::open(&address, options)).await;
        let store = opened.map_err(|error| crate::error::StoreError::Database(error.to_string()))??;
        Ok(Client::from_store(store))
    }

    /// A queue over a store that is open already; keeps it going, unless a server does.
    pub fn from_store(store: Store) -> Client {
        if store.is_remote() {
            return Client::from_store_without_maintenance(store);
        }
        let stop = CancellationToken::new();
        let (kept, stopped) = (store.clone(), stop.clone());
        tokio::spawn(async move { maintenance::run(&kept, stopped.cancelled()).await });
        Client { store, caller: Caller::local(), _maintenance: Some(Arc::new(stop.drop_guard())) }
    }

    /// A queue over a store that somebody else keeps going.
    pub fn from_store_without_maintenance(store: Store) -> Client {
        Client { store, caller: Caller::local(), _maintenance: None }
    }

    /// The same queue as somebody else sees it: role, tenant and name in the audit trail. A server asks for a key instead:
    /// open another queue with that one's key; through this one every call is refused with
    /// [`StoreError::LocalOnly`](crate::error::StoreError::LocalOnly).
    #[must_use]
    pub fn as_caller(&self, caller: Caller) -> Client {
        Client { store: self.store.as_used_by(&caller), caller, ..self.clone() }
    }

    /// The store beneath.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Who this queue speaks as.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Submits a job: set what it needs, then await.
    pub fn submit<J: Job>(&self, job: impl Into<JobBuilder<J>>) -> Submit<J> {
        Submit::new(self.clone(), job.into())
    }

    /// Submits jobs of one kind, all or none; the handles are in their order.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit; nothing was stored.
    pub async fn submit_all<J: Job, D: Into<JobBuilder<J>>>(
        &self,
        jobs: impl IntoIterator<Item = D>,
    ) -> Result<Vec<Handle<J>>, SubmitError> {
        let mut new = Vec::new();
        for (index, job) in jobs.into_iter().enumerate() {
            let builder: JobBuilder<J> = job.into();
            new.push(builder.into_new().map_err(|invalid| SubmitError::Invalid { index, invalid })?);
        }
        let receipts = self.store.submit(&self.caller, new, SubmitOptions::default()).await?;
        Ok(receipts.into_iter().map(|receipt| Handle::new(self.clone(), &receipt)).collect())
    }

    /// Submits a job within a transaction of your own on the same file: committing makes it visible and wakes a worker,
    /// rolling back leaves nothing. Begin the transaction as `Immediate`.
    ///
    /// # Errors
    /// [`SubmitError`] names field, value and limit; what else the transaction did stays.
    #[cfg(feature = "sqlite")]
    pub fn submit_in_tx<J: Job>(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        job: impl Into<JobBuilder<J>>,
    ) -> Result<Handle<J>, SubmitError> {
        let new = job.into().into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
        let options = SubmitOptions::default();
        let receipts = self.store.submit_in_tx(transaction, &self.caller, &[new], options)?;
        Ok(Handle::new(self.clone(), &receipts[0]))
    }

    /// Collects jobs of any kinds that wait for each other, to be submitted as one.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// Collects jobs that run one after the other, each only if the one before completed.
    pub fn chain(&self) -> Chain {
        Chain::new(self.clone())
    }

    /// A job by its id, of a kind that the caller knows: for typed results in another process, or after a restart.
    pub fn handle<J: Job>(&self, id: JobId) -> Handle<J> {
        Handle::of(self.job(id))
    }

    /// A job by its id, whatever its kind.
    pub fn job(&self, id: JobId) -> JobHandle {
        JobHandle::new(self.clone(), id)
    }

    /// Ends all work; what was taken is finished first.
    pub fn close(&self) {
        self.store.close();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("caller", &self.caller.id).finish_non_exhaustive()
    }
}
