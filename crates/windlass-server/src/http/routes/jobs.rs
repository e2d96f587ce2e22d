//! Jobs: submit, get, list, delete. Actions and job data are in submodules.

pub(crate) mod actions;
pub(crate) mod bulk;
pub(crate) mod details;
pub(crate) mod graph;
pub(crate) mod stream;

use axum::Extension;
use schemars::JsonSchema;
use serde::Deserialize;
use windlass::error::StoreError;
use windlass::job::{JobId, JobState, NewJob, TraceHeaders};
use windlass::store::caller::Caller;
use windlass::store::{Cursor, ListRequest, Order, Receipt, Snapshot, SubmitOptions};
use windlass_api::filter::ListQuery;
use windlass_api::job::{Job, JobPage, SubmittedJob, SubmittedJobs};
use windlass_api::json::Json;
use windlass_api::payload;
use windlass_api::submission::{Batch, Submission};
use windlass_api::time::QuerySpan;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::etag::{EntityTag, Fresh, IfMatchHeader, IfNoneMatch, WithEtag};
use crate::http::reply::response::{Created, CreatedOrExisting, Large, NoContent};
use crate::http::reply::trace::MaybeTrace;
use crate::http::request::auth::Call;
use crate::http::request::body_budget::BodyReservation;
use crate::http::request::json::Body;
use crate::http::request::path::JobPath;
use crate::http::request::query::Query;
use crate::limits;

/// Whether an action without effect is an error.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StrictQuery {
    /// Return 409 instead of success if nothing would change.
    pub(crate) strict: bool,
}

/// `POST /jobs`
pub(crate) async fn submit(
    Call { app, caller }: Call,
    MaybeTrace(trace): MaybeTrace,
    Query(query): Query<StrictQuery>,
    Body(submission): Body<Submission>,
) -> Result<WithEtag<CreatedOrExisting<SubmittedJob>>, ApiError> {
    let job = submission.into_job(trace.as_ref())?;
    let options = SubmitOptions { strict: query.strict };
    let receipts = app.store().submit_and_read(&caller, vec![job], options).await;
    let receipt = receipts.map_err(|error| ApiError::of_submission(error, false))?.pop();
    let receipt = receipt.expect("one submission has one receipt");
    let is_found = receipt.is_duplicate || receipt.is_debounced;
    let job = submit_response(&app, &caller, receipt).await?;
    let tag = EntityTag::for_job(&job.job);
    Ok(WithEtag(if is_found { CreatedOrExisting::Found(job) } else { CreatedOrExisting::Made(job) }, tag))
}

/// The library's jobs; an error names the job it is about.
pub(crate) fn into_jobs(
    jobs: Vec<Submission>,
    trace: Option<&TraceHeaders>,
) -> Result<Vec<NewJob>, ApiError> {
    let placed = |(index, job): (usize, Submission)| {
        let place = |invalid| ApiError::from(invalid).within(&format!("jobs.{index}")).with("index", index);
        job.into_job(trace).map_err(place)
    };
    jobs.into_iter().enumerate().map(placed).collect()
}

/// `POST /jobs/batch`
pub(crate) async fn submit_batch(
    Call { app, caller }: Call,
    MaybeTrace(trace): MaybeTrace,
    Query(query): Query<StrictQuery>,
    Body(batch): Body<Batch>,
) -> Result<Created<SubmittedJobs>, ApiError> {
    let jobs = into_jobs(batch.jobs, trace.as_ref())?;
    let options = SubmitOptions { strict: query.strict };
    let receipts = app.store().submit_and_read(&caller, jobs, options).await;
    let mut jobs = Vec::new();
    for receipt in receipts.map_err(|error| ApiError::of_submission(error, true))? {
        jobs.push(submit_response(&app, &caller, receipt).await?);
    }
    Ok(Created(SubmittedJobs { jobs }))
}

async fn submit_response(
    app: &App,
    caller: &Caller,
    receipt: Receipt<Snapshot>,
) -> Result<SubmittedJob, ApiError> {
    Ok(SubmittedJob {
        job: with_result(app, caller, receipt.job).await?,
        duplicate: receipt.is_duplicate,
        payload_differs: receipt.payload_differs,
        deleted: receipt.is_deleted,
        debounced: receipt.is_debounced,
    })
}

/// Adds the job's result, if it has one.
async fn with_result(app: &App, caller: &Caller, snapshot: Snapshot) -> Result<Job, ApiError> {
    let result = result_of(app, caller, &snapshot).await?;
    Ok(Job { result, ..snapshot.into() })
}

async fn result_of(app: &App, caller: &Caller, snapshot: &Snapshot) -> Result<Option<Json>, ApiError> {
    if !snapshot.job.has.result || snapshot.is_redacted {
        return Ok(None);
    }
    match app.store().result(caller, snapshot.job.id).await {
        Ok(result) => Ok(result.and_then(|result| Json::stored(&result.0?))),
        // The worker lost the job's lease a moment ago.
        Err(StoreError::Forbidden(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The payload, if requested and permitted.
fn payload_of(snapshot: &Snapshot, is_wanted: bool) -> Option<payload::PayloadView> {
    (is_wanted && !snapshot.is_redacted).then(|| payload::PayloadView::from(&snapshot.spec.payload))
}

/// How to read one job.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct JobQuery {
    /// Wait up to this long for the job to become final, at most 5 m.
    wait: Option<QuerySpan>,
    /// Include the payload.
    payload: Option<bool>,
}

/// `GET /jobs/{id}`
pub(crate) async fn get(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    held: IfNoneMatch,
    Query(query): Query<JobQuery>,
) -> Result<Fresh<Job>, ApiError> {
    let wait = query.wait.map_or(std::time::Duration::ZERO, |wait| wait.0);
    if wait > limits::JOB_WAIT_MAX {
        return Err(ApiError::invalid("wait", "is longer than 5m"));
    }
    let found = if wait.is_zero() {
        app.store().get(&caller, id).await?
    } else {
        tokio::select! {
            found = app.store().wait(&caller, id, wait) => found?,
            () = app.draining() => app.store().get(&caller, id).await?,
        }
    };
    let snapshot = found.ok_or_else(|| ApiError::not_found(format!("no job {id}")))?;
    let shown = payload_of(&snapshot, query.payload.unwrap_or(false));
    let view = with_result(&app, &caller, snapshot).await?;
    let view = match shown {
        Some(payload) => view.with_payload(payload),
        None => view,
    };
    let tag = EntityTag::for_job(&view);
    Ok(Fresh::unless_held(view, tag, &held))
}

/// `GET /jobs`
pub(crate) async fn list(
    Call { app, caller }: Call,
    Extension(room): Extension<BodyReservation>,
    Query(query): Query<ListQuery>,
) -> Result<Large<JobPage>, ApiError> {
    let with_payload = query.payload.unwrap_or(false);
    let request = ListRequest::try_from(query)?;
    refuse_to_sort_too_many(&app, &caller, &request).await?;
    let page = app.store().list(&caller, request).await?;
    if with_payload {
        // Checked before the response is built, which takes the same memory again.
        let payloads: usize = page.jobs.iter().map(|snapshot| snapshot.spec.payload.bytes.len()).sum();
        room.hold(payloads.min(limits::LIST_BYTES_MAX))?;
    }
    let (mut jobs, mut next, mut bytes, mut last) = (Vec::new(), page.next, 0, None);
    let is_read = |snapshot: &Snapshot| snapshot.job.has.result && !snapshot.is_redacted;
    let with_result = page.jobs.iter().filter(|snapshot| is_read(snapshot));
    let with_result: Vec<JobId> = with_result.map(|snapshot| snapshot.job.id).collect();
    let mut results = app.store().results(&caller, with_result, limits::LIST_BYTES_MAX).await?;
    for snapshot in page.jobs {
        let stored = results.remove(&snapshot.job.id);
        // Left out, because the page is full.
        if is_read(&snapshot) && stored.is_none() && last.is_some() {
            next = last;
            break;
        }
        let result = stored.and_then(|result| Json::stored(&result));
        bytes += result.as_ref().map_or(0, |result| result.bytes().len());
        let shown = payload_of(&snapshot, with_payload);
        bytes += if shown.is_some() { snapshot.spec.payload.bytes.len() } else { 0 };
        // One job is always included; otherwise the list could never continue.
        if bytes > limits::LIST_BYTES_MAX && last.is_some() {
            next = last;
            break;
        }
        last = Some(Cursor::after(&snapshot.job));
        let view = Job { result, ..snapshot.into() };
        jobs.push(match shown {
            Some(payload) => view.with_payload(payload),
            None => view,
        });
    }
    let page = JobPage { jobs, next_cursor: next.map(|cursor| cursor.to_string()) };
    Ok(Large::encode(page, bytes).await)
}

/// Only claimable jobs are indexed in claim order; other jobs would all have to be sorted for every page.
async fn refuse_to_sort_too_many(app: &App, caller: &Caller, request: &ListRequest) -> Result<(), ApiError> {
    if request.order != Order::Claim || request.filter.states == [JobState::Scheduled] {
        return Ok(());
    }
    let max = limits::CLAIM_ORDER_SORTED_MAX;
    let counted = app.store().count_up_to(caller, &request.filter, max).await?;
    if counted.is_all && counted.jobs <= max as u64 {
        return Ok(());
    }
    let message = format!(
        "claim would sort more than {max} jobs: use state=scheduled, which is indexed in that order, or \
         the order newest or oldest"
    );
    Err(ApiError::invalid("order", message))
}

/// `DELETE /jobs/{id}`
pub(crate) async fn delete(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    IfMatchHeader(if_match): IfMatchHeader,
) -> Result<NoContent, ApiError> {
    app.store().delete_if(&caller, id, if_match).await?;
    Ok(NoContent)
}
