//! Whether the process is alive and the store can be reached; for machines that restart or route around it.

use axum::extract::State;
use axum::http::StatusCode;

use super::app::App;
use super::problem::Problem;

/// `GET /healthz`
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// `GET /readyz`
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, Problem> {
    if app.is_draining() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "the server is about to stop"));
    }
    app.store().has_keys().await?;
    Ok("ok\n")
}
