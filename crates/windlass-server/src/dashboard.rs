//! The dashboard: server-rendered pages with live refresh. All data is read with the signed-in visitor's permissions, so a
//! page shows and does no more than the same person's key allows. It has no rules of its own, does not count by scanning
//! jobs, and works without scripts.

mod assets;
mod audit;
mod bulk_action;
mod bulk_confirm;
mod calendar;
mod chart;
mod children;
mod clock;
mod components;
mod dead_letters;
mod failure;
mod filter;
mod flash;
mod form;
mod format;
mod graph;
mod health;
mod job;
mod job_actions;
mod job_audit;
mod job_details;
mod job_row;
mod job_types;
mod jobs;
mod json_view;
mod keys;
mod latest_records;
mod limits;
mod middleware;
mod overview;
mod page;
mod pager;
mod pauses;
mod queue_row;
mod queues;
mod refresh;
mod resume;
mod schedules;
mod search;
mod session;
mod settings;
mod settings_form;
mod sign_in;
mod stat_card;
mod tenants;
mod timeline;
mod worker_name;
mod workers;

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
    sessions: session::Sessions,
    /// The form token while there are no keys and so no sessions.
    local_token: String,
    live: refresh::Live,
    /// The last known end of the audit trail.
    tail: latest_records::Tail,
}

impl Dashboard {
    fn store(&self) -> &Store {
        self.0.app.store()
    }

    fn now(&self) -> Timestamp {
        self.0.app.now()
    }
}

/// All pages, their actions and assets, and the refresh stream.
pub(crate) fn router(app: App, is_secure: bool) -> Router {
    let local_token = session::token(&app.store().environment().entropy);
    let board = Dashboard(Arc::new(Inner {
        app,
        is_secure,
        sessions: session::Sessions::default(),
        local_token,
        live: refresh::Live::default(),
        tail: latest_records::Tail::default(),
    }));
    Router::new()
        .merge(pages())
        .merge(actions())
        .method_not_allowed_fallback(|| async { page::PageError::only_a_form() })
        .layer(from_fn_with_state(board.clone(), middleware::guard))
        .with_state(board)
}

fn pages() -> Router<Dashboard> {
    Router::new()
        .route("/", get(overview::page))
        .route("/jobs", get(jobs::page))
        .route("/jobs/{id}", get(job::page))
        .route("/jobs/{id}/payload", get(job::download_payload))
        .route("/jobs/{id}/result", get(job::download_result))
        .route("/queues", get(queues::page))
        .route("/queues/{name}", get(queues::queue_page))
        .route("/types", get(job_types::page))
        .route("/types/{name}", get(job_types::type_page))
        .route("/workers", get(workers::page))
        .route("/schedules", get(schedules::page))
        .route("/dead", get(dead_letters::page))
        .route("/audit", get(audit::page))
        .route("/tenants", get(tenants::page))
        .route("/settings", get(settings::page))
        .route("/live", get(refresh::stream))
        .route("/sign-in", get(sign_in::page).post(sign_in::sign_in))
        .route("/assets/{version}/{name}", get(assets::serve))
}

fn actions() -> Router<Dashboard> {
    Router::new()
        .route("/sign-out", post(sign_in::sign_out))
        .route("/jobs/act", post(bulk_confirm::act))
        .route("/jobs/{id}/act", post(job_actions::act))
        .route("/queues/{name}/act", post(queues::act))
        .route("/queues/{name}/settings", post(queues::configure))
        .route("/types/{name}/act", post(job_types::act))
        .route("/workers/{id}/act", post(workers::act))
        .route("/schedules/{tenant}/{name}/act", post(schedules::act))
        .route("/dead/redrive", post(dead_letters::redrive))
        .route("/tenants/{name}/act", post(tenants::act))
        .route("/tenants/{name}/settings", post(tenants::configure))
        .route("/gate", post(pauses::act))
        .route("/clock", post(clock::accept))
        .route("/resume", post(resume::act))
        .route("/keys", post(keys::create))
        .route("/keys/{id}/revoke", post(keys::revoke))
}
