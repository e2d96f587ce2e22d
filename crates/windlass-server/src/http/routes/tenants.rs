//! Tenants: list, get, configure. They are paused through `/gate`.

use std::collections::BTreeSet;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use windlass::clock::Timestamp;
use windlass::job::{JobType, Tenant};
use windlass::settings::patch::SettingsPatch;
use windlass::store::command::settings::Settings;
use windlass::store::documents::config::{Config, Scope};
use windlass::store::query::known::Named;
use windlass::store::query::stats::Stats;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::request::path::TenantPath;
use crate::http::request::query::Query;
use crate::http::wire::known::KnownView;
use crate::http::wire::page::PageQuery;
use crate::http::wire::pause::PauseView;
use crate::http::wire::settings::{TenantBody, TenantSettingsView};
use crate::http::wire::stats::{Counts, counts};
use crate::http::wire::text::Text;

/// A tenant with its counts, costs and settings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TenantLook")]
pub(crate) struct TenantView {
    tenant: Text<Tenant>,
    #[serde(flatten)]
    known: KnownView,
    /// Number of jobs by state.
    depth: Counts,
    /// Total cost of its jobs.
    cost_cents: i64,
    /// Its pause; null if it is not paused.
    paused: Option<PauseView>,
    #[serde(flatten)]
    settings: TenantSettingsView,
}

impl TenantView {
    fn of(tenant: &Tenant, known: KnownView, stats: &Stats, config: &Config, now: Timestamp) -> TenantView {
        let hold = config.holds.get(&Scope::Tenant(tenant.clone())).filter(|hold| hold.is_active(now));
        // Costs are sorted by tenant, and there may be many.
        let costs = stats.costs.range((tenant.clone(), first_type())..);
        let costs = costs.take_while(|((whose, _), _)| whose == tenant);
        TenantView {
            tenant: Text(tenant.clone()),
            known,
            depth: counts(&stats.tenants.get(tenant).cloned().unwrap_or_default()),
            cost_cents: costs.map(|(_, cents)| cents).sum(),
            paused: hold.map(PauseView::from),
            settings: (&config.tenants.get(tenant).cloned().unwrap_or_default()).into(),
        }
    }
}

/// A name that sorts before all others.
fn first_type() -> JobType {
    JobType::new("A").expect("it is a valid name")
}

/// Tenants by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tenants {
    tenants: Vec<TenantView>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// A tenant with its settings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Tenant")]
pub(crate) struct SetTenant {
    tenant: Text<Tenant>,
    #[serde(flatten)]
    known: KnownView,
    #[serde(flatten)]
    settings: TenantSettingsView,
    changed: bool,
}

/// `GET /tenants`
pub(crate) async fn list(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Tenants>, ApiError> {
    let (stats, config) = (app.store().totals(&caller).await?, app.store().config(&caller).await?);
    let mut names: BTreeSet<&Tenant> = stats.tenants.keys().chain(config.tenants.keys()).collect();
    names.extend(config.holds.keys().filter_map(|scope| match scope {
        Scope::Tenant(tenant) => Some(tenant),
        Scope::Gate | Scope::Type { .. } | Scope::Queue { .. } | Scope::Worker(_) => None,
    }));
    let now = app.now();
    let (names, next_cursor) = query.of(names, ToString::to_string)?;
    let view = |tenant: &Tenant| TenantView::of(tenant, KnownView::listed(), &stats, &config, now);
    Ok(JsonOk(Tenants { tenants: names.into_iter().map(view).collect(), next_cursor }))
}

/// `GET /tenants/{tenant}`. A tenant that the caller may not see looks like an unused one.
pub(crate) async fn get(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    TenantPath(tenant): TenantPath,
) -> Result<JsonOk<TenantView>, ApiError> {
    let (stats, config) = (app.store().totals(&caller).await?, app.store().config(&caller).await?);
    let known = KnownView::of(&app, &caller, Named::Tenant(tenant.clone())).await?;
    Ok(JsonOk(TenantView::of(&tenant, known, &stats, &config, app.now())))
}

/// `PUT /tenants/{tenant}`
pub(crate) async fn put(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    TenantPath(tenant): TenantPath,
    Body(body): Body<TenantBody>,
) -> Result<JsonOk<SetTenant>, ApiError> {
    let patch = SettingsPatch::Tenant(tenant.clone(), body.into());
    let known = KnownView::of(&app, &caller, Named::Tenant(tenant.clone())).await?;
    let done = app.store().configure(&caller, patch).await?;
    let Settings::Tenant(_, settings) = &done.settings else {
        unreachable!("a tenant's settings are returned as such")
    };
    Ok(JsonOk(SetTenant { tenant: Text(tenant), known, settings: settings.into(), changed: done.is_changed }))
}
