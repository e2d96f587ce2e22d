//! Alerts: create, list, pause, resume, test, delete.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass::internal::wire::alert::alert as encode;
use windlass::job::Tenant;
use windlass::store::caller::Caller;
use windlass::store::{Alert, AlertRef, PauseOptions};
use windlass_api::actions::{ActionResponse, EmptyBody, ReasonBody};
use windlass_api::alert::{AlertBody, AlertPauseBody, AlertView, Alerts};
use windlass_api::job::Job;
use windlass_api::text::Text;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::{Created, JsonOk, NoContent};
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::AlertPath;
use crate::http::request::query::Query;

/// Selects an alert of the name.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AlertQuery {
    /// The alert's tenant, for callers that can see several; all tenants if not given.
    tenant: Option<Text<Tenant>>,
    /// Return 409 instead of success if nothing would change.
    #[serde(default)]
    strict: bool,
}

fn which(AlertPath(name): AlertPath, query: &AlertQuery) -> AlertRef {
    AlertRef { tenant: query.tenant.clone().map(|tenant| tenant.0), name }
}

async fn view(app: &App, caller: &Caller, which: AlertRef) -> Result<AlertView, ApiError> {
    let missing = format!("no alert {}", which.name);
    let found = app.store().alert(caller, which).await?.ok_or_else(|| ApiError::not_found(missing))?;
    Ok(encode(&found, app.now()))
}

/// `GET /alerts`
pub(crate) async fn list(
    Call { app, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Alerts>, ApiError> {
    let found = app.store().alerts(&caller).await?;
    // In the list's order, those about all tenants first: nothing in a name comes before `!`, which is plain in addresses.
    let name =
        |alert: &&Alert| format!("{}!{}", alert.tenant.as_ref().map_or("", Tenant::as_str), alert.name);
    let (found, next_cursor) = query.take(&found, name)?;
    let alerts = found.into_iter().map(|alert| encode(alert, app.now())).collect();
    Ok(JsonOk(Alerts { alerts, next_cursor }))
}

/// `GET /alerts/{alert}`
pub(crate) async fn get(
    Call { app, caller }: Call,
    path: AlertPath,
    Query(query): Query<AlertQuery>,
) -> Result<JsonOk<AlertView>, ApiError> {
    view(&app, &caller, which(path, &query)).await.map(JsonOk)
}

/// `PUT /alerts/{alert}`
pub(crate) async fn put(
    Call { app, caller }: Call,
    path: AlertPath,
    Query(query): Query<AlertQuery>,
    Body(body): Body<AlertBody>,
) -> Result<JsonOk<ActionResponse<AlertView>>, ApiError> {
    let put = app.store().put_alert(&caller, which(path, &query), body.try_into()?).await?;
    Ok(JsonOk(ActionResponse { object: encode(&put.alert, app.now()), changed: put.is_changed }))
}

/// `DELETE /alerts/{alert}`
pub(crate) async fn delete(
    Call { app, caller }: Call,
    path: AlertPath,
    Query(query): Query<AlertQuery>,
) -> Result<NoContent, ApiError> {
    app.store().delete_alert(&caller, which(path, &query)).await?;
    Ok(NoContent)
}

/// `POST /alerts/{alert}/pause`
pub(crate) async fn pause(
    Call { app, caller }: Call,
    path: AlertPath,
    Query(query): Query<AlertQuery>,
    Body(body): Body<AlertPauseBody>,
) -> Result<JsonOk<ActionResponse<AlertView>>, ApiError> {
    let which = which(path, &query);
    let expires = body.expires.map(|expiry| expiry.counted_from("expires", app.now())).transpose()?;
    let how = PauseOptions { reason: body.reason, expires };
    let changed = app.store().pause_alert(&caller, which.clone(), how).await?;
    if query.strict && !changed {
        return Err(ApiError::already_paused(format_args!("alert {}", which.name)));
    }
    Ok(JsonOk(ActionResponse { object: view(&app, &caller, which).await?, changed }))
}

/// `POST /alerts/{alert}/resume`
pub(crate) async fn resume(
    Call { app, caller }: Call,
    path: AlertPath,
    Query(query): Query<AlertQuery>,
    Body(_reason): Body<ReasonBody>,
) -> Result<JsonOk<ActionResponse<AlertView>>, ApiError> {
    let which = which(path, &query);
    let changed = app.store().resume_alert(&caller, which.clone()).await?;
    if query.strict && !changed {
        return Err(ApiError::not_paused(format_args!("alert {}", which.name)));
    }
    Ok(JsonOk(ActionResponse { object: view(&app, &caller, which).await?, changed }))
}

/// `POST /alerts/{alert}/test`
pub(crate) async fn test(
    Call { app, caller }: Call,
    path: AlertPath,
    Query(query): Query<AlertQuery>,
    Body(EmptyBody {}): Body<EmptyBody>,
) -> Result<Created<Job>, ApiError> {
    let job = app.store().test_alert(&caller, which(path, &query)).await?;
    let missing = || ApiError::not_found(format!("no job {}", job.id));
    let snapshot = app.store().get(&caller, job.id).await?.ok_or_else(missing)?;
    Ok(Created(snapshot.into()))
}
