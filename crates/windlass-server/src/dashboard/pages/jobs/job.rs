//! The page of one job: its data, its history, why it is not running, and the possible actions.

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use windlass::clock::Timestamp;
use windlass::job::{ErrorCause, JobId, JobRecord, JobState, Payload, SavedStep, ordered_steps};
use windlass::store::caller::Permission;
use windlass::store::{Attempt, LogLine, Snapshot};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::graph::{self, Drawing};
use crate::dashboard::parts::children::{self, Children};
use crate::dashboard::parts::components::{JobLink, Pill, priority_name};
use crate::dashboard::parts::format::{Moment, bytes, line, local};
use crate::dashboard::parts::job_audit::{self, JobAudit};
use crate::dashboard::parts::job_details::{Detail, Value, facts};
use crate::dashboard::parts::json_view::FormattedJson;
use crate::dashboard::parts::output::{self, Output};
use crate::dashboard::parts::reason::{Fix, Means, ReasonView};
use crate::dashboard::parts::timeline::{Timeline, timeline};
use crate::dashboard::parts::waterfall::{self, Waterfall, step_label};
use crate::dashboard::requests::context::PageContext;
use crate::dashboard::requests::form::segment;
use crate::dashboard::requests::job_actions::AllowedActions;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// A line of its log.
struct LogView {
    number: u64,
    when: Timestamp,
    at: String,
    attempt: u32,
    text: String,
}

/// A checkpoint.
struct CheckpointView {
    step: String,
    size: String,
    /// None if the page has no space for more.
    value: Option<FormattedJson>,
}

/// The job it was redriven as.
struct Successor {
    link: JobLink,
    /// Its state and creation time, unless it was deleted.
    found: Option<(Pill, Moment)>,
}

/// The last error.
struct ErrorView {
    category: &'static str,
    code: Option<String>,
    message: String,
    at: Moment,
    attempt: u32,
    kind: &'static str,
    causes: Vec<ErrorCause>,
}

/// Its progress.
struct ProgressView {
    percent: String,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "jobs/job.html")]
struct JobPage {
    layout: Layout,
    id: String,
    pill: Pill,
    job_type: String,
    type_link: String,
    queue: String,
    queue_link: String,
    /// Shown to visitors who can see several.
    tenant: Option<String>,
    successor: Option<Successor>,
    tags: Vec<(String, String, String)>,
    facts: Vec<Detail>,
    reasons: Vec<ReasonView>,
    is_final: bool,
    error: Option<ErrorView>,
    progress: Option<ProgressView>,
    timeline: Timeline,
    waterfall: Option<Waterfall>,
    payload: Option<FormattedJson>,
    result: Option<FormattedJson>,
    checkpoints: Vec<CheckpointView>,
    /// The saved steps that it can be retried from, in their order.
    steps: Vec<String>,
    checkpoints_hidden: u64,
    may_read: bool,
    output: Option<Output>,
    logs: Vec<LogView>,
    logs_hidden: u64,
    children: Children,
    drawing: Option<Drawing>,
    audit: JobAudit,
    allowed: AllowedActions,
    may_manage: bool,
    /// The payload to edit before a retry, if the visitor may and it is JSON that fits into a form.
    draft: Option<String>,
    /// The form for a new job like this one, if the visitor may submit.
    like: Option<String>,
    priority: u8,
    priority_name: &'static str,
    signal_name: String,
}

impl JobPage {
    /// Whether the graph takes the full width of the page.
    fn is_wide(&self) -> bool {
        self.drawing.as_ref().is_some_and(|drawing| drawing.is_wide)
    }
}

async fn find(board: &Dashboard, visitor: &Visitor, id: &str) -> Result<Snapshot, PageError> {
    let missing = || PageError::not_found(format!("Job {id} does not exist, or you may not see it."));
    let id: JobId = id.parse().map_err(|_| missing())?;
    board.store().get(&visitor.caller, id).await?.ok_or_else(missing)
}

/// Reads a job and its attempts; reads again if the job changed in between.
async fn job_with_attempts(
    board: &Dashboard,
    visitor: &Visitor,
    id: &str,
) -> Result<(Snapshot, Vec<Attempt>), PageError> {
    let mut tries = 3;
    loop {
        let found = find(board, visitor, id).await?;
        let attempts = board.store().attempts(&visitor.caller, found.job.id).await?.unwrap_or_default();
        let is_running = attempts.last().is_some_and(|last| last.record.is_none());
        let is_one =
            attempts.len() as u64 == u64::from(found.job.attempt) && is_running == found.job.lease.is_some();
        tries -= 1;
        if is_one || tries == 0 {
            return Ok((found, attempts));
        }
    }
}

/// `GET /jobs/{id}`
pub(in crate::dashboard) async fn page(
    context: PageContext,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let (snapshot, attempts) = job_with_attempts(board, visitor, &id).await?;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let (job, spec) = (&snapshot.job, &snapshot.spec);
    let reasons = store.explain(caller, job.id).await?.unwrap_or_default();
    let may_read = !snapshot.is_redacted;
    let children = children::load(board, visitor, job, now).await?;
    let drawing = graph::load(board, visitor, job, &children.jobs).await?;
    let (logs, logs_hidden) = if may_read { logs(board, visitor, job, now).await? } else { (Vec::new(), 0) };
    let (checkpoints, saved_steps) =
        if may_read { checkpoints(board, visitor, job).await? } else { Default::default() };
    let waterfall = time_axis(board, visitor, &snapshot, &attempts, (&children.jobs, &logs)).await?;
    let (allowed, may_manage) =
        (AllowedActions::in_state_of(job), visitor.caller.require_manage(job, spec).is_ok());
    let is_alone = drawing.is_none() && children.jobs.is_empty() && job.parent.is_none();
    let means = Means { visitor, config, allowed, may_manage, is_alone, now };
    let title = format!("{} {}", job.lane.job_type, crate::dashboard::parts::format::short(&id));
    let layout = context.layout("jobs", title);
    let layout = if may_manage && (allowed.resume || allowed.withdraw) {
        layout.undone_by(query, &format!("/jobs/{}/act", job.id), &[("suspended", "resume")])
    } else {
        layout
    };
    let page = JobPage {
        layout: Layout { live: format!("{}&job={}", layout.live, job.id), ..layout },
        id: job.id.to_string(),
        pill: Pill(job.state),
        job_type: job.lane.job_type.to_string(),
        type_link: format!("/types/{}", segment(job.lane.job_type.as_str())),
        queue: job.lane.queue.to_string(),
        queue_link: format!("/queues/{}", segment(job.lane.queue.as_str())),
        tenant: caller.tenant.is_none().then(|| job.lane.tenant.to_string()),
        successor: successor(board, visitor, job, now).await?,
        tags: tags(&snapshot),
        facts: facts(&snapshot, config, now),
        reasons: reasons.iter().map(|reason| means.view(job, reason)).collect(),
        is_final: job.state.is_final(),
        error: error_view(job, now),
        progress: progress_view(job),
        waterfall,
        timeline: timeline(job, &attempts, config, now),
        payload: may_read.then(|| {
            FormattedJson::new(&spec.payload.bytes, &spec.payload.content_type, limits::SHOWN_BYTES_MAX)
        }),
        result: if may_read { result(board, visitor, job).await? } else { None },
        checkpoints_hidden: job.details.checkpoints.saturating_sub(checkpoints.len() as u64),
        checkpoints,
        steps: saved_steps,
        may_read,
        output: output::load(board, visitor, &snapshot).await?,
        logs,
        logs_hidden,
        audit: job_audit::of_job(board, visitor, config, job.id).await?,
        allowed,
        may_manage,
        draft: draft(visitor, &snapshot),
        like: visitor.may(Permission::Submit).then(|| format!("/jobs/new?like={}", job.id)),
        priority: job.priority.value(),
        priority_name: priority_name(job.priority),
        signal_name: awaited_signal(job),
        children,
        drawing,
    };
    show(&page)
}

/// The signal that a waiting job waits for first, or nothing.
fn awaited_signal(job: &JobRecord) -> String {
    let first = job.details.wait.as_ref().and_then(|wait| wait.signals().next());
    first.unwrap_or_default().to_owned()
}

/// Its attempts, steps, children and log lines on one time axis.
async fn time_axis(
    board: &Dashboard,
    visitor: &Visitor,
    snapshot: &Snapshot,
    attempts: &[Attempt],
    (children, logs): (&[JobRecord], &[LogView]),
) -> Result<Option<Waterfall>, PageError> {
    let job = &snapshot.job;
    let mut steps = Vec::new();
    if !snapshot.is_redacted && job.has.checkpoints {
        let read = board.store().step_times(&visitor.caller, job.id, limits::STEP_TIMES_READ);
        steps = read.await?.unwrap_or_default();
    }
    let logs: Vec<Timestamp> = logs.iter().map(|line| line.when).collect();
    let parts = waterfall::Parts { job, attempts, steps: &steps, children, logs: &logs };
    Ok(Waterfall::new(&parts, board.now()))
}

fn tags(snapshot: &Snapshot) -> Vec<(String, String, String)> {
    let link = |name: &str, value: &str| {
        crate::dashboard::requests::form::address("/jobs", [("tag", format!("{name}:{value}"))])
    };
    let tags = snapshot.spec.metadata.tags.iter();
    tags.map(|(name, value)| (name.clone(), value.clone(), link(name, value))).collect()
}

/// The job it was redriven as.
async fn successor(
    board: &Dashboard,
    visitor: &Visitor,
    job: &JobRecord,
    now: Timestamp,
) -> Result<Option<Successor>, PageError> {
    let Some(id) = job.details.superseded_by else { return Ok(None) };
    let found = board.store().job(&visitor.caller, id).await?;
    let found = found.map(|found| (Pill(found.state), Moment::new(found.created_at, now)));
    Ok(Some(Successor { link: JobLink(id), found }))
}

/// The payload as text to edit; None if it cannot be edited here.
pub(in crate::dashboard) fn draft(visitor: &Visitor, snapshot: &Snapshot) -> Option<String> {
    let payload = &snapshot.spec.payload;
    let is_ours = snapshot.job.lane.job_type.as_str() != windlass::callback::TYPE;
    let may_edit = visitor.may(Permission::Submit) && !snapshot.is_redacted && is_ours;
    may_edit.then(|| draft_of(payload)).flatten()
}

/// A payload as text to edit: JSON that fits into a form.
pub(in crate::dashboard) fn draft_of(payload: &Payload) -> Option<String> {
    let is_json = &*payload.content_type == Payload::JSON
        && serde_json::from_slice::<&RawValue>(&payload.bytes).is_ok();
    if !is_json || payload.bytes.len() > limits::EDITED_BYTES_MAX {
        return None;
    }
    let shown = FormattedJson::new(&payload.bytes, Payload::JSON, limits::EDITED_BYTES_MAX);
    (!shown.is_cut).then(|| shown.pieces.into_iter().map(|piece| piece.text).collect())
}

fn error_view(job: &JobRecord, now: Timestamp) -> Option<ErrorView> {
    let error = job.details.error.as_ref()?;
    Some(ErrorView {
        category: error.category.as_str(),
        code: error.code.clone(),
        message: error.message.clone(),
        at: Moment::new(error.at, now),
        attempt: error.attempt,
        kind: match job.state {
            _ if error.retryable => "is retried",
            JobState::DeadLetter => "not retried any more",
            _ => "not retried",
        },
        causes: error.cause.clone(),
    })
}

fn progress_view(job: &JobRecord) -> Option<ProgressView> {
    let progress = job.details.progress.as_ref()?;
    let message = progress.message.as_deref().map(|message| line(message, 300));
    Some(ProgressView { percent: format!("{:.0}", progress.percent), message })
}

async fn result(
    board: &Dashboard,
    visitor: &Visitor,
    job: &JobRecord,
) -> Result<Option<FormattedJson>, PageError> {
    let found = board.store().result(&visitor.caller, job.id).await?;
    let bytes = found.and_then(|result| result.0);
    Ok(bytes.map(|bytes| FormattedJson::new(&bytes, "application/json", limits::SHOWN_BYTES_MAX)))
}

/// The checkpoints that fit on the page, and the steps among them in their order.
async fn checkpoints(
    board: &Dashboard,
    visitor: &Visitor,
    job: &JobRecord,
) -> Result<(Vec<CheckpointView>, Vec<String>), PageError> {
    if !job.has.checkpoints {
        return Ok(Default::default());
    }
    let read = board.store().first_checkpoints(&visitor.caller, job.id, limits::CHECKPOINTS_SHOWN);
    let found = read.await?.unwrap_or_default();
    let saved: Vec<SavedStep<'_>> = found
        .iter()
        .map(|checkpoint| SavedStep { key: &checkpoint.step, record: &checkpoint.value })
        .collect();
    let steps = ordered_steps(&saved).into_iter().map(str::to_owned).collect();
    let mut room = limits::CHECKPOINTS_BYTES_MAX;
    let shown = found.into_iter().map(|checkpoint| {
        let value = (room > 0)
            .then(|| FormattedJson::new(&checkpoint.value, "application/json", limits::CHECKPOINT_BYTES_MAX));
        room = room.saturating_sub(value.as_ref().map_or(0, |value| value.cost));
        CheckpointView { step: step_label(&checkpoint.step), size: bytes(checkpoint.value.len()), value }
    });
    Ok((shown.collect(), steps))
}

/// The latest lines that fit on the page, and how many came before.
async fn logs(
    board: &Dashboard,
    visitor: &Visitor,
    job: &JobRecord,
    now: Timestamp,
) -> Result<(Vec<LogView>, u64), PageError> {
    if job.details.log_lines == 0 {
        return Ok((Vec::new(), 0));
    }
    let after = job.details.log_lines.saturating_sub(limits::LOG_LINES_SHOWN);
    let mut lines = board.store().logs(&visitor.caller, job.id, after).await?.unwrap_or_default();
    let mut room = limits::LOG_BYTES_SHOWN;
    let fit = lines.iter().rev().take_while(|(_, line)| {
        let is_room = room > 0;
        room = room.saturating_sub(line.text.len().min(limits::LINE_CHARS_SHOWN));
        is_room
    });
    let lines = lines.split_off(lines.len() - fit.count());
    let hidden = lines.first().map_or(0, |(number, _)| number.saturating_sub(1));
    Ok((lines.into_iter().map(|line| log_view(line, now)).collect(), hidden))
}

fn log_view((number, line): (u64, LogLine), now: Timestamp) -> LogView {
    let (at, today, millis) = (local(line.at), local(now), line.at.as_millis().rem_euclid(1_000));
    let is_today = at.get(..10) == today.get(..10);
    let shown = if is_today { at.get(11..) } else { at.get(..) };
    let is_cut = line.text.len() > limits::LINE_CHARS_SHOWN;
    let mut text = line.text;
    if is_cut {
        text = text.chars().take(limits::LINE_CHARS_SHOWN).chain(['…']).collect();
    }
    LogView {
        number,
        when: line.at,
        at: format!("{}.{millis:03}", shown.unwrap_or_default()),
        attempt: line.attempt,
        text,
    }
}

/// `GET /jobs/{id}/payload`
pub(in crate::dashboard) async fn download_payload(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let snapshot = find(&board, &visitor, &id).await?;
    if snapshot.is_redacted {
        return Err(PageError::forbidden("your key may not read the payload of this job"));
    }
    Ok(attachment(&id, "payload", snapshot.spec.payload.bytes.to_vec()))
}

/// `GET /jobs/{id}/result`
pub(in crate::dashboard) async fn download_result(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let snapshot = find(&board, &visitor, &id).await?;
    let found = board.store().result(&visitor.caller, snapshot.job.id).await?;
    let bytes =
        found.and_then(|result| result.0).ok_or_else(|| PageError::not_found("this job has no result"))?;
    Ok(attachment(&id, "result", bytes.to_vec()))
}

/// Bytes as a download; the browser never renders them.
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
