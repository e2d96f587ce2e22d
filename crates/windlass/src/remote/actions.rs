//! Actions on jobs at a server: submit, act, redrive, delete, signal, and the same in bulk.

use windlass_api::actions::{
    ActionResponse, BulkAnswer, BulkBody, EmptyBody, PatchBody, PriorityBody, ReasonBody, RedriveBody,
    SignalBody, SuspendBody,
};
use windlass_api::expires::Expiry;
use windlass_api::filter::JobFilter;
use windlass_api::job::{Job, SubmittedJob, SubmittedJobs};
use windlass_api::json::Json;
use windlass_api::priority::PriorityInput;
use windlass_api::submission::{Batch, Submission};
use windlass_api::tags::Tags;
use windlass_api::text::Text;
use windlass_api::time::Span;

use super::Remote;
use super::client::{Call, encoded, entity_tags};
use super::error::{RemoteError, not_json};
use crate::error::{ActionError, FieldError, FieldProblem, SubmitError};
use crate::job::{JobAction, JobId, JobRecord, NewJob};
use crate::settings::patch::Field;
use crate::store::command::actions::{ActionReport, ActionRequest, Patch, Suspend};
use crate::store::command::attempt_writes::check_step;
use crate::store::command::bulk::{BulkAction, BulkReport};
use crate::store::command::precondition::{ActionOptions, IfMatch};
use crate::store::command::redrive::Redrive;
use crate::store::command::submit::{Receipt, SubmitOptions};
use crate::store::filter::Filter;

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

    pub(crate) async fn act_with(
        &self,
        id: JobId,
        act: ActionRequest,
        options: ActionOptions,
    ) -> Result<ActionReport, ActionError> {
        // Only these two have a strict variant.
        let has_strict_form = matches!(act, ActionRequest::Suspend(_) | ActionRequest::Resume { .. });
        let call = to_call(id, act).if_match(entity_tags(&options.if_match));
        let call = if options.strict && has_strict_form { call.query("strict", "true") } else { call };
        let shown: ActionResponse<Job> =
            self.client.ask(call).await.map_err(|error| error.into_act(ActionError::NotFound(id)))?;
        Ok(ActionReport { job: shown.object.into(), is_changed: shown.changed })
    }

    pub(crate) async fn redrive_if(
        &self,
        id: JobId,
        how: Redrive,
        if_match: IfMatch,
    ) -> Result<JobRecord, ActionError> {
        let body = RedriveBody {
            reset_checkpoints: how.reset_checkpoints,
            only_once: how.only_once,
            from_step: how.from_step,
            requires_version: how.requires_version.map(Text),
            ..RedriveBody::default()
        };
        let body = body.with_payload(how.payload.as_ref());
        let call = Call::post(format!("/jobs/{id}/redrive")).json(&body).if_match(entity_tags(&if_match));
        let shown: Job =
            self.client.ask(call).await.map_err(|error| error.into_act(ActionError::NotFound(id)))?;
        Ok(shown.into())
    }

    pub(crate) async fn delete_if(&self, id: JobId, if_match: IfMatch) -> Result<(), ActionError> {
        let done =
            self.client.done(Call::delete(format!("/jobs/{id}")).if_match(entity_tags(&if_match))).await;
        done.map(drop).map_err(|error| error.into_act(ActionError::NotFound(id)))
    }

    /// Sends a signal; the job is then read, because the server does not return it.
    pub(crate) async fn signal_if(
        &self,
        id: JobId,
        name: &str,
        value: Vec<u8>,
        if_match: IfMatch,
    ) -> Result<JobRecord, ActionError> {
        check_step("name", name)?;
        let value = Some(Json::stored(&value).ok_or_else(|| not_json("value"))?);
        let call = Call::post(format!("/jobs/{id}/signals/{}", encoded(name)))
            .json(&SignalBody { value })
            .if_match(entity_tags(&if_match));
        self.client.done(call).await.map_err(|error| error.into_act(ActionError::NotFound(id)))?;
        Ok(self.get(id).await?.ok_or(ActionError::NotFound(id))?.job)
    }

    pub(crate) async fn bulk(&self, chosen: &Filter, action: BulkAction) -> Result<BulkReport, ActionError> {
        self.bulk_with(&bulk_body(action, JobFilter::try_from(chosen)?)?).await
    }

    pub(crate) async fn bulk_dry_run(&self, chosen: &Filter) -> Result<u64, ActionError> {
        let body = BulkBody::new(JobAction::Cancel, JobFilter::try_from(chosen)?);
        Ok(self.bulk_with(&BulkBody { dry_run: true, ..body }).await?.matched)
    }

    async fn bulk_with(&self, body: &BulkBody) -> Result<BulkReport, ActionError> {
        let call = Call::post("/jobs/bulk").json(body).waiting(crate::limits::SERVER_BULK_MAX);
        let missing =
            || FieldError::new("filter", FieldProblem::Contradiction("is not known to this server".into()));
        let done: BulkAnswer =
            self.client.ask(call).await.map_err(|error| error.into_act(missing().into()))?;
        Ok(BulkReport { matched: done.matched, changed: done.changed, skipped: done.skipped })
    }
}

fn to_call(id: JobId, act: ActionRequest) -> Call {
    let post = |verb: &str| Call::post(format!("/jobs/{id}/{verb}"));
    match act {
        ActionRequest::Submit => post("submit").json(&EmptyBody {}),
        ActionRequest::Suspend(Suspend { mode, reason, expires }) => {
            let expires = expires.map(|time| Expiry::After(Span(time)));
            post("suspend").json(&SuspendBody { reason, mode: Some(mode.into()), expires })
        }
        ActionRequest::Resume { reason } => post("resume").json(&ReasonBody { reason }),
        ActionRequest::Cancel { reason } => post("cancel").json(&ReasonBody { reason }),
        ActionRequest::Priority(value) => {
            post("priority").json(&PriorityBody { value: PriorityInput(value) })
        }
        ActionRequest::Patch(patch) => Call::patch(format!("/jobs/{id}")).json(&patch_body(patch)),
    }
}

fn patch_body(patch: Patch) -> PatchBody {
    let text = |field: Option<Option<String>>| match field {
        None => Field::Keep,
        Some(None) => Field::Clear,
        Some(Some(text)) => Field::Set(text),
    };
    PatchBody {
        priority: patch.priority.map(PriorityInput),
        tags: patch.tags.map_or(Field::Keep, |tags| Field::Set(Tags(tags))),
        correlation_id: text(patch.correlation_id),
        callback_url: text(patch.callback_url),
    }
}

fn bulk_body(action: BulkAction, filter: JobFilter) -> Result<BulkBody, ActionError> {
    let unknown = |what: &str| {
        let problem =
            FieldProblem::Contradiction(format!("{what} in bulk is not supported through a server"));
        Err(ActionError::Invalid(FieldError::new("action", problem)))
    };
    let body = |action| BulkBody::new(action, filter);
    Ok(match action {
        BulkAction::Act(ActionRequest::Suspend(Suspend { mode, reason, expires: None })) => {
            BulkBody { mode: Some(mode.into()), reason, ..body(JobAction::Suspend) }
        }
        BulkAction::Act(ActionRequest::Resume { reason }) => BulkBody { reason, ..body(JobAction::Resume) },
        BulkAction::Act(ActionRequest::Cancel { reason }) => BulkBody { reason, ..body(JobAction::Cancel) },
        BulkAction::Act(ActionRequest::Priority(value)) => {
            BulkBody { value: Some(PriorityInput(value)), ..body(JobAction::Priority) }
        }
        BulkAction::Redrive(Redrive {
            reset_checkpoints: false,
            only_once: false,
            payload: None,
            from_step: None,
            requires_version: Field::Keep,
        }) => body(JobAction::Redrive),
        BulkAction::Delete => body(JobAction::Delete),
        BulkAction::Act(ActionRequest::Suspend(_)) => return unknown("suspending for a time"),
        BulkAction::Act(ActionRequest::Submit) => return unknown("submitting held jobs"),
        BulkAction::Act(ActionRequest::Patch(_)) => return unknown("changing metadata"),
        BulkAction::Redrive(_) => {
            return unknown("redriving from a step, only once, or with another payload or version");
        }
    })
}
