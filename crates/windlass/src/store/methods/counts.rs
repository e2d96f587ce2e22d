//! Queues, types and tenants as they are now: names, depths, rates and costs.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::QueueName;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::documents::error_stats::ErrorStats;
use crate::store::query::history::{self, History, HistoryRequest};
use crate::store::query::known::{self, KnownNames, ObjectName};
use crate::store::query::list::{self, WorkerLoad};
use crate::store::query::queues::{self, QueueInfo};
use crate::store::query::stats::{self, Stats};
use crate::store::query::types::{self, TypeInfo};

impl Store {
    /// Information about a queue that this caller can see; an unused queue is empty.
    pub async fn queue(&self, caller: &Caller, queue: QueueName) -> Result<QueueInfo, StoreError> {
        self.read_for(caller, "queue", move |tx, caller| queues::queue(tx, caller, &queue)).await
    }

    /// Information about every queue that has jobs, settings or a pause, by name.
    pub async fn queues(&self, caller: &Caller) -> Result<Vec<QueueInfo>, StoreError> {
        self.read_for(caller, "queues", move |tx, caller| queues::queues(tx, caller, None, usize::MAX)).await
    }

    /// The first `limit` of them by name after `after`.
    pub async fn queues_after(
        &self,
        caller: &Caller,
        after: Option<QueueName>,
        limit: usize,
    ) -> Result<Vec<QueueInfo>, StoreError> {
        self.read_for(caller, "queues", move |tx, caller| queues::queues(tx, caller, after.as_ref(), limit))
            .await
    }

    /// Whether anything that this caller can see has ever used a name, and similar names.
    pub async fn known(&self, caller: &Caller, named: ObjectName) -> Result<KnownNames, StoreError> {
        self.read_for(caller, "known", move |tx, caller| known::known(tx, caller, &named)).await
    }

    /// Information about every type that has jobs, settings or a pause and that this caller can see, by name.
    pub async fn job_types(&self, caller: &Caller) -> Result<Vec<TypeInfo>, StoreError> {
        self.read_for(caller, "job_types", types::job_types).await
    }

    /// How many jobs each worker runs, as far as this caller can see; scans the newest `max` running jobs.
    pub async fn busy(&self, caller: &Caller, max: usize) -> Result<WorkerLoad, StoreError> {
        self.read_for(caller, "busy", move |tx, caller| list::busy(tx, caller, max)).await
    }

    /// Counts, rates and costs of everything this caller can see.
    pub async fn stats(&self, caller: &Caller) -> Result<Stats, StoreError> {
        self.read_for(caller, "stats", stats::stats).await
    }

    /// The errors of everything this caller can see, by fingerprint: those that were seen last, at most
    /// [`limits::ERRORS_KEPT`](crate::limits::ERRORS_KEPT). They include jobs that were retried, deleted or pruned since.
    pub async fn errors(&self, caller: &Caller) -> Result<BTreeMap<String, ErrorStats>, StoreError> {
        self.read_for(caller, "errors", history::errors).await
    }

    /// Only counts and costs of [`Store::stats`]; `minutes` stays empty.
    pub async fn totals(&self, caller: &Caller) -> Result<Stats, StoreError> {
        self.read_for(caller, "totals", stats::totals).await
    }

    /// Statistics over time of everything, a queue or a type, as far as this caller can see it.
    pub async fn history(&self, caller: &Caller, wanted: HistoryRequest) -> Result<History, StoreError> {
        self.read_for(caller, "history", move |tx, caller| history::history(tx, caller, &wanted)).await
    }

    /// When the longest waiting job of a queue became claimable.
    pub async fn oldest_ready(
        &self,
        caller: &Caller,
        queue: QueueName,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.read_for(caller, "oldest_ready", move |tx, caller| stats::oldest_ready(tx, caller, &queue)).await
    }

    /// The number of changes whose consequences are not applied to all jobs yet; see [`Store::stats`].
    pub async fn cascades(&self, caller: &Caller) -> Result<u64, StoreError> {
        self.read_for(caller, "cascades", stats::cascades).await
    }
}
