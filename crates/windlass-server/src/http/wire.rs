//! The types of the HTTP API, and their conversion to and from the library's types. The library may change; the API must
//! stay compatible.

pub(crate) mod known;
pub(crate) mod page;
pub(crate) mod pause;
pub(crate) mod stats;

pub(crate) use windlass_api::json::Json;
pub(crate) use windlass_api::{
    claim, expires, filter, job, job_details, outcome, payload, priority, record, retention, schedule,
    settings, submission, tags, text, time,
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
