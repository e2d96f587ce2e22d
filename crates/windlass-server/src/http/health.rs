//! Whether the process is alive and the store can be reached; for machines that restart or route around it.

use axum::extract::State;
use axum::http::StatusCode;
use windlass::store::caller::Caller;

use super::app::App;
use super::problem::Problem;
use super::reply::Plain;

/// `GET /healthz`
pub(crate) async fn alive() -> Result<Plain, Problem> {
    Ok(Plain("ok\n".to_owned()))
}

/// `GET /readyz`
pub(crate) async fn ready(State(app): State<App>) -> Result<Plain, Problem> {
    if app.is_draining() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "the server is about to stop"));
    }
    // Asked, not remembered.
    app.store().config(&Caller::system()).await?;
    Ok(Plain("ok\n".to_owned()))
}
