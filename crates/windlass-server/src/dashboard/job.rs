//! One job: what it is, what happened to it, why it does not run, and what may be done about it.

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use windlass::clock::Timestamp;
use windlass::job::{Job, JobId, Wait};
use windlass::store::query::explain::Reason;
use windlass::store::query::snapshot::Snapshot;

use super::audit::{self, RecordRow};
use super::facts::{Fact, Value, facts};
use super::family::{self, Family};
use super::form::{Query, segment};
use super::format::{Moment, line};
use super::graph::{self, Drawing};
use super::guard::Visitor;
use super::mark::{Pill, priority_name};
use super::operate::Allowed;
use super::page::{Shell, Trouble, show};
use super::text::Shown;
use super::timeline::{Timeline, timeline};
use super::{Dashboard, limits};

/// Why it does not run.
struct ReasonView {
    code: &'static str,
    message: String,
    reason: Option<String>,
}

/// A line of its log.
struct LogView {
    number: u64,
    at: String,
    attempt: u32,
    text: String,
}

/// A step that it has saved.
struct CheckpointView {
    step: String,
    value: Shown,
}

/// What went wrong last.
struct ErrorView {
    category: &'static str,
    code: Option<String>,
    message: String,
    at: Moment,
    attempt: u32,
    kind: &'static str,
}

/// How far it says it is.
struct ProgressView {
    percent: String,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    id: String,
    pill: Pill,
    job_type: String,
    type_link: String,
    queue: String,
    queue_link: String,
    tenant: String,
    tags: Vec<(String, String, String)>,
    facts: Vec<Fact>,
    reasons: Vec<ReasonView>,
    is_final: bool,
    error: Option<ErrorView>,
    progress: Option<ProgressView>,
    timeline: Timeline,
    payload: Option<Shown>,
    result: Option<Shown>,
    checkpoints: Vec<CheckpointView>,
    may_read: bool,
    logs: Vec<LogView>,
    logs_hidden: u64,
    family: Family,
    drawing: Option<Drawing>,
    records: Vec<RecordRow>,
    allowed: Allowed,
    may_manage: bool,
    priority: u8,
    priority_name: &'static str,
    signal_name: String,
}

async fn find(board: &Dashboard, visitor: &Visitor, id: &str) -> Result<Snapshot, Trouble> {
    let missing = || Trouble::not_found(format!("There is no job {id}, or it is not yours to see."));
    let id: JobId = id.parse().map_err(|_| missing())?;
    board.store().get(&visitor.caller, id).await?.ok_or_else(missing)
}

/// `GET /jobs/{id}`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let snapshot = find(&board, &visitor, &id).await?;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let (job, spec) = (&snapshot.job, &snapshot.spec);
    let config = store.config(caller).await?;
    let attempts = store.attempts(caller, job.id).await?.unwrap_or_default();
    let reasons = store.explain(caller, job.id).await?.unwrap_or_default();
    let may_read = visitor.may_read_payload(&spec.owner);
    let family = family::of(&board, &visitor, job, now).await?;
    let drawing = graph::around(&board, &visitor, job, &family.jobs).await?;
    let (logs, logs_hidden) = logs(&board, &visitor, job).await?;
    let title = format!("{} {}", job.lane.job_type, super::format::short(&id));
    let shell = Shell::of(&board, &visitor, &config, "jobs", title).saying(&query);
    let page = JobPage {
        shell: Shell { live: format!("{}&job={}", shell.live, job.id), ..shell },
        id: job.id.to_string(),
        pill: Pill(job.state),
        job_type: job.lane.job_type.to_string(),
        type_link: format!("/types/{}", segment(job.lane.job_type.as_str())),
        queue: job.lane.queue.to_string(),
        queue_link: format!("/queues/{}", segment(job.lane.queue.as_str())),
        tenant: job.lane.tenant.to_string(),
        tags: tags(&snapshot),
        facts: facts(&snapshot, &config, now),
        reasons: reasons.iter().map(reason_view).collect(),
        is_final: job.state.is_final(),
        error: error_view(job, now),
        progress: progress_view(job),
        timeline: timeline(job, &attempts, &config, now),
        payload: may_read
            .then(|| Shown::of(&spec.payload.bytes, &spec.payload.content_type, limits::SHOWN_BYTES_MAX)),
        result: if may_read { result(&board, &visitor, job).await? } else { None },
        checkpoints: if may_read { checkpoints(&board, &visitor, job).await? } else { Vec::new() },
        may_read,
        logs,
        logs_hidden,
        records: audit::of_job(&board, &visitor, job.id).await?,
        allowed: Allowed::in_state_of(job, now),
        may_manage: visitor.caller.must_manage(job, spec).is_ok(),
        priority: job.priority.value(),
        priority_name: priority_name(job.priority),
        signal_name: match &job.details.wait {
            Some(Wait::Signal { name, .. }) => name.clone(),
            Some(Wait::Timer { .. } | Wait::Children { .. }) | None => String::new(),
        },
        family,
        drawing,
    };
    show(&page)
}

fn tags(snapshot: &Snapshot) -> Vec<(String, String, String)> {
    let link = |name: &str, value: &str| super::form::address("/jobs", [("tag", format!("{name}:{value}"))]);
    let tags = snapshot.spec.labels.tags.iter();
    tags.map(|(name, value)| (name.clone(), value.clone(), link(name, value))).collect()
}

fn reason_view(reason: &Reason) -> ReasonView {
    let text = reason.details.get("reason").and_then(|text| text.as_str()).map(str::to_owned);
    ReasonView { code: reason.code, message: reason.message.clone(), reason: text }
}

fn error_view(job: &Job, now: Timestamp) -> Option<ErrorView> {
    let error = job.details.error.as_ref()?;
    Some(ErrorView {
        category: error.category.as_str(),
        code: error.code.clone(),
        message: error.message.clone(),
        at: Moment::new(error.at, now),
        attempt: error.attempt,
        kind: if error.retryable { "may be retried" } else { "not retried" },
    })
}

fn progress_view(job: &Job) -> Option<ProgressView> {
    let progress = job.details.progress.as_ref()?;
    let message = progress.message.as_deref().map(|message| line(message, 300));
    Some(ProgressView { percent: format!("{:.0}", progress.percent), message })
}

async fn result(board: &Dashboard, visitor: &Visitor, job: &Job) -> Result<Option<Shown>, Trouble> {
    let found = board.store().result(&visitor.caller, job.id).await?;
    let bytes = found.and_then(|result| result.0);
    Ok(bytes.map(|bytes| Shown::of(&bytes, "application/json", limits::SHOWN_BYTES_MAX)))
}

async fn checkpoints(
    board: &Dashboard,
    visitor: &Visitor,
    job: &Job,
) -> Result<Vec<CheckpointView>, Trouble> {
    if !job.has.checkpoints {
        return Ok(Vec::new());
    }
    let found = board.store().checkpoints(&visitor.caller, job.id).await?.unwrap_or_default();
    let shown = found.into_iter().take(limits::CHECKPOINTS_SHOWN).map(|checkpoint| CheckpointView {
        step: checkpoint.step,
        value: Shown::of(&checkpoint.value, "application/json", limits::CHECKPOINT_BYTES_MAX),
    });
    Ok(shown.collect())
}

/// The latest lines, and how many came before them.
async fn logs(board: &Dashboard, visitor: &Visitor, job: &Job) -> Result<(Vec<LogView>, u64), Trouble> {
    let hidden = job.details.log_lines.saturating_sub(limits::LOG_LINES_SHOWN);
    if job.details.log_lines == 0 {
        return Ok((Vec::new(), 0));
    }
    let lines = board.store().logs(&visitor.caller, job.id, hidden).await?.unwrap_or_default();
    let view = |(number, line): (u64, windlass::store::command::step::LogLine)| LogView {
        number,
        // The date is in the job's facts; lines are told apart by the time of day.
        at: line.at.to_string().get(11..23).unwrap_or_default().to_owned(),
        attempt: line.attempt,
        text: line.text,
    };
    Ok((lines.into_iter().map(view).collect(), hidden))
}

/// `GET /jobs/{id}/payload`
pub(super) async fn download_payload(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let spec = find(&board, &visitor, &id).await?.spec;
    if !visitor.may_read_payload(&spec.owner) {
        return Err(Trouble::forbidden("your role does not show payloads"));
    }
    Ok(attachment(&id, "payload", spec.payload.bytes.to_vec()))
}

/// `GET /jobs/{id}/result`
pub(super) async fn download_result(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let snapshot = find(&board, &visitor, &id).await?;
    if !visitor.may_read_payload(&snapshot.spec.owner) {
        return Err(Trouble::forbidden("your role does not show results"));
    }
    let found = board.store().result(&visitor.caller, snapshot.job.id).await?;
    let bytes =
        found.and_then(|result| result.0).ok_or_else(|| Trouble::not_found("this job has no result"))?;
    Ok(attachment(&id, "result", bytes.to_vec()))
}

/// Bytes to be kept, never shown: whatever they are, the browser does not look at them.
fn attachment(id: &str, what: &str, bytes: Vec<u8>) -> Response {
    let name: String = id.chars().filter(|c| c.is_ascii_hexdigit() || *c == '-').collect();
    let disposition = format!("attachment; filename=\"{what}-{name}\"");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_str(&disposition).expect("digits are a header value"),
        ),
    ];
    (headers, bytes).into_response()
}
