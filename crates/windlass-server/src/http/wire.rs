//! The types of the HTTP API, and their conversion to and from the library's types. The library may change; the API must
//! stay compatible.

pub(crate) mod page;

pub(crate) use windlass_api::json::Json;
pub(crate) use windlass_api::{
    actions, claim, clock, filter, job, job_details, outcome, payload, record, retention, schedule,
    submission, text, time,
};

use windlass::job::{NewJob, Traceparent};

use crate::http::reply::error::ApiError;

/// The library's jobs; an error names the job it is about.
pub(crate) fn into_jobs(
    jobs: Vec<submission::Submission>,
    trace: Option<&Traceparent>,
) -> Result<Vec<NewJob>, ApiError> {
    let placed = |(index, job): (usize, submission::Submission)| {
        let place = |invalid| ApiError::from(invalid).within(&format!("jobs.{index}")).with("index", index);
        job.into_job(trace).map_err(place)
    };
    jobs.into_iter().enumerate().map(placed).collect()
}

use windlass::store::caller::Caller;
use windlass::store::query::known::{KnownNames, Named};
use windlass_api::known::Known;

use crate::http::app::App;

/// Whether a name is known, and similar names.
pub(crate) async fn known(app: &App, caller: &Caller, named: Named) -> Result<Known, ApiError> {
    let KnownNames { is_known, similar } = app.store().known(caller, named).await?;
    Ok(Known { known: is_known, similar })
}

/// The error of a strict request if the object is already paused.
pub(crate) fn already_paused(what: impl std::fmt::Display) -> ApiError {
    ApiError::conflict("already_paused", format!("{what} is already paused"))
        .with("state", "paused")
        .with("action", "pause")
}

/// The error of a strict request if the object is not paused.
pub(crate) fn not_paused(what: impl std::fmt::Display) -> ApiError {
    ApiError::conflict("not_paused", format!("{what} is not paused"))
        .with("state", "active")
        .with("action", "resume")
}
