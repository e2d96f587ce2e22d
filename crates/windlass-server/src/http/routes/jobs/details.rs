//! Job data: attempts, checkpoints, events, children, logs, result, and why the job is not running.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass::internal::wire::filter::page_limit;
use windlass::internal::wire::job_details as encode;
use windlass::job::{JobId, Seq};
use windlass::limits::{CHILD_PAGE_BYTES, CHILD_PAGE_MAX, PAGE_RECORDS_MAX};
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass::store::{ChildQuery, Snapshot};
use windlass_api::job_details::{
    Attempts, Checkpoints, Children, JobResult, Logs, Reasons, Token, TokenBody,
};
use windlass_api::json::Json;
use windlass_api::record::{JobEvents, RecordView};
use windlass_api::text::Text;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::{Created, JsonOk};
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::path::JobPath;
use crate::http::request::query::Query;
use crate::http::routes::audit::cursor_of;
use crate::limits::JOB_TOKEN_DEFAULT;

fn missing(id: JobId) -> ApiError {
    ApiError::not_found(format!("no job {id}"))
}

async fn snapshot(app: &App, caller: &Caller, id: JobId) -> Result<Snapshot, ApiError> {
    app.store().get(caller, id).await?.ok_or_else(|| missing(id))
}

/// `GET /jobs/{id}/attempts`
pub(crate) async fn attempts(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
) -> Result<JsonOk<Attempts>, ApiError> {
    let job = snapshot(&app, &caller, id).await?.job;
    let found = app.store().attempts(&caller, id).await?.ok_or_else(|| missing(id))?;
    let attempts = found.iter().map(|attempt| encode::attempt(attempt, &job)).collect();
    Ok(JsonOk(Attempts { attempts }))
}

/// `GET /jobs/{id}/checkpoints`
pub(crate) async fn checkpoints(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
) -> Result<JsonOk<Checkpoints>, ApiError> {
    let found = app.store().checkpoints(&caller, id).await?.ok_or_else(|| missing(id))?;
    Ok(JsonOk(Checkpoints { checkpoints: found.into_iter().map(Into::into).collect() }))
}

/// Which page of a job's events.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EventsQuery {
    /// Maximum number of events, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// `GET /jobs/{id}/events`
pub(crate) async fn events(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    Query(query): Query<EventsQuery>,
) -> Result<JsonOk<JobEvents>, ApiError> {
    snapshot(&app, &caller, id).await?;
    let limit = page_limit(query.limit.or(Some(PAGE_RECORDS_MAX)), PAGE_RECORDS_MAX)?;
    let after = cursor_of(query.cursor.as_deref())?;
    let query = RecordQuery { job: Some(id), after, limit, ..RecordQuery::default() };
    let page = app.store().audit_page(&caller, query).await?;
    let next_cursor = page.next.map(|next| next.to_string());
    Ok(JsonOk(JobEvents { events: page.records.into_iter().map(RecordView::from).collect(), next_cursor }))
}

/// Filter for children.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChildrenQuery {
    /// Only children of the group with this name.
    group: Option<String>,
    /// Maximum number of children, 1 to 1000; all of them if neither this nor `cursor` is given. A page also ends after
    /// 8 MiB of results.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// `GET /jobs/{id}/children`
pub(crate) async fn children(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    Query(query): Query<ChildrenQuery>,
) -> Result<JsonOk<Children>, ApiError> {
    let (groups, next) = if query.limit.is_some() || query.cursor.is_some() {
        let limit = page_limit(query.limit.or(Some(CHILD_PAGE_MAX)), CHILD_PAGE_MAX)?;
        let after = query.cursor.as_deref().map(|cursor| cursor_of(Some(cursor))).transpose()?;
        let after = after.map(|after| Seq(i64::try_from(after).unwrap_or(i64::MAX)));
        let query = ChildQuery { name: query.group, after, limit, bytes: CHILD_PAGE_BYTES };
        let page = app.store().child_page(&caller, id, query).await?.ok_or_else(|| missing(id))?;
        (page.groups, page.next)
    } else {
        let groups = match &query.group {
            Some(name) => app.store().groups_named(&caller, id, name).await?,
            None => app.store().groups(&caller, id).await?,
        };
        (groups.ok_or_else(|| missing(id))?, None)
    };
    let children = groups.iter().flat_map(encode::children).collect();
    let next_cursor = next.map(|Seq(last)| last.to_string());
    Ok(JsonOk(Children { children, groups: groups.iter().map(Into::into).collect(), next_cursor }))
}

/// Which lines of a log.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct LogsQuery {
    /// Only lines after this number.
    after: Option<u64>,
}

/// `GET /jobs/{id}/logs`
pub(crate) async fn logs(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    Query(query): Query<LogsQuery>,
) -> Result<JsonOk<Logs>, ApiError> {
    let found = app.store().logs(&caller, id, query.after.unwrap_or(0)).await?;
    let lines = found.ok_or_else(|| missing(id))?;
    Ok(JsonOk(Logs { logs: lines.into_iter().map(encode::log_line).collect() }))
}

/// `GET /jobs/{id}/result`
pub(crate) async fn result(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
) -> Result<JsonOk<JobResult>, ApiError> {
    let job = snapshot(&app, &caller, id).await?.job;
    let found = app.store().result(&caller, id).await?.ok_or_else(|| missing(id))?;
    Ok(JsonOk(JobResult {
        state: Text(job.state),
        result: found.0.as_deref().and_then(Json::stored),
        error: job.details.error.as_ref().map(Into::into),
    }))
}

/// `POST /jobs/{id}/tokens`
pub(crate) async fn token(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
    Body(body): Body<TokenBody>,
) -> Result<Created<Token>, ApiError> {
    let lasts = body.expires.map_or(JOB_TOKEN_DEFAULT, |span| span.0);
    let token = app.store().job_token(&caller, id, lasts).await?;
    Ok(Created(Token { token: token.reveal(), expires_at: token.expires_at.into() }))
}

/// `GET /jobs/{id}/explain`
pub(crate) async fn explain(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
) -> Result<JsonOk<Reasons>, ApiError> {
    let reasons = app.store().explain(&caller, id).await?.ok_or_else(|| missing(id))?;
    Ok(JsonOk(Reasons { reasons: reasons.into_iter().map(Into::into).collect() }))
}
