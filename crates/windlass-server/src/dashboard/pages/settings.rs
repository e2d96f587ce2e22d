//! Settings of the whole system: the global pause and the API keys.

pub(in crate::dashboard) mod clock;
pub(in crate::dashboard) mod keys;

use askama::Template;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::job::{JobState, JobType, Tenant};
use windlass::settings::Retention;
use windlass::store::caller::{Permission, Role};
use windlass::store::{ApiKey, Config, PauseRecord, PauseScope, Stats};

use crate::dashboard::page::{Layout, PageError, PauseView, show};
use crate::dashboard::pages::limits;
use crate::dashboard::pages::overview::moment;
use crate::dashboard::pages::settings::clock::ClockView;
use crate::dashboard::parts::format::{Moment, span};
use crate::dashboard::parts::pager::{self, Pager};
use crate::dashboard::requests::context::PageContext;
use crate::dashboard::requests::form::Fields;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;

/// A key without its secret.
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

/// A tenant or type whose processing is paused.
struct ClosedView {
    hold: PauseView,
    /// The scope field of the resume form, if the visitor may resume it.
    scope: Option<String>,
    /// Unknown names in it, such as `tenant amce`: they may be typing errors.
    unknown: Vec<String>,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    layout: Layout,
    closed: Vec<ClosedView>,
    keys: Vec<KeyView>,
    keys_total: usize,
    pager: Pager,
    roles: Vec<(&'static str, &'static str)>,
    /// Suggested names.
    tenants: Vec<String>,
    types: Vec<String>,
    is_admin: bool,
    clock: ClockView,
    /// How long jobs are kept, by final state.
    retention: Vec<(String, String)>,
    version: &'static str,
    node: String,
}

/// `GET /settings`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let stats = store.totals(caller).await?;
    let is_admin = visitor.may(Permission::Administer);
    let keys = if is_admin { store.keys(caller).await? } else { Vec::new() };
    // Two keys may have the same name.
    let mut keys: Vec<(String, ApiKey)> =
        keys.into_iter().map(|key| (format!("{} {}", key.name, key.id), key)).collect();
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    let keys = pager::page(keys, |(name, _)| name, query, ("/settings", "key"), limits::KEYS_PER_PAGE);
    let known = NewSecret { stats: &stats, config };
    let holds = config.pauses.values().filter(|hold| hold.is_active(now));
    let closed: Vec<ClosedView> = holds.filter_map(|hold| known.closed(hold, visitor, now)).collect();
    let mut layout = context.layout("settings", "Settings");
    layout.done = layout.done.map(|said| known.part_done(query, now).unwrap_or(said));
    let page = Settings {
        layout,
        closed,
        keys: keys.shown.iter().map(|(_, key)| view(key, now)).collect(),
        keys_total: keys.total,
        pager: keys.pager,
        roles: Role::ALL.map(|role| (role.as_str(), describe_role(role))).into(),
        tenants: offered(stats.tenants.keys()),
        types: offered(stats.types.keys()),
        is_admin,
        clock: store.clock().into(),
        retention: kept(store.retention(caller).await?),
        version: env!("CARGO_PKG_VERSION"),
        node: store.environment().node.clone(),
    };
    show(&page)
}

/// How long jobs are kept, as text.
fn kept(retention: Retention) -> Vec<(String, String)> {
    let states = JobState::FINAL.into_iter();
    states.filter_map(|state| Some((state.as_str().replace('_', " "), span(retention.get(state)?)))).collect()
}

/// The known names.
struct NewSecret<'a> {
    stats: &'a Stats,
    config: &'a Config,
}

impl NewSecret<'_> {
    /// A paused tenant or type; None for other pauses.
    fn closed(&self, hold: &PauseRecord, visitor: &Visitor, now: Timestamp) -> Option<ClosedView> {
        let (job_type, tenant) = match &hold.scope {
            PauseScope::Tenant(tenant) => (None, Some(tenant)),
            PauseScope::Type { job_type, tenant } => (Some(job_type), tenant.as_ref()),
            PauseScope::Gate | PauseScope::Queue { .. } | PauseScope::Worker(_) => return None,
        };
        Some(ClosedView {
            hold: PauseView::new(hold, now),
            scope: resume::scope(hold, visitor, self.config),
            unknown: self.unknown(job_type, tenant),
        })
    }

    /// Which of these names are unknown.
    fn unknown(&self, job_type: Option<&JobType>, tenant: Option<&Tenant>) -> Vec<String> {
        let (stats, config) = (self.stats, self.config);
        let tenant = tenant.filter(|name| {
            !stats.tenants.contains_key(*name)
                && !config.tenants.contains_key(*name)
                && config.keys.values().all(|key| key.tenant.as_ref() != Some(*name))
        });
        let job_type =
            job_type.filter(|name| !stats.types.contains_key(*name) && !config.types.contains_key(*name));
        let tenant = tenant.map(|name| format!("tenant {name}"));
        tenant.into_iter().chain(job_type.map(|name| format!("type {name}"))).collect()
    }

    /// The flash message for a tenant or type that was just paused or resumed, if that is still its state.
    fn part_done(&self, query: &Fields, now: Timestamp) -> Option<String> {
        let tenant = query.get("tenant").and_then(|name| Tenant::new(name).ok());
        let job_type = query.get("type").and_then(|name| JobType::new(name).ok());
        let unknown = self.unknown(job_type.as_ref(), tenant.as_ref());
        let scope = match (job_type, tenant) {
            (Some(job_type), tenant) => PauseScope::Type { job_type, tenant },
            (None, Some(tenant)) => PauseScope::Tenant(tenant),
            (None, None) => return None,
        };
        let hold = self.config.pauses.get(&scope).filter(|hold| hold.is_active(now));
        match (query.get("done")?, hold) {
            ("closed" | "paused", Some(hold)) => {
                let said = format!("Processing is paused for {}.", PauseView::new(hold, now).what);
                let unknown = unknown.iter().map(|what| format!("There is no {what} yet."));
                Some([said].into_iter().chain(unknown).collect::<Vec<_>>().join(" "))
            }
            ("opened" | "unpaused", None) => Some("Processing is resumed for it.".to_owned()),
            _ => None,
        }
    }
}

/// Suggested names.
pub(in crate::dashboard) fn offered<T: ToString>(names: impl Iterator<Item = T>) -> Vec<String> {
    names.take(limits::NAMES_OFFERED).map(|name| name.to_string()).collect()
}

fn describe_role(role: Role) -> &'static str {
    match role {
        Role::Admin => "everything",
        Role::Operator => "manages a tenant",
        Role::Submitter => "submits and manages its own jobs",
        Role::Worker => "runs jobs",
        Role::App => "submits and manages its own jobs, and runs jobs",
        Role::Viewer => "read only",
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
