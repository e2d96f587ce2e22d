//! Processing on and off: of all jobs, of a tenant or of a type.

use windlass::internal::wire::pause::gate as encode_gate;
use windlass::job::{JobType, Tenant};
use windlass::store::caller::Caller;
use windlass::store::{ObjectName, Pause, PauseTarget};
use windlass_api::known::KnownView;
use windlass_api::pause::{Gate, GateResponse, OfflineBody, OnlineBody};
use windlass_api::text::Text;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::query::Query;
use crate::http::routes::jobs::StrictQuery;

async fn gate_view(app: &App, caller: &Caller) -> Result<Gate, ApiError> {
    Ok(encode_gate(&app.store().config(caller).await?, app.now()))
}

/// `GET /gate`
pub(crate) async fn gate(Call { app, caller }: Call) -> Result<JsonOk<Gate>, ApiError> {
    gate_view(&app, &caller).await.map(JsonOk)
}

async fn known_target(
    app: &App,
    caller: &Caller,
    target: &PauseTarget,
) -> Result<Option<KnownView>, ApiError> {
    let named = match target {
        PauseTarget::Tenant(tenant) => ObjectName::Tenant(tenant.clone()),
        PauseTarget::Type(job_type) => ObjectName::Type(job_type.clone()),
        PauseTarget::Queue(queue) => ObjectName::Queue(queue.clone()),
        PauseTarget::Gate | PauseTarget::Worker(_) => return Ok(None),
    };
    app.known(caller, named).await.map(Some)
}

fn target(tenant: Option<Text<Tenant>>, job_type: Option<Text<JobType>>) -> Result<PauseTarget, ApiError> {
    match (tenant, job_type) {
        (None, None) => Ok(PauseTarget::Gate),
        (Some(tenant), None) => Ok(PauseTarget::Tenant(tenant.0)),
        (None, Some(job_type)) => Ok(PauseTarget::Type(job_type.0)),
        (Some(_), Some(_)) => Err(ApiError::invalid("type", "give `tenant` or `type`, not both")),
    }
}

/// `POST /gate/offline`
pub(crate) async fn close(
    Call { app, caller }: Call,
    Query(query): Query<StrictQuery>,
    Body(body): Body<OfflineBody>,
) -> Result<JsonOk<GateResponse>, ApiError> {
    let target = target(body.tenant, body.r#type)?;
    let expires = body.expires.map(|expiry| expiry.counted_from("expires", app.now())).transpose()?;
    let pause = Pause { reason: body.reason, expires, ..Pause::default() };
    let known = known_target(&app, &caller, &target).await?;
    let changed = app.store().pause(&caller, target, pause).await?;
    if query.strict && !changed {
        return Err(ApiError::conflict("already_paused", "processing is already paused")
            .with("state", "offline")
            .with("action", "offline"));
    }
    Ok(JsonOk(GateResponse { gate: gate_view(&app, &caller).await?, changed, known }))
}

/// `POST /gate/online`
pub(crate) async fn open(
    Call { app, caller }: Call,
    Query(query): Query<StrictQuery>,
    Body(body): Body<OnlineBody>,
) -> Result<JsonOk<GateResponse>, ApiError> {
    let target = target(body.tenant, body.r#type)?;
    let known = known_target(&app, &caller, &target).await?;
    let changed = app.store().resume(&caller, target, body.reason).await?;
    if query.strict && !changed {
        return Err(ApiError::conflict("not_paused", "processing is not paused")
            .with("state", "online")
            .with("action", "online"));
    }
    Ok(JsonOk(GateResponse { gate: gate_view(&app, &caller).await?, changed, known }))
}
