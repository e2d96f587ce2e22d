//! Actions on jobs at a server: submit, act, redrive, delete, signal, and the same in bulk.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_api::filter::JobFilter;
use windlass_api::job::{ActedJob, Job, SubmittedJob, SubmittedJobs};
use windlass_api::submission::{Batch, Submission};
use windlass_api::time::Span;

use super::Remote;
use super::client::{Call, encoded, entity_tags};
use super::error::{RemoteError, not_json};
use crate::error::{ActError, FieldProblem, Invalid, SubmitError};
use crate::job::{JobId, JobRecord, NewJob};
use crate::store::command::actions::{ActionReport, ActionRequest, Patch, Suspend};
use crate::store::command::attempt_writes::check_step;
use crate::store::command::bulk::{BulkAction, BulkReport};
use crate::store::command::precondition::{ActOptions, IfMatch};
use crate::store::command::redrive::Redrive;
use crate::store::command::submit::{Receipt, SubmitOptions};
use crate::store::filter::Filter;

#[derive(Serialize)]
struct SignalBody<'a> {
    value: &'a RawValue,
}

#[derive(Deserialize)]
struct Done {
    matched: u64,
    changed: u64,
    #[serde(default)]
    skipped: u64,
}

fn receipt(shown: SubmittedJob) -> Receipt {
    let SubmittedJob { job, duplicate, payload_differs, deleted, debounced } = shown;
    Receipt {
        job: job.into(),
        is_duplicate: duplicate,
        payload_differs,
        is_deleted: deleted,
        is_debounced: debounced,
    }
}

impl Remote {
    /// Submits jobs. A submission whose answer is lost is repeated only if every job has an idempotency key: then the
    /// repetition finds the stored jobs and creates no duplicates.
    pub(crate) async fn submit(
        &self,
        jobs: Vec<NewJob>,
        options: SubmitOptions,
    ) -> Result<Vec<Receipt>, SubmitError> {
        for (index, job) in jobs.iter().enumerate() {
            job.check().map_err(|invalid| SubmitError::Invalid { index, invalid })?;
        }
        let call = match &jobs[..] {
            [] => return Ok(Vec::new()),
            [job] => Call::post("/jobs").json(&Submission::from(job)),
            jobs => {
                Call::post("/jobs/batch").json(&Batch { jobs: jobs.iter().map(Submission::from).collect() })
            }
        };
        let call = call.repeatable(jobs.iter().all(|job| job.idempotency_key.is_some()));
        let call = if options.strict { call.query("strict", "true") } else { call };
        let shown = if jobs.len() == 1 {
            self.client.ask(call).await.map(|shown| vec![shown])
        } else {
            self.client.ask(call).await.map(|submitted: SubmittedJobs| submitted.jobs)
        };
        let shown = shown.map_err(RemoteError::into_submit)?;
        if shown.len() != jobs.len() {
            let message = format!("it answers {} submissions with {} jobs", jobs.len(), shown.len());
            return Err(crate::error::StoreError::Unreachable(message).into());
        }
        Ok(shown.into_iter().map(receipt).collect())
    }

    pub(crate) async fn act(
        &self,
        id: JobId,
        act: ActionRequest,
        options: ActOptions,
    ) -> Result<ActionReport, ActError> {
        let call = to_call(id, &act).if_match(entity_tags(&options.if_match));
        // Only these two have a strict variant.
        let has_strict_form = matches!(act, ActionRequest::Suspend(_) | ActionRequest::Resume { .. });
        let call = if options.strict && has_strict_form { call.query("strict", "true") } else { call };
        let shown: ActedJob =
            self.client.ask(call).await.map_err(|error| error.into_act(ActError::NotFound(id)))?;
        Ok(ActionReport { job: shown.job.into(), is_changed: shown.changed })
    }

    pub(crate) async fn redrive(
        &self,
        id: JobId,
        how: Redrive,
        if_match: IfMatch,
    ) -> Result<JobRecord, ActError> {
        let body = json!({"reset_checkpoints": how.reset_checkpoints, "only_once": how.only_once});
        let call = Call::post(format!("/jobs/{id}/redrive")).json(&body).if_match(entity_tags(&if_match));
        let shown: Job =
            self.client.ask(call).await.map_err(|error| error.into_act(ActError::NotFound(id)))?;
        Ok(shown.into())
    }

    pub(crate) async fn delete(&self, id: JobId, if_match: IfMatch) -> Result<(), ActError> {
        let done =
            self.client.done(Call::delete(format!("/jobs/{id}")).if_match(entity_tags(&if_match))).await;
        done.map(drop).map_err(|error| error.into_act(ActError::NotFound(id)))
    }

    /// Sends a signal; the job is then read, because the server does not return it.
    pub(crate) async fn signal(&self, id: JobId, name: &str, value: Vec<u8>) -> Result<JobRecord, ActError> {
        check_step("name", name)?;
        let value: &RawValue = serde_json::from_slice(&value).map_err(|_| not_json("value"))?;
        let call = Call::post(format!("/jobs/{id}/signals/{}", encoded(name))).json(&SignalBody { value });
        self.client.done(call).await.map_err(|error| error.into_act(ActError::NotFound(id)))?;
        Ok(self.get(id).await?.ok_or(ActError::NotFound(id))?.job)
    }

    pub(crate) async fn bulk(&self, chosen: &Filter, action: BulkAction) -> Result<BulkReport, ActError> {
        let mut body = bulk_body(&action)?;
        body.insert("filter".into(), json!(JobFilter::try_from(chosen)?));
        self.bulk_with(body).await
    }

    pub(crate) async fn bulk_dry_run(&self, chosen: &Filter) -> Result<u64, ActError> {
        let mut body = Map::new();
        body.insert("action".into(), "cancel".into());
        body.insert("dry_run".into(), true.into());
        body.insert("filter".into(), json!(JobFilter::try_from(chosen)?));
        Ok(self.bulk_with(body).await?.matched)
    }

    async fn bulk_with(&self, body: Map<String, Value>) -> Result<BulkReport, ActError> {
        let call = Call::post("/jobs/bulk").json(&body).waiting(crate::limits::SERVER_BULK_MAX);
        let missing =
            || Invalid::new("filter", FieldProblem::Contradiction("is not known to this server".into()));
        let done: Done = self.client.ask(call).await.map_err(|error| error.into_act(missing().into()))?;
        Ok(BulkReport { matched: done.matched, changed: done.changed, skipped: done.skipped })
    }
}

fn to_call(id: JobId, act: &ActionRequest) -> Call {
    let post = |verb: &str, body: Value| Call::post(format!("/jobs/{id}/{verb}")).json(&body);
    match act {
        ActionRequest::Submit => post("submit", json!({})),
        ActionRequest::Suspend(Suspend { mode, reason, expires }) => {
            post("suspend", given(json!({"mode": mode, "reason": reason, "expires": expires.map(Span)})))
        }
        ActionRequest::Resume { reason } => post("resume", given(json!({"reason": reason}))),
        ActionRequest::Cancel { reason } => post("cancel", given(json!({"reason": reason}))),
        ActionRequest::Priority(priority) => post("priority", json!({"value": priority})),
        ActionRequest::Patch(patch) => Call::patch(format!("/jobs/{id}")).json(&patch_body(patch)),
    }
}

/// A body without its null fields: they mean that nothing is set.
pub(super) fn given(body: Value) -> Value {
    match body {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

fn patch_body(patch: &Patch) -> Map<String, Value> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    set("priority", patch.priority.map(|priority| json!(priority)));
    set("tags", patch.tags.as_ref().map(|tags| json!(tags)));
    set("correlation_id", patch.correlation_id.as_ref().map(|id| json!(id)));
    set("callback_url", patch.callback_url.as_ref().map(|url| json!(url)));
    body
}

fn bulk_body(action: &BulkAction) -> Result<Map<String, Value>, ActError> {
    let unknown = |what: &str| {
        let problem =
            FieldProblem::Contradiction(format!("{what} in bulk is not supported on a remote store"));
        ActError::Invalid(Invalid::new("action", problem))
    };
    let body = match action {
        BulkAction::Act(ActionRequest::Suspend(Suspend { mode, reason, expires: None })) => {
            json!({"action": "suspend", "mode": mode, "reason": reason})
        }
        BulkAction::Act(ActionRequest::Resume { reason }) => json!({"action": "resume", "reason": reason}),
        BulkAction::Act(ActionRequest::Cancel { reason }) => json!({"action": "cancel", "reason": reason}),
        BulkAction::Act(ActionRequest::Priority(priority)) => {
            json!({"action": "priority", "value": priority})
        }
        BulkAction::Redrive(Redrive { reset_checkpoints: false, only_once: false }) => {
            json!({"action": "redrive"})
        }
        BulkAction::Delete => json!({"action": "delete"}),
        BulkAction::Act(ActionRequest::Suspend(_)) => return Err(unknown("suspending for a time")),
        BulkAction::Act(ActionRequest::Submit) => return Err(unknown("submitting held jobs")),
        BulkAction::Act(ActionRequest::Patch(_)) => return Err(unknown("changing labels")),
        BulkAction::Redrive(_) => return Err(unknown("redriving from the first step, or only once")),
    };
    match given(body) {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}
