//! Tenants: list, get, configure. They are paused through `/gate`.

use std::collections::BTreeSet;

use windlass::internal::wire::queue::tenant as encode;
use windlass::job::Tenant;
use windlass::settings::patch::SettingsPatch;
use windlass::store::{ObjectName, PauseScope, Settings};
use windlass_api::known::KnownView;
use windlass_api::queue::{TenantResponse, TenantView, Tenants};
use windlass_api::settings::TenantBody;
use windlass_api::text::Text;

use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::TenantPath;
use crate::http::request::query::Query;

/// `GET /tenants`
pub(crate) async fn list(
    Call { app, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Tenants>, ApiError> {
    let (stats, config) = (app.store().totals(&caller).await?, app.store().config(&caller).await?);
    let mut names: BTreeSet<&Tenant> = stats.tenants.keys().chain(config.tenants.keys()).collect();
    names.extend(config.pauses.keys().filter_map(|scope| match scope {
        PauseScope::Tenant(tenant) => Some(tenant),
        PauseScope::Gate | PauseScope::Type { .. } | PauseScope::Queue { .. } | PauseScope::Worker(_) => None,
    }));
    let now = app.now();
    let (names, next_cursor) = query.take(names, ToString::to_string)?;
    let view = |tenant: &Tenant| encode(tenant, KnownView::listed(), &stats, &config, now);
    Ok(JsonOk(Tenants { tenants: names.into_iter().map(view).collect(), next_cursor }))
}

/// `GET /tenants/{tenant}`. A tenant that the caller may not see looks like an unused one.
pub(crate) async fn get(
    Call { app, caller }: Call,
    TenantPath(tenant): TenantPath,
) -> Result<JsonOk<TenantView>, ApiError> {
    let (stats, config) = (app.store().totals(&caller).await?, app.store().config(&caller).await?);
    let known = app.known(&caller, ObjectName::Tenant(tenant.clone())).await?;
    Ok(JsonOk(encode(&tenant, known, &stats, &config, app.now())))
}

/// `PUT /tenants/{tenant}`
pub(crate) async fn put(
    Call { app, caller }: Call,
    TenantPath(tenant): TenantPath,
    Body(body): Body<TenantBody>,
) -> Result<JsonOk<TenantResponse>, ApiError> {
    let patch = SettingsPatch::Tenant(tenant.clone(), body.into());
    let known = app.known(&caller, ObjectName::Tenant(tenant.clone())).await?;
    let done = app.store().configure(&caller, patch).await?;
    let Settings::Tenant(_, settings) = &done.settings else {
        unreachable!("a tenant's settings are returned as such")
    };
    Ok(JsonOk(TenantResponse {
        tenant: Text(tenant),
        known,
        settings: settings.into(),
        changed: done.is_changed,
    }))
}
