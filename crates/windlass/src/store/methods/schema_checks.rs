//! Comparing payloads and results with schemas before their transaction, on a thread that may take its time.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::clock::Deadline;
use crate::error::StoreError;
use crate::job::{JobId, JobType, NewJob, Payload};
use crate::settings::JobSchema;
use crate::settings::patch::{Field, SettingsPatch};
use crate::store::Store;
use crate::store::caller::{Caller, Permission};
use crate::store::command::finish::{Outcome, Report};
use crate::store::command::redrive::Redrive;
use crate::store::command::schema_checks::{PendingCheck, SchemaChecks, SchemaKind, address};
use crate::store::tx::read_tx::ReadTx;

impl Store {
    /// Compares the payloads of jobs with the schemas of their types, as far as these are known.
    pub(in crate::store) async fn check_payloads(&self, jobs: &[NewJob]) -> Result<SchemaChecks, StoreError> {
        self.check_all(jobs.iter().filter_map(|job| self.wanted(job)).collect()).await
    }

    /// Compares the results and the payloads of follow-ups.
    pub(in crate::store) async fn check_reports(
        &self,
        caller: &Caller,
        reports: &[Report],
    ) -> Result<SchemaChecks, StoreError> {
        let follow_ups = reports.iter().flat_map(|report| &report.follow_ups);
        let mut wanted: Vec<PendingCheck> = follow_ups.filter_map(|job| self.wanted(job)).collect();
        if self.env.schemas.has_any(SchemaKind::Result) {
            wanted.extend(self.wanted_results(caller, reports).await);
        }
        self.check_all(wanted).await
    }

    fn wanted(&self, job: &NewJob) -> Option<PendingCheck> {
        if *job.payload.content_type != *Payload::JSON {
            return None;
        }
        let (job_type, json) = (&job.job_type, job.payload.bytes.clone());
        let schema = self.env.schemas.get(job_type, SchemaKind::Payload)?;
        let address = address(&json);
        Some(PendingCheck { job_type: job_type.clone(), place: SchemaKind::Payload, schema, address, json })
    }

    /// The results of jobs whose types have schemas. The type of a job never changes, so it is read beforehand.
    async fn wanted_results(&self, caller: &Caller, reports: &[Report]) -> Vec<PendingCheck> {
        let results = reports.iter().filter_map(|report| match &report.outcome {
            Outcome::Completed { result: Some(result) } => Some((report.job, result.as_slice())),
            _ => None,
        });
        let results: Vec<(JobId, &[u8])> = results.collect();
        if results.is_empty() {
            return Vec::new();
        }
        let ids: Vec<JobId> = results.iter().map(|(id, _)| *id).collect();
        // What is not compared now is compared in the transaction.
        let Ok(types) = self.types_of(caller, ids).await else { return Vec::new() };
        let wanted = |(id, json): (JobId, &[u8])| {
            let job_type: &JobType = types.get(&id)?;
            let schema = self.env.schemas.get(job_type, SchemaKind::Result)?;
            let (job_type, address) = (job_type.clone(), address(json));
            Some(PendingCheck { job_type, place: SchemaKind::Result, schema, address, json: Arc::from(json) })
        };
        results.into_iter().filter_map(wanted).collect()
    }

    /// The types of jobs that this caller can see.
    async fn types_of(
        &self,
        caller: &Caller,
        ids: Vec<JobId>,
    ) -> Result<HashMap<JobId, JobType>, StoreError> {
        self.read_for(caller, "types_of", move |tx: &mut ReadTx<'_>, caller| {
            let found = tx.db.find(&ids)?.into_iter().flatten();
            let seen = found.filter(|job| caller.can_see(&job.lane.tenant));
            Ok(seen.map(|job| (job.id, job.lane.job_type.clone())).collect())
        })
        .await
    }

    /// Compares the new payload of a job that is retried.
    pub(in crate::store) async fn check_redrive(
        &self,
        caller: &Caller,
        id: JobId,
        how: &Redrive,
    ) -> Result<SchemaChecks, StoreError> {
        let is_json = |payload: &&Payload| *payload.content_type == *Payload::JSON;
        let payload = how.payload.as_ref().filter(is_json);
        let Some(payload) = payload.filter(|_| self.env.schemas.has_any(SchemaKind::Payload)) else {
            return Ok(SchemaChecks::default());
        };
        let mut types = self.types_of(caller, vec![id]).await?;
        let wanted = types.remove(&id).and_then(|job_type| {
            let schema = self.env.schemas.get(&job_type, SchemaKind::Payload)?;
            let (json, address) = (payload.bytes.clone(), address(&payload.bytes));
            Some(PendingCheck { job_type, place: SchemaKind::Payload, schema, address, json })
        });
        self.check_all(wanted.into_iter().collect()).await
    }

    async fn check_all(&self, wanted: Vec<PendingCheck>) -> Result<SchemaChecks, StoreError> {
        if wanted.is_empty() {
            return Ok(SchemaChecks::default());
        }
        let turn = self.turn().await?;
        // It continues if its caller disconnects, and so does its turn.
        let compare = move || {
            let checks = SchemaChecks::before(wanted);
            drop(turn);
            checks
        };
        Ok(tokio::task::spawn_blocking(compare).await.unwrap_or_default())
    }

    /// Waits for a turn, as long as a call may take.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let late = Deadline::for_call(self.env.timing.request_max).passed();
        let busy = "many payloads are compared with schemas; nothing was changed";
        tokio::select! {
            biased;
            turn = self.env.schemas.turns.clone().acquire_owned() => turn.map_err(|_| StoreError::Closed),
            () = late => Err(StoreError::Unavailable(busy.to_owned())),
        }
    }

    /// Compiles the schemas of new settings, so that the transaction finds them compiled, or why they cannot be.
    pub(in crate::store) async fn compile_schemas(
        &self,
        caller: &Caller,
        patch: &SettingsPatch,
    ) -> Result<(), StoreError> {
        let SettingsPatch::Type(_, patch) = patch else { return Ok(()) };
        let schemas =
            [&patch.payload_schema, &patch.result_schema].into_iter().filter_map(|field| match field {
                Field::Set(schema) => Some(schema.clone()),
                _ => None,
            });
        let schemas: Vec<JobSchema> = schemas.collect();
        if schemas.is_empty() || caller.require(Permission::Administer).is_err() {
            return Ok(());
        }
        let turn = self.turn().await?;
        // The transaction reports what is wrong.
        let compile = move || {
            for schema in &schemas {
                let _refused = schema.check("schema");
            }
            drop(turn);
        };
        let _done = tokio::task::spawn_blocking(compile).await;
        Ok(())
    }
}
