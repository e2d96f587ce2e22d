//! What is known of jobs: lists, reasons why they do not run, attempts, checkpoints, logs, results, children.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::StoreError;
use crate::job::JobId;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::attempt_writes::{LogLine, StepTime};
use crate::store::command::claim::{Checkpoint, ClaimedJob};
use crate::store::filter::Filter;
use crate::store::query::explain::{self, Reason};
use crate::store::query::job_details::{self, Attempt, ChildPage, ChildQuery, Group, JobResult, Neighbours};
use crate::store::query::list::{self, CountResult, ListRequest, Page};
use crate::store::query::snapshot;
use crate::store::tx::read_tx::ReadTx;

impl Store {
    /// A page of the jobs this caller can see.
    pub async fn list(&self, caller: &Caller, request: ListRequest) -> Result<Page, StoreError> {
        self.read_for(caller, "list", move |tx, caller| list::list(tx, caller, &request)).await
    }

    /// How many matching jobs this caller can see, up to `max`, within the scan limit of an interactive request.
    pub async fn count_up_to(
        &self,
        caller: &Caller,
        filter: &Filter,
        max: usize,
    ) -> Result<CountResult, StoreError> {
        let filter = filter.clone();
        self.read_for(caller, "count_up_to", move |tx, caller| list::count_up_to(tx, caller, &filter, max))
            .await
    }

    /// Every reason why a job does not run; `None` if there is no such job.
    pub async fn explain(&self, caller: &Caller, id: JobId) -> Result<Option<Vec<Reason>>, StoreError> {
        let caller = caller.clone();
        self.read("explain", move |tx| {
            let Some(job) = snapshot::visible(tx, &caller, id)? else { return Ok(None) };
            explain::all_reasons(tx, &job).map(Some)
        })
        .await
    }

    /// A job's attempts, the running one last.
    pub async fn attempts(&self, caller: &Caller, id: JobId) -> Result<Option<Vec<Attempt>>, StoreError> {
        self.read_for(caller, "attempts", move |tx, caller| job_details::attempts(tx, caller, id)).await
    }

    /// A job's checkpoints, by name.
    pub async fn checkpoints(
        &self,
        caller: &Caller,
        id: JobId,
    ) -> Result<Option<Vec<Checkpoint>>, StoreError> {
        self.read_for(caller, "checkpoints", move |tx, caller| job_details::checkpoints(tx, caller, id)).await
    }

    /// The first of a job's checkpoints by name, at most `limit`.
    pub async fn first_checkpoints(
        &self,
        caller: &Caller,
        id: JobId,
        max: usize,
    ) -> Result<Option<Vec<Checkpoint>>, StoreError> {
        self.read_for(caller, "first_checkpoints", move |tx, caller| {
            job_details::first_checkpoints(tx, caller, id, max)
        })
        .await
    }

    /// When a job's steps were saved, by name, at most `max`.
    pub async fn step_times(
        &self,
        caller: &Caller,
        id: JobId,
        max: usize,
    ) -> Result<Option<Vec<(String, StepTime)>>, StoreError> {
        self.read_for(caller, "step_times", move |tx, caller| job_details::step_times(tx, caller, id, max))
            .await
    }

    /// A job's log lines with a number greater than `after`.
    pub async fn logs(
        &self,
        caller: &Caller,
        id: JobId,
        after: u64,
    ) -> Result<Option<Vec<(u64, LogLine)>>, StoreError> {
        self.read_for(caller, "logs", move |tx, caller| job_details::logs(tx, caller, id, after)).await
    }

    /// A job's result; `None` if there is no such job.
    pub async fn result(&self, caller: &Caller, id: JobId) -> Result<Option<JobResult>, StoreError> {
        self.read_for(caller, "result", move |tx, caller| job_details::result(tx, caller, id)).await
    }

    /// The results of several jobs as JSON, with few queries. Results are left out once the total size exceeds
    /// `bytes_max`, and if the caller may not read them.
    pub async fn results(
        &self,
        caller: &Caller,
        ids: Vec<JobId>,
        bytes_max: usize,
    ) -> Result<BTreeMap<JobId, Arc<[u8]>>, StoreError> {
        self.read_for(caller, "results", move |tx, caller| job_details::results(tx, caller, &ids, bytes_max))
            .await
    }

    /// A job's groups of children, each child with its result, in input order.
    pub async fn groups(&self, caller: &Caller, id: JobId) -> Result<Option<Vec<Group>>, StoreError> {
        self.read_for(caller, "groups", move |tx, caller| job_details::groups(tx, caller, id, None)).await
    }

    /// One of a job's groups of children, with its children.
    pub async fn group(&self, caller: &Caller, id: JobId, name: &str) -> Result<Option<Group>, StoreError> {
        let groups = self.groups_named(caller, id, name).await?;
        Ok(groups.unwrap_or_default().pop())
    }

    /// The groups with this name: one or none; `None` if the job does not exist.
    pub async fn groups_named(
        &self,
        caller: &Caller,
        id: JobId,
        name: &str,
    ) -> Result<Option<Vec<Group>>, StoreError> {
        let name = name.to_owned();
        self.read_for(caller, "groups", move |tx, caller| job_details::groups(tx, caller, id, Some(&name)))
            .await
    }

    /// A page of a job's children, each with its result; `None` if there is no such job.
    pub async fn child_page(
        &self,
        caller: &Caller,
        id: JobId,
        query: ChildQuery,
    ) -> Result<Option<ChildPage>, StoreError> {
        self.read_for(caller, "child_page", move |tx, caller| job_details::child_page(tx, caller, id, &query))
            .await
    }

    /// Adds the decided groups of children to claimed jobs, with as many children as one answer takes.
    pub async fn add_decided_groups(
        &self,
        caller: &Caller,
        jobs: &mut [ClaimedJob],
    ) -> Result<(), StoreError> {
        let parents = jobs.iter().filter(|claimed| claimed.job.details.groups > 0);
        let ids: Vec<JobId> = parents.map(|claimed| claimed.job.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let read = move |tx: &mut ReadTx<'_>, caller: &Caller| job_details::decided_groups(tx, caller, &ids);
        let mut found = self.read_for(caller, "decided_groups", read).await?;
        for claimed in jobs {
            claimed.groups = found.remove(&claimed.job.id).unwrap_or_default();
        }
        Ok(())
    }

    /// The progress of a job's groups, without the children, of which there may be many thousands.
    pub async fn child_groups(&self, caller: &Caller, id: JobId) -> Result<Option<Vec<Group>>, StoreError> {
        self.read_for(caller, "child_groups", move |tx, caller| job_details::child_groups(tx, caller, id))
            .await
    }

    /// A job's neighbours in the dependency graph.
    pub async fn neighbours(&self, caller: &Caller, id: JobId) -> Result<Option<Neighbours>, StoreError> {
        self.read_for(caller, "neighbours", move |tx, caller| job_details::neighbours(tx, caller, id)).await
    }
}
