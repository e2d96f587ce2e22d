//! Actions on one job: submit a held one, suspend, resume, cancel, priority, metadata, redrive, signal.

use windlass::job::{JobId, SuspendMode};
use windlass::settings::patch::Field;
use windlass::store::caller::Caller;
use windlass::store::{ActionOptions, ActionRequest, Patch, Redrive, Suspend};
use windlass_api::actions::{
    ActionResponse, EmptyBody, PatchBody, PriorityBody, ReasonBody, RedriveBody, SignalBody, SignalReceipt,
    SuspendBody,
};
use windlass_api::job::Job;
use windlass_api::json::Json;
use windlass_api::text::Text;

use super::{StrictQuery, with_result};
use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::etag::{EntityTag, IfMatchHeader, WithEtag};
use crate::http::reply::response::{Accepted, Created, JsonOk};
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::path::{JobPath, NamePath};
use crate::http::request::query::Query;

type ActionReply = Result<WithEtag<JsonOk<ActionResponse<Job>>>, ApiError>;

async fn act(
    app: &App,
    caller: &Caller,
    id: JobId,
    act: ActionRequest,
    options: ActionOptions,
) -> ActionReply {
    let (is_resume, strict) = (matches!(act, ActionRequest::Resume { .. }), options.strict);
    let options = ActionOptions { strict: strict && !is_resume, ..options };
    let acted = app.store().act_and_read(caller, id, act, options).await?;
    if is_resume && strict && !acted.is_changed {
        return Err(ApiError::conflict("not_suspended", format!("job {id} is not suspended"))
            .with("state", acted.job.job.state.as_str())
            .with("action", "resume"));
    }
    let job = with_result(app, caller, acted.job).await?;
    let tag = EntityTag::for_job(&job);
    Ok(WithEtag(JsonOk(ActionResponse { object: job, changed: acted.is_changed }), tag))
}

/// `POST /jobs/{id}/submit`
pub(crate) async fn submit(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
    Body(EmptyBody {}): Body<EmptyBody>,
) -> ActionReply {
    act(&app, &caller, id, ActionRequest::Submit, ActionOptions { strict: false, if_match }).await
}

/// `POST /jobs/{id}/suspend`
pub(crate) async fn suspend(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
    Query(query): Query<StrictQuery>,
    Body(body): Body<SuspendBody>,
) -> ActionReply {
    let suspend = Suspend {
        mode: body.mode.map_or(SuspendMode::IdleOnly, SuspendMode::from),
        reason: body.reason,
        expires: body.expires.map(|expiry| expiry.counted_from("expires", app.now())).transpose()?,
    };
    act(&app, &caller, id, ActionRequest::Suspend(suspend), ActionOptions { strict: query.strict, if_match })
        .await
}

/// `POST /jobs/{id}/resume`
pub(crate) async fn resume(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
    Query(query): Query<StrictQuery>,
    Body(body): Body<ReasonBody>,
) -> ActionReply {
    let options = ActionOptions { strict: query.strict, if_match };
    act(&app, &caller, id, ActionRequest::Resume { reason: body.reason }, options).await
}

/// `POST /jobs/{id}/cancel`
pub(crate) async fn cancel(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
    Body(body): Body<ReasonBody>,
) -> ActionReply {
    let options = ActionOptions { strict: false, if_match };
    act(&app, &caller, id, ActionRequest::Cancel { reason: body.reason }, options).await
}

/// `POST /jobs/{id}/priority`
pub(crate) async fn priority(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
    Body(body): Body<PriorityBody>,
) -> ActionReply {
    act(&app, &caller, id, ActionRequest::Priority(body.value.0), ActionOptions { strict: false, if_match })
        .await
}

/// Maps a field to: not given, null, or a value.
#[allow(clippy::option_option, reason = "the library distinguishes the three this way")]
fn given<T>(field: Field<T>) -> Option<Option<T>> {
    match field {
        Field::Keep => None,
        Field::Clear => Some(None),
        Field::Set(value) => Some(Some(value)),
    }
}

/// `PATCH /jobs/{id}`
pub(crate) async fn patch(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
    Body(body): Body<PatchBody>,
) -> ActionReply {
    let patch = Patch {
        priority: body.priority.map(|priority| priority.0),
        tags: given(body.tags).map(|tags| tags.unwrap_or_default().0),
        correlation_id: given(body.correlation_id),
        callback_url: given(body.callback_url),
    };
    act(&app, &caller, id, ActionRequest::Patch(patch), ActionOptions { strict: false, if_match }).await
}

/// `POST /jobs/{id}/redrive`
pub(crate) async fn redrive(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
    Body(body): Body<RedriveBody>,
) -> Result<WithEtag<Created<Job>>, ApiError> {
    let payload = body.new_payload()?;
    let how = Redrive {
        reset_checkpoints: body.reset_checkpoints,
        from_step: body.from_step,
        only_once: body.only_once,
        requires_version: body.requires_version.map(|version| version.0),
        payload,
    };
    let snapshot = app.store().redrive_and_read(&caller, id, how, if_match).await?;
    let job = Job::from(snapshot);
    let tag = EntityTag::for_job(&job);
    Ok(WithEtag(Created(job), tag))
}

/// `POST /jobs/{id}/signals/{name}`
pub(crate) async fn signal(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    NamePath(signal): NamePath,
    IfMatchHeader(if_match): IfMatchHeader,
    Body(body): Body<SignalBody>,
) -> Result<Accepted<SignalReceipt>, ApiError> {
    let value = body.value.as_ref().map_or(&b"null"[..], Json::bytes).to_vec();
    app.store().signal_if(&caller, id, &signal, value, if_match).await?;
    Ok(Accepted(SignalReceipt { id: Text(id), signal }))
}
