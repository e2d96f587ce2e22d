//! Alerts: their states; test, edit, pause and delete.

pub(in crate::dashboard) mod alert_form;
pub(in crate::dashboard) mod deleted;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use windlass::alert::{AlertFormat, AlertStatus};
use windlass::clock::Timestamp;
use windlass::internal::wire::alert::describe;
use windlass::job::{AlertName, JobId, JobRecord, Tenant};
use windlass::store::caller::Permission;
use windlass::store::{Alert, AlertRef, PauseOptions};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::limits;
use crate::dashboard::pages::overview::moment;
use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::{Moment, count, span};
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{address, segment};
use crate::dashboard::requests::undo::{PageAddress, UndoRequest};

/// The place of the tenant in the address of an alert about all tenants; no tenant is called so.
const ALL_TENANTS: &str = "-";

/// What undoes an action on an alert.
const UNDONE_BY: &[(&str, &str)] = &[("paused", "resume"), ("unpaused", "pause")];

/// An alert.
struct AlertView {
    name: String,
    tenant: String,
    /// The action of its forms.
    act: String,
    /// The page to edit it.
    edit: String,
    /// The id of its pause dialog.
    pop: String,
    description: String,
    is_firing: bool,
    since: Moment,
    value: Option<String>,
    /// Since when the condition holds without it firing, or the other way round.
    turning: Option<Moment>,
    /// Host of the receiver; path and query may contain a secret.
    receiver: String,
    format: &'static str,
    /// When it fires, resolves and repeats.
    timing: String,
    delivery: Option<JobLink>,
    paused: Option<PausedView>,
}

/// A pause of an alert.
struct PausedView {
    by: String,
    since: Moment,
    reason: Option<String>,
    until: Option<Moment>,
}

#[derive(Template)]
#[template(path = "alerts/alerts.html")]
struct AlertsPage {
    layout: Layout,
    alerts: Vec<AlertView>,
    /// The total number, and the range on this page; empty if there is one page.
    range: String,
    previous: Option<String>,
    next: Option<String>,
    can_act: bool,
    show_tenant: bool,
}

/// `GET /alerts`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let mut found = store.alerts(caller).await?;
    // A stable sort: within each part by tenant and name.
    found.sort_by_key(|alert| (alert.pause_now(now).is_some(), alert.state.status != AlertStatus::Firing));
    let pages = found.len().div_ceil(limits::ALERTS_PER_PAGE).max(1);
    let number = query.get("page").and_then(|text| text.parse().ok()).unwrap_or(1_usize).clamp(1, pages);
    let first = (number - 1) * limits::ALERTS_PER_PAGE;
    let shown = &found[first..found.len().min(first + limits::ALERTS_PER_PAGE)];
    let link = |number: usize| address("/alerts", [("page", number.to_string())]);
    let meant = found.iter().find(|alert| query.get("about") == Some(&about(alert)));
    let name = meant.map(|alert| alert.name.to_string());
    let mut layout = context.layout("alerts", "Alerts").saying_of(query, name.as_deref());
    if let Some(alert) = meant.filter(|_| visitor.may(Permission::Configure)) {
        layout = layout.undone_by(query, &act_link(alert), UNDONE_BY);
    }
    let sent: Option<JobId> = query.get("job").and_then(|id| id.parse().ok());
    if layout.done.is_some() && sent.is_some() {
        layout.done_job =
            meant.and_then(|alert| alert.last_delivery).filter(|id| Some(*id) == sent).map(JobLink);
    }
    let page = AlertsPage {
        layout,
        alerts: shown.iter().map(|alert| view(alert, now)).collect(),
        range: if pages > 1 {
            format!("{}–{} of {}", first + 1, first + shown.len(), count(found.len() as u64))
        } else {
            String::new()
        },
        previous: (number > 1).then(|| link(number - 1)),
        next: (number < pages).then(|| link(number + 1)),
        can_act: visitor.may(Permission::Configure),
        show_tenant: caller.tenant.is_none() && found.iter().any(|alert| alert.tenant.is_some()),
    };
    show(&page)
}

/// The name of an alert in URLs.
fn about(alert: &Alert) -> String {
    format!("{} {}", alert.tenant.as_ref().map_or(ALL_TENANTS, Tenant::as_str), alert.name)
}

/// The address of an alert.
fn edit_link(alert: &Alert) -> String {
    let tenant = alert.tenant.as_ref().map_or(ALL_TENANTS, Tenant::as_str);
    format!("/alerts/{}/{}", segment(tenant), segment(alert.name.as_str()))
}

/// The action of an alert's forms.
fn act_link(alert: &Alert) -> String {
    format!("{}/act", edit_link(alert))
}

fn view(alert: &Alert, now: Timestamp) -> AlertView {
    let (rule, state) = (&alert.rule, &alert.state);
    let paused = alert.pause_now(now).map(|pause| PausedView {
        by: pause.by.clone(),
        since: Moment::new(pause.since, now),
        reason: pause.reason.clone(),
        until: moment(pause.expires_at, now),
    });
    let fires = if rule.pending_for.is_zero() {
        "at once".into()
    } else {
        format!("after {}", span(rule.pending_for))
    };
    let resolves = if rule.keep_firing_for.is_zero() {
        "resolves at once".to_owned()
    } else {
        format!("resolves after {}", span(rule.keep_firing_for))
    };
    let repeats = rule.repeat_interval.map(|every| format!(", repeats every {}", span(every)));
    AlertView {
        name: alert.name.to_string(),
        tenant: alert.tenant.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string),
        act: act_link(alert),
        edit: edit_link(alert),
        pop: format!("pause-{}", about(alert).replace(' ', "-")),
        description: describe(alert),
        is_firing: state.status == AlertStatus::Firing,
        since: Moment::new(state.since, now),
        value: state.value.map(|value| value.to_string()),
        turning: moment(state.turning_since, now),
        receiver: rule.receiver(),
        format: match rule.format {
            AlertFormat::Webhook => "signed webhook",
            AlertFormat::Slack => "Slack",
        },
        timing: format!("fires {fires}, {resolves}{}", repeats.unwrap_or_default()),
        delivery: alert.last_delivery.map(JobLink),
        paused,
    }
}

/// The alert that an address names.
fn named(tenant: &str, name: &str) -> Result<AlertRef, PageError> {
    let missing = || PageError::not_found(format!("no alert {name}"));
    let tenant = if tenant == ALL_TENANTS { None } else { Some(Tenant::new(tenant).map_err(|_| missing())?) };
    Ok(AlertRef { tenant, name: AlertName::new(name).map_err(|_| missing())? })
}

/// `POST /alerts/{tenant}/{name}/act`
pub(in crate::dashboard) async fn act(
    Path((tenant, name)): Path<(String, String)>,
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    let which = named(&tenant, &name)?;
    let (store, caller) = (board.store(), &visitor.caller);
    let (mut sent, mut undo) = (None, None);
    let page = format!("/alerts/{}/{}", segment(&tenant), segment(&name));
    let done = match form.need("action")? {
        "pause" => {
            let how = PauseOptions { reason: form.text("reason"), expires: form.duration("expires")? };
            if store.pause_alert(caller, which, how).await? { "paused" } else { "unchanged" }
        }
        "resume" => {
            if store.resume_alert(caller, which).await? {
                "unpaused"
            } else {
                "unchanged"
            }
        }
        "test" => {
            sent = Some(store.test_alert(caller, which).await?);
            "tested"
        }
        "delete" => {
            let before = store.alert(caller, which.clone()).await?;
            store.delete_alert(caller, which).await?;
            // Without its whole URL it could not be restored.
            if let Some(alert) = before.filter(|alert| !alert.is_redacted) {
                board.0.deleted_alerts.keep(alert, board.now());
                undo = Some(UndoRequest::new(format!("{page}/act"), &[("action", "restore")]));
            }
            "removed"
        }
        "restore" => {
            visitor.caller.require(Permission::Configure)?;
            if store.alert(caller, which.clone()).await?.is_some() {
                return Err(PageError::conflict(format!("there is an alert {name} again")));
            }
            let gone =
                || PageError::not_found("the alert was deleted too long ago to be restored: create it again");
            let alert = board.0.deleted_alerts.take(&which, board.now()).ok_or_else(gone)?;
            store.put_alert(caller, which, alert.rule).await?;
            undo = Some(UndoRequest::new(format!("{page}/act"), &[("action", "delete")]));
            "restored_alert"
        }
        _ => return Err(PageError::invalid("unknown action")),
    };
    let (about, job) = (format!("{tenant} {name}"), sent.map(|job: JobRecord| job.id.to_string()));
    let pairs = [Some(("about", about.as_str())), job.as_deref().map(|job| ("job", job))];
    let pairs: Vec<_> = pairs.into_iter().flatten().collect();
    Ok(PageAddress::new("/alerts", &pairs).after(done, undo.as_ref()))
}
