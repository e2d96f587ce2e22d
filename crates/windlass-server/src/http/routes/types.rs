//! Job types: list, get, configure. They are paused through `/gate`.

use windlass::internal::wire::queue::job_type as encode;
use windlass::settings::patch::SettingsPatch;
use windlass::store::{ObjectName, Settings, TypeInfo};
use windlass_api::known::KnownView;
use windlass_api::queue::{Type, TypeResponse, Types};
use windlass_api::settings::TypeBody;
use windlass_api::text::Text;

use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::TypePath;
use crate::http::request::query::Query;

/// `GET /types`
pub(crate) async fn list(
    Call { app, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Types>, ApiError> {
    let infos = app.store().job_types(&caller).await?;
    let (infos, next_cursor) = query.take(&infos, |info| info.name.to_string())?;
    let now = app.now();
    let types = infos.into_iter().map(|info| encode(info, KnownView::listed(), now)).collect();
    Ok(JsonOk(Types { types, next_cursor }))
}

/// `GET /types/{type}`
pub(crate) async fn get(
    Call { app, caller }: Call,
    TypePath(job_type): TypePath,
) -> Result<JsonOk<Type>, ApiError> {
    let known = app.known(&caller, ObjectName::Type(job_type.clone())).await?;
    let infos = app.store().job_types(&caller).await?;
    // An unused type is empty, like an unused queue.
    let found = infos.into_iter().find(|info| info.name == job_type);
    let info = found.unwrap_or_else(|| TypeInfo::unused(job_type));
    Ok(JsonOk(encode(&info, known, app.now())))
}

/// `PUT /types/{type}`
pub(crate) async fn put(
    Call { app, caller }: Call,
    TypePath(job_type): TypePath,
    Body(body): Body<TypeBody>,
) -> Result<JsonOk<TypeResponse>, ApiError> {
    let patch = SettingsPatch::Type(job_type.clone(), body.into_patch()?);
    let known = app.known(&caller, ObjectName::Type(job_type.clone())).await?;
    let done = app.store().configure(&caller, patch).await?;
    let Settings::Type(_, settings) = &done.settings else {
        unreachable!("a type's settings are returned as such")
    };
    Ok(JsonOk(TypeResponse {
        r#type: Text(job_type),
        known,
        settings: settings.into(),
        changed: done.is_changed,
    }))
}
