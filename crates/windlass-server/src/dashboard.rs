//! The dashboard: server-rendered pages with live refresh. All data is read with the signed-in visitor's permissions, so a
//! page shows and does no more than the same person's key allows. It has no rules of its own, does not count by scanning
//! jobs, and works without scripts.

mod page;
mod pages;
mod parts;
mod requests;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use windlass::Store;
use windlass::clock::Timestamp;

use crate::http::App;

/// State shared by all pages; cheap to clone.
#[derive(Clone)]
struct Dashboard(Arc<Inner>);

struct Inner {
    app: App,
    /// Whether browsers connect over TLS, directly or through a proxy; cookies are then marked secure.
    is_secure: bool,
    sessions: requests::session::Sessions,
    /// The form token while there are no keys and so no sessions.
    local_token: String,
    live: requests::refresh::Live,
    /// Alerts whose deletion can be undone.
    deleted_alerts: pages::alerts::deleted::DeletedAlerts,
    /// The last known end of the audit trail.
    tail: parts::latest_records::Tail,
}

impl Dashboard {
    fn store(&self) -> &Store {
        self.0.app.store()
    }

    fn now(&self) -> Timestamp {
        self.0.app.now()
    }
}

/// All pages, their actions and assets, and the refresh stream; and what browsers get for any other address.
pub(crate) fn routers(app: App, is_secure: bool) -> (Router, Router) {
    let local_token = requests::session::token(&app.store().environment().entropy);
    let board = Dashboard(Arc::new(Inner {
        app,
        is_secure,
        sessions: requests::session::Sessions::default(),
        local_token,
        live: requests::refresh::Live::default(),
        deleted_alerts: pages::alerts::deleted::DeletedAlerts::default(),
        tail: parts::latest_records::Tail::default(),
    }));
    let guarded = |routes: Router<Dashboard>| {
        let guard = from_fn_with_state(board.clone(), requests::middleware::guard);
        routes.layer(guard).with_state(board.clone())
    };
    let routes = Router::new().merge(pages()).merge(actions());
    let routes = routes.method_not_allowed_fallback(|| async { page::PageError::only_a_form() });
    let no_page = || async { page::PageError::not_found("There is no page at this address.") };
    (guarded(routes), guarded(Router::new().fallback(no_page)))
}

fn pages() -> Router<Dashboard> {
    Router::new()
        .route("/", get(pages::overview::page))
        .route("/jobs", get(pages::jobs::page))
        .route("/jobs/new", get(pages::jobs::new_job::page).post(pages::jobs::new_job::submit))
        .route("/jobs/export", get(pages::jobs::export::export))
        .route("/jobs/{id}", get(pages::jobs::job::page))
        .route("/jobs/{id}/payload", get(pages::jobs::job::download_payload))
        .route("/jobs/{id}/result", get(pages::jobs::job::download_result))
        .route("/queues", get(pages::queues::page))
        .route("/queues/{name}", get(pages::queues::queue_page))
        .route("/queues/{name}/preview", get(pages::queues::limit_preview::of_queue))
        .route("/tenants/{name}/preview", get(pages::queues::limit_preview::of_tenant))
        .route("/types/{name}/preview", get(pages::queues::limit_preview::of_type))
        .route("/types", get(pages::types::page))
        .route("/types/{name}", get(pages::types::type_page))
        .route("/workers", get(pages::workers::page))
        .route("/workers/{id}", get(pages::workers::worker::page))
        .route("/schedules", get(pages::schedules::page))
        .route("/schedules/new", get(pages::schedules::schedule_form::new_page))
        .route("/schedules/preview", get(pages::schedules::schedule_form::show_preview))
        .route("/schedules/{tenant}/{name}", get(pages::schedules::schedule_form::edit_page))
        .route("/alerts", get(pages::alerts::page))
        .route("/alerts/new", get(pages::alerts::alert_form::new_page))
        .route("/alerts/{tenant}/{name}", get(pages::alerts::alert_form::edit_page))
        .route("/dead", get(pages::jobs::dead_letters::page))
        .route("/errors", get(pages::jobs::errors::page))
        .route("/audit", get(pages::audit::page))
        .route("/tenants", get(pages::tenants::page))
        .route("/settings", get(pages::settings::page))
        .route("/live", get(requests::refresh::stream))
        .route("/sign-in", get(pages::sign_in::page).post(pages::sign_in::sign_in))
        .route("/assets/{version}/{name}", get(requests::assets::serve))
}

fn actions() -> Router<Dashboard> {
    Router::new()
        .route("/sign-out", post(pages::sign_in::sign_out))
        .route("/jobs/columns", post(pages::jobs::views::choose_columns))
        .route("/jobs/views", post(pages::jobs::views::save))
        .route("/time-zone", post(pages::jobs::views::choose_zone))
        .route("/jobs/act", post(pages::jobs::bulk_confirm::act))
        .route("/jobs/{id}/act", post(requests::job_actions::act))
        .route("/queues/{name}/act", post(pages::queues::act))
        .route("/queues/{name}/settings", post(pages::queues::queue_settings::configure))
        .route("/types/{name}/act", post(pages::types::act))
        .route("/types/{name}/settings", post(pages::types::type_settings::configure))
        .route("/workers/{id}/act", post(pages::workers::act))
        .route("/schedules/save", post(pages::schedules::schedule_form::save))
        .route("/schedules/{tenant}/{name}/act", post(pages::schedules::act))
        .route("/alerts/save", post(pages::alerts::alert_form::save))
        .route("/alerts/{tenant}/{name}/act", post(pages::alerts::act))
        .route("/dead/redrive", post(pages::jobs::dead_letters::redrive))
        .route("/errors/retry", post(pages::jobs::errors::retry))
        .route("/tenants/{name}/act", post(pages::tenants::act))
        .route("/tenants/{name}/settings", post(pages::tenants::configure))
        .route("/gate", post(requests::pauses::act))
        .route("/clock", post(pages::settings::clock::accept))
        .route("/resume", post(requests::resume::act))
        .route("/keys", post(pages::settings::keys::create))
        .route("/keys/{id}/revoke", post(pages::settings::keys::revoke))
}
