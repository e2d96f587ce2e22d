//! Schedules: create, list, pause, resume, trigger, delete, restore.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass::error::ScheduleError;
use windlass::internal::wire::schedule::{deleted as encode_deleted, schedule as encode};
use windlass::job::Tenant;
use windlass::store::caller::Caller;
use windlass::store::{PauseOptions, Schedule, ScheduleRef};
use windlass_api::actions::{ActionResponse, EmptyBody, ReasonBody};
use windlass_api::job::Job;
use windlass_api::schedule::{ScheduleBody, SchedulePauseBody, ScheduleView, Schedules};
use windlass_api::text::Text;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::{Created, JsonOk, NoContent};
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::SchedulePath;
use crate::http::request::query::Query;

/// Selects a schedule of the name.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TenantQuery {
    /// The schedule's tenant, for callers that can see several.
    tenant: Option<Text<Tenant>>,
    /// Return 409 instead of success if nothing would change.
    #[serde(default)]
    strict: bool,
}

/// Selects a page of schedules, or of deleted ones.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    /// List deleted schedules that can be restored, latest first.
    #[serde(default)]
    deleted: bool,
    /// Maximum number of items, 1 to 1000; 1000 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

fn which(SchedulePath(name): SchedulePath, query: &TenantQuery) -> ScheduleRef {
    ScheduleRef { tenant: query.tenant.clone().map(|tenant| tenant.0), name }
}

async fn view(app: &App, caller: &Caller, which: ScheduleRef) -> Result<ScheduleView, ApiError> {
    let missing = format!("no schedule {}", which.name);
    let found = app.store().schedule(caller, which).await?.ok_or_else(|| ApiError::not_found(missing))?;
    Ok(encode(&found, app.now()))
}

/// `GET /schedules`
pub(crate) async fn list(
    Call { app, caller }: Call,
    Query(ListQuery { deleted, limit, cursor }): Query<ListQuery>,
) -> Result<JsonOk<Schedules>, ApiError> {
    let query = PageQuery::new(limit, cursor);
    let now = app.now();
    if deleted {
        // At most `DELETED_SCHEDULES_MAX`: one page, in their own order.
        let found = app.store().deleted_schedules(&caller).await?.into_iter().take(query.limit()?);
        let schedules = found.map(|schedule| encode_deleted(&schedule, now)).collect();
        return Ok(JsonOk(Schedules { schedules, next_cursor: None }));
    }
    let found = app.store().schedules(&caller).await?;
    // In the list's order: nothing in a name comes before `!`, which is plain in addresses.
    let name = |schedule: &&Arc<Schedule>| format!("{}!{}", schedule.tenant, schedule.name);
    let (found, next_cursor) = query.take(&found, name)?;
    let schedules = found.into_iter().map(|schedule| encode(schedule, now)).collect();
    Ok(JsonOk(Schedules { schedules, next_cursor }))
}

/// `GET /schedules/{schedule}`
pub(crate) async fn get(
    Call { app, caller }: Call,
    path: SchedulePath,
    Query(query): Query<TenantQuery>,
) -> Result<JsonOk<ScheduleView>, ApiError> {
    view(&app, &caller, which(path, &query)).await.map(JsonOk)
}

/// `PUT /schedules/{schedule}`
pub(crate) async fn put(
    Call { app, caller }: Call,
    SchedulePath(name): SchedulePath,
    Body(body): Body<ScheduleBody>,
) -> Result<JsonOk<ActionResponse<ScheduleView>>, ApiError> {
    let put = app.store().put_schedule(&caller, name, body.try_into()?).await?;
    let schedule = encode(&put.schedule, app.now());
    Ok(JsonOk(ActionResponse { object: schedule, changed: put.is_changed }))
}

/// `DELETE /schedules/{schedule}`
pub(crate) async fn delete(
    Call { app, caller }: Call,
    path: SchedulePath,
    Query(query): Query<TenantQuery>,
) -> Result<NoContent, ApiError> {
    app.store().delete_schedule(&caller, which(path, &query)).await?;
    Ok(NoContent)
}

/// `POST /schedules/{schedule}/restore`
pub(crate) async fn restore(
    Call { app, caller }: Call,
    path: SchedulePath,
    Query(query): Query<TenantQuery>,
    Body(EmptyBody {}): Body<EmptyBody>,
) -> Result<JsonOk<ScheduleView>, ApiError> {
    let restored = app.store().restore_schedule(&caller, which(path, &query)).await;
    let restored = restored.map_err(|error| match error {
        ScheduleError::NotFound(name) => {
            ApiError::not_found(format!("no deleted schedule {name} can be restored"))
        }
        // A new schedule has the name: nothing is wrong with the request itself.
        ScheduleError::Invalid(invalid) if invalid.field == "name" => {
            ApiError::conflict("state_conflict", invalid.to_string())
        }
        other => other.into(),
    })?;
    Ok(JsonOk(encode(&restored, app.now())))
}

/// `POST /schedules/{schedule}/pause`
pub(crate) async fn pause(
    Call { app, caller }: Call,
    path: SchedulePath,
    Query(query): Query<TenantQuery>,
    Body(body): Body<SchedulePauseBody>,
) -> Result<JsonOk<ActionResponse<ScheduleView>>, ApiError> {
    let which = which(path, &query);
    let expires = body.expires.map(|expiry| expiry.counted_from("expires", app.now())).transpose()?;
    let how = PauseOptions { reason: body.reason, expires };
    let changed = app.store().pause_schedule(&caller, which.clone(), how).await?;
    if query.strict && !changed {
        return Err(ApiError::already_paused(format_args!("schedule {}", which.name)));
    }
    Ok(JsonOk(ActionResponse { object: view(&app, &caller, which).await?, changed }))
}

/// `POST /schedules/{schedule}/resume`
pub(crate) async fn resume(
    Call { app, caller }: Call,
    path: SchedulePath,
    Query(query): Query<TenantQuery>,
    Body(_reason): Body<ReasonBody>,
) -> Result<JsonOk<ActionResponse<ScheduleView>>, ApiError> {
    let which = which(path, &query);
    let changed = app.store().resume_schedule(&caller, which.clone()).await?;
    if query.strict && !changed {
        return Err(ApiError::not_paused(format_args!("schedule {}", which.name)));
    }
    Ok(JsonOk(ActionResponse { object: view(&app, &caller, which).await?, changed }))
}

/// `POST /schedules/{schedule}/trigger`
pub(crate) async fn trigger(
    Call { app, caller }: Call,
    path: SchedulePath,
    Query(query): Query<TenantQuery>,
    Body(EmptyBody {}): Body<EmptyBody>,
) -> Result<Created<Job>, ApiError> {
    let job = app.store().trigger_schedule(&caller, which(path, &query)).await?;
    let missing = || ApiError::not_found(format!("no job {}", job.id));
    let snapshot = app.store().get(&caller, job.id).await?.ok_or_else(missing)?;
    Ok(Created(snapshot.into()))
}
