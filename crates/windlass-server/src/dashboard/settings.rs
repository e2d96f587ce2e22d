//! Settings of the whole system: the gate, and the keys that let people and programs in.

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::store::access::ApiKey;
use windlass::store::caller::{Permission, Role};
use windlass::store::config::{Hold, Scope};

use super::Dashboard;
use super::form::Query;
use super::format::Moment;
use super::guard::Visitor;
use super::overview::moment;
use super::page::{HoldView, Shell, Trouble, show};

/// A key as shown: everything but its secret.
struct KeyView {
    id: String,
    name: String,
    role: &'static str,
    tenant: String,
    created: Moment,
    by: String,
    expires: Option<Moment>,
    used: Option<Moment>,
    is_valid: bool,
}

/// A part of the system for which the gate is closed.
struct ClosedView {
    hold: HoldView,
    /// Which field of the form opens it, and with what in it.
    field: &'static str,
    value: String,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    shell: Shell,
    closed: Vec<ClosedView>,
    keys: Vec<KeyView>,
    roles: Vec<(&'static str, &'static str)>,
    tenants: Vec<String>,
    types: Vec<String>,
    is_admin: bool,
    version: &'static str,
    node: String,
}

/// `GET /settings`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let config = store.config(caller).await?;
    let stats = store.totals(caller).await?;
    let is_admin = visitor.may(Permission::Administer);
    let keys = if is_admin { store.keys(caller).await? } else { Vec::new() };
    let page = Settings {
        shell: Shell::of(&board, &visitor, &config, "settings", "Settings").saying(&query),
        closed: config.holds.values().filter_map(|hold| closed(hold, now)).collect(),
        keys: keys.iter().map(|key| view(key, now)).collect(),
        roles: Role::ALL.map(|role| (role.as_str(), meaning(role))).into(),
        tenants: stats.tenants.keys().map(ToString::to_string).collect(),
        types: stats.types.keys().map(ToString::to_string).collect(),
        is_admin,
        version: env!("CARGO_PKG_VERSION"),
        node: store.environment().node.clone(),
    };
    show(&page)
}

fn closed(hold: &Hold, now: Timestamp) -> Option<ClosedView> {
    let (field, value) = match &hold.scope {
        Scope::Tenant(tenant) => ("tenant", tenant.to_string()),
        Scope::Type { job_type, .. } => ("type", job_type.to_string()),
        Scope::Gate | Scope::Queue { .. } | Scope::Worker(_) => return None,
    };
    hold.is_active(now).then(|| ClosedView { hold: HoldView::of(hold, now), field, value })
}

fn meaning(role: Role) -> &'static str {
    match role {
        Role::Admin => "everything, for all tenants",
        Role::Operator => "all verbs within a tenant",
        Role::Submitter => "submits, and manages what it submitted",
        Role::Worker => "claims and finishes",
        Role::Viewer => "looks on",
    }
}

fn view(key: &ApiKey, now: Timestamp) -> KeyView {
    KeyView {
        id: key.id.to_string(),
        name: key.name.clone(),
        role: key.role.as_str(),
        tenant: key.tenant.as_ref().map_or("all".to_owned(), ToString::to_string),
        created: Moment::new(key.created_at, now),
        by: key.created_by.clone(),
        expires: moment(key.expires_at, now),
        used: moment(key.last_used_at, now),
        is_valid: key.is_valid(now),
    }
}
