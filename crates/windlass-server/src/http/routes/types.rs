//! Job types: list, get, configure. They are paused through `/gate`.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use windlass::clock::Timestamp;
use windlass::job::JobType;
use windlass::settings::patch::SettingsPatch;
use windlass::store::command::settings::Settings;
use windlass::store::documents::minute_stats::minute_of;
use windlass::store::query::job_types::TypeInfo;
use windlass::store::query::known::Named;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::request::path::TypePath;
use crate::http::request::query::Query;
use crate::http::wire::known::KnownView;
use crate::http::wire::page::PageQuery;
use crate::http::wire::pause::PauseView;
use crate::http::wire::settings::{TypeBody, TypeSettingsView};
use crate::http::wire::stats::{Counts, QueueRates, counts};
use crate::http::wire::text::Text;

/// A job type with its counts, rates and settings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TypeLook")]
pub(crate) struct TypeView {
    r#type: Text<JobType>,
    #[serde(flatten)]
    known: KnownView,
    /// Number of jobs by state.
    depth: Counts,
    rates: QueueRates,
    /// Its pause; null if it is not paused.
    paused: Option<PauseView>,
    #[serde(flatten)]
    settings: TypeSettingsView,
}

impl TypeView {
    fn of(look: &TypeInfo, known: KnownView, now: Timestamp) -> TypeView {
        TypeView {
            r#type: Text(look.name.clone()),
            known,
            depth: counts(&look.depth),
            rates: QueueRates::of(&look.minutes, minute_of(now)),
            paused: look.paused.as_ref().map(PauseView::from),
            settings: (&look.settings).into(),
        }
    }
}

/// Job types by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Types {
    types: Vec<TypeView>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// A job type with its settings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Type")]
pub(crate) struct SetType {
    r#type: Text<JobType>,
    #[serde(flatten)]
    known: KnownView,
    #[serde(flatten)]
    settings: TypeSettingsView,
    changed: bool,
}

/// `GET /types`
pub(crate) async fn list(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Types>, ApiError> {
    let looks = app.store().job_types(&caller).await?;
    let (looks, next_cursor) = query.of(&looks, |look| look.name.to_string())?;
    let now = app.now();
    let types = looks.into_iter().map(|look| TypeView::of(look, KnownView::listed(), now)).collect();
    Ok(JsonOk(Types { types, next_cursor }))
}

/// `GET /types/{type}`
pub(crate) async fn get(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    TypePath(job_type): TypePath,
) -> Result<JsonOk<TypeView>, ApiError> {
    let known = KnownView::of(&app, &caller, Named::Type(job_type.clone())).await?;
    let looks = app.store().job_types(&caller).await?;
    // An unused type is empty, like an unused queue.
    let found = looks.into_iter().find(|look| look.name == job_type);
    let look = found.unwrap_or_else(|| TypeInfo::unused(job_type));
    Ok(JsonOk(TypeView::of(&look, known, app.now())))
}

/// `PUT /types/{type}`
pub(crate) async fn put(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    TypePath(job_type): TypePath,
    Body(body): Body<TypeBody>,
) -> Result<JsonOk<SetType>, ApiError> {
    let patch = SettingsPatch::Type(job_type.clone(), body.into_patch()?);
    let known = KnownView::of(&app, &caller, Named::Type(job_type.clone())).await?;
    let done = app.store().configure(&caller, patch).await?;
    let Settings::Type(_, settings) = &done.settings else {
        unreachable!("a type's settings are returned as such")
    };
    Ok(JsonOk(SetType { r#type: Text(job_type), known, settings: settings.into(), changed: done.is_changed }))
}
