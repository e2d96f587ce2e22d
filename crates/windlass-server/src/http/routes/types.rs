//! Job types: list, get, configure. They are paused through `/gate`.

use axum::extract::State;
use windlass::settings::patch::SettingsPatch;
use windlass::store::command::settings::Settings;
use windlass::store::query::job_types::TypeInfo;
use windlass::store::query::known::Named;
use windlass::store::wire::operations::job_type as encode;
use windlass_api::known::Known;
use windlass_api::queue::{ActedType, Type, Types};
use windlass_api::settings::TypeBody;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::request::path::TypePath;
use crate::http::request::query::Query;
use crate::http::wire;
use crate::http::wire::page::PageQuery;
use crate::http::wire::text::Text;

/// `GET /types`
pub(crate) async fn list(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Types>, ApiError> {
    let looks = app.store().job_types(&caller).await?;
    let (looks, next_cursor) = query.of(&looks, |look| look.name.to_string())?;
    let now = app.now();
    let types = looks.into_iter().map(|look| encode(look, Known::listed(), now)).collect();
    Ok(JsonOk(Types { types, next_cursor }))
}

/// `GET /types/{type}`
pub(crate) async fn get(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    TypePath(job_type): TypePath,
) -> Result<JsonOk<Type>, ApiError> {
    let known = wire::known(&app, &caller, Named::Type(job_type.clone())).await?;
    let looks = app.store().job_types(&caller).await?;
    // An unused type is empty, like an unused queue.
    let found = looks.into_iter().find(|look| look.name == job_type);
    let look = found.unwrap_or_else(|| TypeInfo::unused(job_type));
    Ok(JsonOk(encode(&look, known, app.now())))
}

/// `PUT /types/{type}`
pub(crate) async fn put(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    TypePath(job_type): TypePath,
    Body(body): Body<TypeBody>,
) -> Result<JsonOk<ActedType>, ApiError> {
    let patch = SettingsPatch::Type(job_type.clone(), body.into_patch()?);
    let known = wire::known(&app, &caller, Named::Type(job_type.clone())).await?;
    let done = app.store().configure(&caller, patch).await?;
    let Settings::Type(_, settings) = &done.settings else {
        unreachable!("a type's settings are returned as such")
    };
    Ok(JsonOk(ActedType {
        r#type: Text(job_type),
        known,
        settings: settings.into(),
        changed: done.is_changed,
    }))
}
