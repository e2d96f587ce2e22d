//! Queries about jobs at a server: one job, pages of jobs, and job data.

use std::collections::HashMap;
use std::time::Duration;

use windlass_api::filter::ListQuery;
use windlass_api::job::{Job, JobPage};
use windlass_api::job_details::{
    self as shown, Attempts, Checkpoints, Children, Edge, Graph, Logs, Node, Reasons,
};
use windlass_api::record;
use windlass_api::stream;
use windlass_api::time::Span;

use super::Remote;
use super::client::Call;
use super::record::{bytes, sketch};
use crate::audit::{AuditEvent, Record};
use crate::clock::WaitLimit;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Need};
use crate::limits;
use crate::store::command::attempt_writes::LogLine;
use crate::store::command::claim::Checkpoint;
use crate::store::engine::RecordQuery;
use crate::store::query::audit::RecordPage;
use crate::store::query::explain::Reason;
use crate::store::query::job_details::{Attempt, Group, JobResult, Neighbours};
use crate::store::query::list::{ListRequest, Page};
use crate::store::query::snapshot::Snapshot;
use crate::store::query::stream::StreamPage;
use crate::store::wire::job_details::{add_child, stored_attempt, stored_log_line};

impl Remote {
    pub(crate) async fn get(&self, id: JobId) -> Result<Option<Snapshot>, StoreError> {
        let call = Call::get(format!("/jobs/{id}")).query("payload", "true");
        Ok(self.client.find::<Job>(call).await?.map(Snapshot::from))
    }

    /// Waits at the server, for as long as one request may, repeatedly.
    pub(crate) async fn wait(&self, id: JobId, timeout: Duration) -> Result<Option<Snapshot>, StoreError> {
        let wait_limit = WaitLimit::for_duration(timeout);
        loop {
            let wait = wait_limit.left().min(limits::SERVER_WAIT_MAX);
            let call = Call::get(format!("/jobs/{id}")).query("payload", "true").waiting(wait);
            let call = if wait.is_zero() { call } else { call.query("wait", Span(wait).to_string()) };
            let found = self.client.find::<Job>(call).await?.map(Snapshot::from);
            if wait_limit.is_over() || found.as_ref().is_none_or(|found| found.job.state.is_final()) {
                return Ok(found);
            }
        }
    }

    pub(crate) async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let query =
            ListQuery::try_from(&request).map_err(|invalid| StoreError::Database(invalid.to_string()))?;
        let page: JobPage = self.client.ask(Call::get("/jobs").queries(&query)).await?;
        let next = page.next_cursor.map(|cursor| cursor.parse()).transpose();
        let next =
            next.map_err(|problem: crate::error::FieldProblem| StoreError::Unreachable(problem.to_string()))?;
        Ok(Page { jobs: page.jobs.into_iter().map(Snapshot::from).collect(), next })
    }

    async fn side<T: serde::de::DeserializeOwned>(
        &self,
        id: JobId,
        what: &str,
    ) -> Result<Option<T>, StoreError> {
        self.client.find(Call::get(format!("/jobs/{id}/{what}"))).await
    }

    pub(crate) async fn explain(&self, id: JobId) -> Result<Option<Vec<Reason>>, StoreError> {
        let found: Option<Reasons> = self.side(id, "explain").await?;
        Ok(found.map(|found| found.reasons.into_iter().map(Reason::from).collect()))
    }

    pub(crate) async fn attempts(&self, id: JobId) -> Result<Option<Vec<Attempt>>, StoreError> {
        let found: Option<Attempts> = self.side(id, "attempts").await?;
        Ok(found.map(|found| found.attempts.into_iter().map(|attempt| stored_attempt(attempt, id)).collect()))
    }

    pub(crate) async fn checkpoints(&self, id: JobId) -> Result<Option<Vec<Checkpoint>>, StoreError> {
        let found: Option<Checkpoints> = self.side(id, "checkpoints").await?;
        Ok(found.map(|found| found.checkpoints.into_iter().map(Checkpoint::from).collect()))
    }

    pub(crate) async fn logs(
        &self,
        id: JobId,
        after: u64,
    ) -> Result<Option<Vec<(u64, LogLine)>>, StoreError> {
        let call = Call::get(format!("/jobs/{id}/logs")).query("after", after.to_string());
        let found: Option<Logs> = self.client.find(call).await?;
        Ok(found.map(|found| found.logs.into_iter().map(stored_log_line).collect()))
    }

    /// Waits at the server for as long as one request may.
    pub(crate) async fn stream(
        &self,
        id: JobId,
        after: u64,
        limit: usize,
        wait: Duration,
    ) -> Result<Option<StreamPage>, StoreError> {
        let wait = wait.min(limits::SERVER_WAIT_MAX);
        let call = Call::get(format!("/jobs/{id}/stream")).query("after", after.to_string());
        let call =
            call.query("limit", limit.clamp(1, limits::STREAM_PAGE_CHUNKS_MAX).to_string()).waiting(wait);
        let call = if wait.is_zero() { call } else { call.query("wait", Span(wait).to_string()) };
        Ok(self.client.find::<stream::StreamPage>(call).await?.map(StreamPage::from))
    }

    pub(crate) async fn result(&self, id: JobId) -> Result<Option<JobResult>, StoreError> {
        let found: Option<shown::JobResult> = self.side(id, "result").await?;
        Ok(found.map(|found| JobResult(bytes(found.result))))
    }

    pub(crate) async fn groups(&self, id: JobId) -> Result<Option<Vec<Group>>, StoreError> {
        self.groups_named(id, None).await
    }

    pub(crate) async fn group(&self, id: JobId, name: &str) -> Result<Option<Group>, StoreError> {
        Ok(self.groups_named(id, Some(name)).await?.unwrap_or_default().pop())
    }

    async fn groups_named(&self, id: JobId, name: Option<&str>) -> Result<Option<Vec<Group>>, StoreError> {
        let mut groups: Vec<Group> = Vec::new();
        let (now, mut cursor) = (self.now(), None::<String>);
        loop {
            let call = Call::get(format!("/jobs/{id}/children"))
                .query("limit", limits::CHILD_PAGE_MAX.to_string())
                .query_if("group", name)
                .query_if("cursor", cursor.as_deref());
            let found: Option<Children> = self.client.find(call).await?;
            let Some(found) = found else { return Ok(None) };
            if cursor.is_none() {
                groups = found.groups.into_iter().map(Group::from).collect();
            }
            for child in found.children {
                if let Some(group) = groups.iter_mut().find(|group| group.number == child.group) {
                    add_child(group, id, child, now);
                }
            }
            cursor = found.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Some(groups))
    }

    /// The neighbours in the graph that the server returns for the job.
    pub(crate) async fn neighbours(&self, id: JobId) -> Result<Option<Neighbours>, StoreError> {
        let Some(graph) = self.side::<Graph>(id, "graph").await? else { return Ok(None) };
        let now = self.now();
        let sketched = |node: Node| (node.id.0, sketch(node.id.0, node.r#type.0, node.state.0, now));
        let jobs: HashMap<JobId, JobRecord> = graph.nodes.into_iter().map(sketched).collect();
        let mut found = Neighbours::default();
        for Edge { from, to, need } in graph.edges {
            let (from, to) = (from.0, to.0);
            let need = if need == Need::After.as_str() { Need::After } else { Need::AfterAny };
            if let Some(job) = jobs.get(&from).filter(|_| to == id) {
                found.dependencies.push((need, job.clone()));
            }
            if let Some(job) = jobs.get(&to).filter(|_| from == id) {
                found.dependents.push((need, job.clone()));
            }
        }
        Ok(Some(found))
    }

    pub(crate) async fn audit_page(&self, query: RecordQuery) -> Result<RecordPage, StoreError> {
        let limit = query.limit.clamp(1, limits::PAGE_RECORDS_MAX);
        let call = Call::get("/audit")
            .query("limit", limit.to_string())
            .query_if("cursor", (query.after > 0).then(|| query.after.to_string()))
            .query_if("job", query.job.map(|id| id.to_string()))
            .query_if("event", query.event.map(AuditEvent::as_str))
            .query_if("actor", query.actor)
            .query_if("tenant", query.tenant.map(|tenant| tenant.to_string()))
            .query_if("queue", query.queue.map(|queue| queue.to_string()))
            .query_if("type", query.job_type.map(|job_type| job_type.to_string()))
            .query_if("since", query.since.map(|at| at.to_string()))
            .query_if("until", query.until.map(|at| at.to_string()));
        let page: record::RecordPage = self.client.ask(call).await?;
        // A server supports neither of these.
        let fits = |record: &Record| {
            query.before.is_none_or(|before| record.seq < before)
                && query.actor_type.as_ref().is_none_or(|kind| record.actor_type == *kind)
        };
        let next = page.next_cursor.and_then(|cursor| cursor.parse().ok());
        let next = next.filter(|next: &u64| query.before.is_none_or(|before| next + 1 < before));
        Ok(RecordPage { records: page.records.into_iter().map(Record::from).filter(fits).collect(), next })
    }
}
