//! The layout around every page, and sending pages.

use std::fmt::Display;

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use windlass::clock::Timestamp;
use windlass::error::{ActionError, AlertError, Forbidden, ScheduleError, StoreError};
use windlass::job::Tenant;
use windlass::schedule::Zone;
use windlass::store::{Config, PauseRecord, PauseScope, Schedule};

use super::parts::components::JobLink;
use super::parts::format::Moment;
use super::parts::format::worker_name;
use super::requests::form::Fields;
use super::requests::middleware::Visitor;
use super::requests::undo::UndoRequest;
use super::{Dashboard, requests::assets};

/// The layout: the visitor, the section, and notices that are shown on every page.
pub(super) struct Layout {
    pub(super) title: String,
    /// The active menu entry.
    pub(super) section: &'static str,
    pub(super) theme: &'static str,
    /// The time zone of times.
    pub(super) zone: String,
    pub(super) who: String,
    pub(super) role: &'static str,
    pub(super) tenant: Option<String>,
    pub(super) is_local: bool,
    pub(super) token: String,
    pub(super) version: &'static str,
    /// The URL of the refresh stream; empty for a page without refresh.
    pub(super) live: String,
    /// The global pause, if processing is paused.
    pub(super) gate: Option<PauseView>,
    /// The flash message.
    pub(super) done: Option<String>,
    /// How to undo the last action.
    pub(super) undo: Option<Undo>,
    /// A link to the job that the last action created.
    pub(super) done_job: Option<JobLink>,
    /// How many failures are open, shown in the title; empty if the page does not count them.
    pub(super) failures: String,
    /// The address at which the visitor reaches this server.
    pub(super) origin: String,
}

/// A form that undoes the last action: its address, the action it names, and its other fields.
#[derive(Debug, Clone)]
pub(super) struct Undo {
    pub(super) to: String,
    pub(super) action: String,
    pub(super) fields: Vec<(String, String)>,
}

/// A pause.
#[derive(Debug, Clone)]
pub(super) struct PauseView {
    pub(super) what: String,
    pub(super) by: String,
    pub(super) reason: Option<String>,
    pub(super) since: Moment,
    pub(super) until: Option<Moment>,
}

impl PauseView {
    pub(super) fn new(hold: &PauseRecord, now: Timestamp) -> PauseView {
        let of_tenant = |tenant: &Option<_>| {
            tenant.as_ref().map_or(String::new(), |tenant| format!(" of tenant {tenant}"))
        };
        let what = match &hold.scope {
            PauseScope::Gate => "processing".to_owned(),
            PauseScope::Tenant(tenant) => format!("tenant {tenant}"),
            PauseScope::Type { job_type, tenant } => format!("type {job_type}{}", of_tenant(tenant)),
            PauseScope::Queue { queue, tenant } => format!("queue {queue}{}", of_tenant(tenant)),
            PauseScope::Worker(worker) => format!("worker {worker}"),
        };
        PauseView {
            what,
            by: hold.by.clone(),
            reason: hold.reason.clone(),
            since: Moment::new(hold.since, now),
            until: hold.expires_at.map(|at| Moment::new(at, now)),
        }
    }
}

impl PauseView {
    /// Like `of`, with the name of a worker in place of its id.
    pub(super) fn among(config: &Config, hold: &PauseRecord, now: Timestamp) -> PauseView {
        let view = PauseView::new(hold, now);
        match &hold.scope {
            PauseScope::Worker(worker) => {
                PauseView { what: format!("worker {}", worker_name(config, &worker.to_string())), ..view }
            }
            _ => view,
        }
    }

    /// The pause of a schedule, if it is paused now.
    pub(super) fn of_schedule(schedule: &Schedule, now: Timestamp) -> Option<PauseView> {
        let pause = schedule.pause_now(now)?;
        let whose = if schedule.tenant == Tenant::default() {
            String::new()
        } else {
            format!(" of tenant {}", schedule.tenant)
        };
        Some(PauseView {
            what: format!("schedule {}{whose}", schedule.name),
            by: pause.by.clone(),
            reason: pause.reason.clone(),
            since: Moment::new(pause.since, now),
            until: pause.expires_at.map(|at| Moment::new(at, now)),
        })
    }
}

impl Layout {
    /// A layout without data from the store.
    pub(super) fn bare(visitor: &Visitor, section: &'static str, title: impl Into<String>) -> Layout {
        Layout {
            title: title.into(),
            section,
            theme: visitor.theme,
            zone: visitor.preferences.zone.as_ref().map_or("UTC", Zone::as_str).to_owned(),
            who: visitor.caller.id.clone(),
            role: visitor.caller.role.as_str(),
            tenant: visitor.caller.tenant.as_ref().map(ToString::to_string),
            is_local: visitor.is_local,
            token: visitor.form_token.clone(),
            version: assets::version(),
            live: String::new(),
            gate: None,
            done: None,
            undo: None,
            done_job: None,
            failures: String::new(),
            origin: visitor.origin.clone(),
        }
    }

    /// The layout of a page in this section.
    pub(super) fn new(
        board: &Dashboard,
        visitor: &Visitor,
        config: &Config,
        section: &'static str,
        title: impl Into<String>,
    ) -> Layout {
        let now = board.now();
        let gate = config.pauses.get(&PauseScope::Gate).filter(|hold| hold.is_active(now));
        Layout {
            live: format!("/live?seen={}", visitor.seen),
            gate: gate.map(|hold| PauseView::new(hold, now)),
            ..Layout::bare(visitor, section, title)
        }
    }

    /// Adds the flash message of the last action.
    pub(super) fn with_flash(mut self, query: &Fields) -> Layout {
        let is_ours = super::requests::flash::holds(&self.token, query);
        self.done = query.get("done").filter(|_| is_ours).and_then(|word| said(word, query.get("n")));
        self.undo = self.done.as_ref().and_then(|_| UndoRequest::read(query));
        self
    }
}

impl Layout {
    /// Offers to undo the last action, if it was one of these and its flash message is shown: for each action the one that
    /// undoes it. The address is that of the object on the page.
    pub(super) fn undone_by(mut self, query: &Fields, to: &str, pairs: &[(&str, &'static str)]) -> Layout {
        let done = query.get("done").filter(|_| self.done.is_some());
        let action = pairs.iter().find(|(word, _)| done == Some(*word)).map(|(_, action)| *action);
        let undo =
            action.map(|action| Undo { to: to.to_owned(), action: action.to_owned(), fields: Vec::new() });
        self.undo = undo.or(self.undo);
        self
    }

    /// Adds the flash message with the name of the object that was acted on: an object on this page, not a name from the
    /// URL.
    pub(super) fn saying_of(self, query: &Fields, what: Option<&str>) -> Layout {
        let mut layout = self.with_flash(query);
        let named = what.and_then(|what| match query.get("done")? {
            "paused" => Some(format!("{what} is paused.")),
            "unpaused" => Some(format!("{what} is resumed.")),
            "triggered" => Some(format!("{what} was triggered.")),
            "removed" => Some(format!("{what} is deleted.")),
            "restored" => Some(format!("{what} is restored; runs that were due in between are skipped.")),
            _ => None,
        });
        // Only if there is a flash message.
        layout.done = layout.done.map(|plain| named.unwrap_or(plain));
        layout
    }
}

/// The flash messages: fixed sentences, so that a link cannot make a page show other text.
fn said(word: &str, number: Option<&str>) -> Option<String> {
    let number: Option<u64> = number.and_then(|number| number.parse().ok());
    let jobs = |what: &str| match number {
        Some(1) => format!("1 job {what}."),
        Some(number) => format!("{} jobs {what}.", super::parts::format::count(number)),
        None => format!("Job {what}."),
    };
    Some(match word {
        "submitted" => jobs("submitted"),
        "suspended" => jobs("suspended"),
        "resumed" => jobs("resumed"),
        "cancelled" => jobs("cancelled"),
        "priority" => jobs("given a new priority"),
        "redriven" => match number {
            Some(number) if number != 1 => jobs("retried as new jobs"),
            _ => jobs("retried as a new job"),
        },
        "deleted" => jobs("deleted"),
        "signalled" => "Signal sent.".to_owned(),
        "unchanged" => "Nothing changed: already in that state.".to_owned(),
        "paused" => "Paused.".to_owned(),
        "unpaused" => "Resumed.".to_owned(),
        "closed" => "Processing is paused.".to_owned(),
        "opened" => "Processing is resumed.".to_owned(),
        "clock_accepted" => "The wall clock is accepted.".to_owned(),
        "saved" => "Saved.".to_owned(),
        "revoked" => "The API key is revoked.".to_owned(),
        "triggered" => "The schedule was triggered.".to_owned(),
        "tested" => "A sample message is being sent.".to_owned(),
        "removed" => "Deleted.".to_owned(),
        "restored" | "restored_alert" => "Restored.".to_owned(),
        "rerun" => "The job was cancelled and submitted again as this one.".to_owned(),
        _ => return None,
    })
}

/// Renders a page.
pub(super) fn show(template: &impl Template) -> Result<Response, PageError> {
    answer(StatusCode::OK, template)
}

fn answer(status: StatusCode, template: &impl Template) -> Result<Response, PageError> {
    let html = template.render().map_err(|error| PageError {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        title: "The page could not be rendered",
        message: error.to_string(),
    })?;
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    Ok((status, [(header::CONTENT_TYPE, content_type)], html).into_response())
}

/// An error page.
#[derive(Debug, Clone)]
pub(super) struct PageError {
    status: StatusCode,
    title: &'static str,
    message: String,
}

/// A name in a URL; an invalid one is not found.
pub(super) fn name_in_url<T, E: Display>(what: &str, name: Result<T, E>) -> Result<T, PageError> {
    name.map_err(|problem| PageError::not_found(format!("{what}: {problem}")))
}

impl PageError {
    pub(super) fn not_found(what: impl Into<String>) -> PageError {
        PageError { status: StatusCode::NOT_FOUND, title: "Not found", message: what.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> PageError {
        PageError { status: StatusCode::UNPROCESSABLE_ENTITY, title: "Not possible", message: message.into() }
    }

    /// The state does not allow it.
    pub(super) fn conflict(message: impl Into<String>) -> PageError {
        PageError { status: StatusCode::CONFLICT, title: "Not possible", message: message.into() }
    }

    pub(super) fn forbidden(message: impl Into<String>) -> PageError {
        PageError { status: StatusCode::FORBIDDEN, title: "Not allowed", message: message.into() }
    }

    /// What is wrong.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// A malformed URL.
    pub(super) fn unreadable() -> PageError {
        let message = "No such page.".to_owned();
        PageError { status: StatusCode::BAD_REQUEST, title: "Not found", message }
    }

    /// A URL that only accepts forms.
    pub(super) fn only_a_form() -> PageError {
        let message = "This URL only accepts forms.".to_owned();
        PageError { status: StatusCode::METHOD_NOT_ALLOWED, title: "Not found", message }
    }

    /// Too many requests.
    pub(super) fn too_many() -> PageError {
        let message = "This key sends too many requests: wait a moment.".to_owned();
        PageError { status: StatusCode::TOO_MANY_REQUESTS, title: "Too many requests", message }
    }

    /// A form that took too long to arrive.
    pub(super) fn slow_form() -> PageError {
        let message = "The form took too long to arrive.".to_owned();
        PageError { status: StatusCode::REQUEST_TIMEOUT, title: "Too slow", message }
    }

    /// A form from a page of another session.
    pub(super) fn stale_form() -> PageError {
        PageError::forbidden("this form is from an earlier session: go back, reload the page and try again")
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> PageError {
        if let StoreError::Forbidden(denied) = error {
            return denied.into();
        }
        tracing::warn!(%error, "a page could not be shown");
        let status = StatusCode::SERVICE_UNAVAILABLE;
        PageError { status, title: "The store is not available", message: error.to_string() }
    }
}

impl From<Forbidden> for PageError {
    fn from(denied: Forbidden) -> PageError {
        PageError::forbidden(denied.to_string())
    }
}

impl From<ActionError> for PageError {
    fn from(error: ActionError) -> PageError {
        match error {
            ActionError::Store(error) => error.into(),
            ActionError::Forbidden(denied) => denied.into(),
            ActionError::NotFound(_) | ActionError::NoSuchWorker(_) | ActionError::NoSuchKey(_) => {
                PageError::not_found(error.to_string())
            }
            ActionError::Invalid(_) => PageError::invalid(error.to_string()),
            _ => PageError::conflict(error.to_string()),
        }
    }
}

impl From<ScheduleError> for PageError {
    fn from(error: ScheduleError) -> PageError {
        match error {
            ScheduleError::Store(error) => error.into(),
            ScheduleError::Forbidden(denied) => denied.into(),
            ScheduleError::NotFound(_) => PageError::not_found(error.to_string()),
            _ => PageError::invalid(error.to_string()),
        }
    }
}

impl From<AlertError> for PageError {
    fn from(error: AlertError) -> PageError {
        match error {
            AlertError::Store(error) => error.into(),
            AlertError::Forbidden(denied) => denied.into(),
            AlertError::NotFound(_) => PageError::not_found(error.to_string()),
            _ => PageError::invalid(error.to_string()),
        }
    }
}

/// The middleware renders the page, because it knows the visitor.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Template)]
#[template(path = "redirect.html")]
struct RedirectPage<'a> {
    to: &'a str,
}

/// A page that redirects without a script.
pub(super) fn redirect_page(to: &str) -> Result<Response, PageError> {
    show(&RedirectPage { to })
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    layout: Layout,
    title: &'a str,
    message: &'a str,
    /// The page the visitor came from.
    back: Option<&'a str>,
}

/// Renders an error page.
pub(super) fn error_page(error: &PageError, visitor: &Visitor, back: Option<&str>) -> Response {
    let layout = Layout::bare(visitor, "", error.title);
    let page = ErrorPage { layout, title: error.title, message: &error.message, back };
    answer(error.status, &page).unwrap_or_else(|_| error.status.into_response())
}
