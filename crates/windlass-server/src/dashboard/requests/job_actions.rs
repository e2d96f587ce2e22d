//! Actions on one job. The store decides what is allowed; the page shows only actions that the state allows.

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::value::RawValue;
use windlass::job::{JobAction, JobId, JobRecord, JobState, Payload, Priority, SuspendMode};
use windlass::store::{ActionRequest, Redrive, Suspend};

use crate::dashboard::Dashboard;
use crate::dashboard::page::PageError;
use crate::dashboard::pages::jobs::graph;
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::{Fields, address};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::undo::{PageAddress, UndoRequest};

/// The possible actions in a job's state.
#[allow(clippy::struct_excessive_bools, reason = "each is a button of its own")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::dashboard) struct AllowedActions {
    pub(in crate::dashboard) submit: bool,
    pub(in crate::dashboard) suspend: bool,
    /// Whether it is running, so that suspending needs a mode.
    pub(in crate::dashboard) is_running: bool,
    pub(in crate::dashboard) resume: bool,
    /// Whether a suspension is waiting for the running attempt to end; a resume withdraws it.
    pub(in crate::dashboard) withdraw: bool,
    pub(in crate::dashboard) cancel: bool,
    pub(in crate::dashboard) prioritise: bool,
    pub(in crate::dashboard) signal: bool,
    pub(in crate::dashboard) redrive: bool,
    /// Whether the job completed, so that redriving would repeat it.
    pub(in crate::dashboard) is_repeat: bool,
    pub(in crate::dashboard) delete: bool,
}

impl AllowedActions {
    /// The actions that the state allows.
    pub(in crate::dashboard) fn in_state_of(job: &JobRecord) -> AllowedActions {
        let is_allowed = |action: JobAction| action.is_allowed_in(job.state);
        AllowedActions {
            is_repeat: job.state == JobState::Completed,
            submit: is_allowed(JobAction::Submit),
            suspend: is_allowed(JobAction::Suspend),
            is_running: job.state == JobState::Running,
            resume: is_allowed(JobAction::Resume),
            withdraw: job.details.suspend_requested.is_some(),
            cancel: is_allowed(JobAction::Cancel),
            prioritise: is_allowed(JobAction::Priority),
            signal: is_allowed(JobAction::Signal),
            redrive: is_allowed(JobAction::Redrive),
            delete: is_allowed(JobAction::Delete),
        }
    }

    pub(in crate::dashboard) fn is_nothing(self) -> bool {
        self == AllowedActions {
            is_running: self.is_running,
            is_repeat: self.is_repeat,
            ..AllowedActions::default()
        }
    }
}

/// Parses a suspend mode.
pub(in crate::dashboard) fn mode(word: &str) -> Result<SuspendMode, PageError> {
    match word {
        "idle_only" => Ok(SuspendMode::IdleOnly),
        "graceful" => Ok(SuspendMode::Graceful),
        "aggressive" => Ok(SuspendMode::Aggressive),
        _ => Err(PageError::invalid("mode: must be idle_only, graceful or aggressive")),
    }
}

/// The priority in a form.
pub(in crate::dashboard) fn priority(form: &Fields) -> Result<Priority, PageError> {
    form.need("value")?.parse().map_err(|problem| PageError::invalid(format!("priority: {problem}")))
}

/// `POST /jobs/{id}/act`
pub(in crate::dashboard) async fn act(
    Path(id): Path<String>,
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    let id: JobId = id.parse().map_err(|_| PageError::not_found(format!("no job {id}")))?;
    let (store, caller, reason) = (board.store(), &visitor.caller, form.text("reason"));
    let (act, done) = match form.need("action")? {
        "submit" => (ActionRequest::Submit, "submitted"),
        "suspend" => {
            let mode = form.get("mode").map_or(Ok(SuspendMode::IdleOnly), mode)?;
            (
                ActionRequest::Suspend(Suspend { mode, reason, expires: form.duration("expires")? }),
                "suspended",
            )
        }
        "resume" => (ActionRequest::Resume { reason }, "resumed"),
        "cancel" => (ActionRequest::Cancel { reason }, "cancelled"),
        "priority" => (ActionRequest::Priority(priority(&form)?), "priority"),
        "signal" => return signal(&board, &visitor, id, &form).await,
        "redrive" => {
            // Each redrive creates another copy: a second one must be intended.
            let (reset_checkpoints, only_once) =
                (form.get("reset_checkpoints").is_some(), form.get("again").is_none());
            let payload = form.all("payload").next().map(edited_payload).transpose()?;
            let from_step = form.text("from_step");
            let how = Redrive { reset_checkpoints, from_step, only_once, payload, ..Redrive::default() };
            let new = store.redrive(caller, id, how).await?;
            return Ok(back(new.id, "redriven"));
        }
        "rerun" => return rerun(&board, &visitor, id).await,
        "delete" => {
            store.delete(caller, id).await?;
            return Ok(Redirect::to("/jobs?done=deleted").into_response());
        }
        _ => return Err(PageError::invalid("unknown action")),
    };
    let before = if done == "priority" { store.job(caller, id).await? } else { None };
    let acted = store.act(caller, id, act).await?;
    let undo = before.map(|job| {
        let value = job.priority.value().to_string();
        UndoRequest::new(format!("/jobs/{id}/act"), &[("action", "priority"), ("value", &value)])
    });
    let place = PageAddress::new(format!("/jobs/{id}"), &[]);
    Ok(place.after(if acted.is_changed { done } else { "unchanged" }, undo.as_ref()))
}

/// The payload of a form: JSON, as it was typed.
pub(in crate::dashboard) fn edited_payload(text: &str) -> Result<Payload, PageError> {
    let text = if text.is_empty() { "null" } else { text };
    let checked: Result<&RawValue, _> = serde_json::from_str(text);
    checked.map_err(|error| PageError::invalid(format!("payload: is not JSON: {error}")))?;
    // Browsers send line ends as CR LF.
    Ok(Payload::json(text.replace("\r\n", "\n")))
}

/// Cancels a job that is not due and submits it again, without its delay.
async fn rerun(board: &Dashboard, visitor: &Visitor, id: JobId) -> Result<Response, PageError> {
    let (store, caller) = (board.store(), &visitor.caller);
    let missing = || PageError::not_found(format!("no job {id}"));
    let job = store.job(caller, id).await?.ok_or_else(missing)?;
    let is_related = job.parent.is_some() || graph::load(board, visitor, &job, &[]).await?.is_some();
    if is_related {
        return Err(PageError::conflict("other jobs depend on this one: cancelling it would affect them"));
    }
    if !matches!(job.state, JobState::Delayed | JobState::Retrying) {
        return Err(PageError::conflict("the job is due already"));
    }
    store
        .act(caller, id, ActionRequest::Cancel { reason: Some("submitted again to run now".into()) })
        .await?;
    let new = store.redrive(caller, id, Redrive { only_once: true, ..Redrive::default() }).await?;
    Ok(back(new.id, "rerun"))
}

async fn signal(
    board: &Dashboard,
    visitor: &Visitor,
    id: JobId,
    form: &Fields,
) -> Result<Response, PageError> {
    let value = form.get("value").unwrap_or("null");
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(value);
    parsed.map_err(|error| PageError::invalid(format!("value: is not JSON: {error}")))?;
    board.store().signal(&visitor.caller, id, form.need("name")?, value.as_bytes().to_vec()).await?;
    Ok(back(id, "signalled"))
}

fn back(id: JobId, done: &str) -> Response {
    Redirect::to(&address(&format!("/jobs/{id}"), [("done", done.to_owned())])).into_response()
}
