//! Health checks for supervisors and load balancers: whether the process is alive and the store can be reached.

use axum::extract::State;
use axum::http::StatusCode;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::Plain;
use crate::limits;

/// `GET /healthz`
pub(crate) async fn alive() -> Result<Plain, ApiError> {
    Ok(Plain("ok\n".to_owned()))
}

/// `GET /readyz`
pub(crate) async fn ready(State(app): State<App>) -> Result<Plain, ApiError> {
    if app.is_draining() {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "the server is stopping"));
    }
    // Asks the store each time. A slow or unreachable store is not ready, and a health check must not wait for it.
    let Ok(answer) = tokio::time::timeout(limits::READY_WAIT_MAX, app.store().ready()).await else {
        let message = format!("the store did not respond within {:?}", limits::READY_WAIT_MAX);
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "database", message));
    };
    answer?;
    Ok(Plain("ok\n".to_owned()))
}
