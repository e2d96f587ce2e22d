//! Why a job is not running, each reason with what ends it: a button, a link or a command, if the visitor may use it.

use serde_json::Value;
use windlass::clock::Timestamp;
use windlass::job::JobRecord;
use windlass::store::caller::Permission;
use windlass::store::{Config, PauseScope, Reason};
use windlass_api::time::Span;

use crate::dashboard::parts::format::{exact, with_moments};
use crate::dashboard::requests::form::segment;
use crate::dashboard::requests::job_actions::AllowedActions;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;

/// Why it is not running.
pub(in crate::dashboard) struct ReasonView {
    pub(in crate::dashboard) code: &'static str,
    /// The code in words.
    pub(in crate::dashboard) word: String,
    pub(in crate::dashboard) message: String,
    pub(in crate::dashboard) reason: Option<String>,
    pub(in crate::dashboard) fix: Option<Fix>,
}

/// What ends a reason.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::dashboard) enum Fix {
    /// An action on this job.
    Act { action: &'static str, label: &'static str },
    /// Resumes a pause.
    Resume { scope: String, what: String },
    /// A page where it can be changed or watched.
    Link { to: String, label: String },
    /// A command to type.
    Command(String),
    /// A limit to change: the address of the form, and its fields.
    Limit { to: String, fields: Vec<LimitField> },
    /// Cancels the job and submits it again, to run now.
    Rerun,
}

/// A number of a limit: field, label, value.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::dashboard) struct LimitField {
    pub(in crate::dashboard) name: &'static str,
    pub(in crate::dashboard) label: &'static str,
    pub(in crate::dashboard) value: String,
}

/// What the visitor may do about this job.
pub(in crate::dashboard) struct Means<'a> {
    pub(in crate::dashboard) visitor: &'a Visitor,
    pub(in crate::dashboard) config: &'a Config,
    pub(in crate::dashboard) allowed: AllowedActions,
    pub(in crate::dashboard) may_manage: bool,
    /// Whether no other job depends on it or waits for it.
    pub(in crate::dashboard) is_alone: bool,
    pub(in crate::dashboard) now: Timestamp,
}

impl Means<'_> {
    /// The reason with what ends it.
    pub(in crate::dashboard) fn view(&self, job: &JobRecord, reason: &Reason) -> ReasonView {
        let text = reason.details.get("reason").and_then(Value::as_str).map(str::to_owned);
        ReasonView {
            code: reason.code,
            word: words_of_code(reason.code),
            message: with_moments(&reason.message, self.now),
            reason: text,
            fix: self.fix(job, reason),
        }
    }

    fn fix(&self, job: &JobRecord, reason: &Reason) -> Option<Fix> {
        let act = |is_allowed: bool, action, label| {
            (self.may_manage && is_allowed).then_some(Fix::Act { action, label })
        };
        let link = |to: String, label: &str| Some(Fix::Link { to, label: label.to_owned() });
        match reason.code {
            "held" => act(self.allowed.submit, "submit", "Submit"),
            "suspended" => act(self.allowed.resume, "resume", "Resume"),
            "suspend_requested" => act(self.allowed.withdraw, "resume", "Withdraw suspension"),
            "queue_paused" | "gate_closed" => self.resume(&reason.details["scope"]),
            "waiting" if self.may_manage && self.allowed.signal && names_signal(&reason.details) => {
                link("#do-signal".to_owned(), "Send the signal")
            }
            "dependencies_unmet" | "concurrency_key_held" => {
                let first = &reason.details["jobs"][0];
                let id = first.as_str().or_else(|| first["id"].as_str())?;
                link(format!("/jobs/{id}"), "Open the job it waits for")
            }
            "no_worker" if !is_paused(&reason.details) => {
                let version = job.lane.version.as_ref();
                let version = version.map_or(String::new(), |version| format!(" --worker-version {version}"));
                let (job_type, queue) = (&job.lane.job_type, &job.lane.queue);
                Some(Fix::Command(format!("windlass work {job_type} --queue {queue}{version} -- PROGRAM")))
            }
            "no_worker" | "no_free_slot" => link("/workers".to_owned(), "Workers"),
            "max_running" | "rate_limited" => self.limit(&reason.details),
            "not_due" if self.may_manage && self.allowed.cancel && self.is_alone => Some(Fix::Rerun),
            "over_quota" if self.visitor.may(Permission::Administer) => {
                link("/tenants".to_owned(), "Change the budget")
            }
            _ => None,
        }
    }

    fn resume(&self, scope: &Value) -> Option<Fix> {
        let scope: PauseScope = serde_json::from_value(scope.clone()).ok()?;
        let hold = self.config.pauses.get(&scope)?;
        let what = match &scope {
            PauseScope::Gate => "processing".to_owned(),
            PauseScope::Tenant(tenant) => format!("tenant {tenant}"),
            PauseScope::Type { job_type, .. } => format!("type {job_type}"),
            PauseScope::Queue { queue, .. } => format!("queue {queue}"),
            PauseScope::Worker(_) => "the worker".to_owned(),
        };
        Some(Fix::Resume { scope: resume::scope(hold, self.visitor, self.config)?, what })
    }

    /// The page of the object whose limit is reached, which is named `queue mail` or `type a`.
    fn limit(&self, details: &Value) -> Option<Fix> {
        let (kind, whole) = details["scope"].as_str()?.split_once(' ')?;
        let name = whole.split(' ').next().unwrap_or_default();
        let (page, permission) = match kind {
            "queue" => (format!("/queues/{}", segment(name)), Permission::Configure),
            "type" => (format!("/types/{}", segment(name)), Permission::Administer),
            "tenant" => (format!("/tenants/{}", segment(name)), Permission::Administer),
            _ => return None,
        };
        // The settings of all tenants are changed in place by those whom they belong to.
        let is_theirs = kind != "queue" || self.visitor.caller.tenant.is_none();
        if whole == name && is_theirs && self.visitor.may(permission) {
            let fields = limit_fields(details);
            return (!fields.is_empty()).then(|| Fix::Limit { to: format!("{page}/settings"), fields });
        }
        let to = if kind == "tenant" { "/tenants".to_owned() } else { format!("{page}#settings") };
        let label = if self.visitor.may(permission) { "Change the limit" } else { "Show the limit" };
        Some(Fix::Link { to, label: label.to_owned() })
    }
}

/// The numbers of the limit that a reason names.
fn limit_fields(details: &Value) -> Vec<LimitField> {
    let mut fields = Vec::new();
    if let Some(limit) = details["limit"].as_u64() {
        fields.push(LimitField { name: "max_running", label: "Max running", value: limit.to_string() });
    }
    let per = details["per"].as_str().and_then(|per| per.parse::<Span>().ok());
    if let (Some(number), Some(Span(per))) = (details["count"].as_u64(), per) {
        fields.push(LimitField { name: "rate_count", label: "Max starts", value: number.to_string() });
        fields.push(LimitField { name: "rate_per", label: "within", value: exact(per) });
    }
    fields
}

/// The code of a reason in words.
fn words_of_code(code: &str) -> String {
    match code {
        "held" => "on hold".to_owned(),
        "gate_closed" => "processing paused".to_owned(),
        "max_running" => "limit reached".to_owned(),
        "rate_limited" => "rate limit".to_owned(),
        "over_quota" => "over budget".to_owned(),
        "not_due" => "not due yet".to_owned(),
        "dependencies_unmet" => "waits for other jobs".to_owned(),
        "concurrency_key_held" => "concurrency key in use".to_owned(),
        _ => code.replace('_', " "),
    }
}

/// Whether a job waits for a signal, alone or among other things.
fn names_signal(details: &Value) -> bool {
    let any = details["any"].as_array().into_iter().flatten();
    details["signal"].is_string() || any.into_iter().any(|one| one["signal"].is_string())
}

/// Whether there are workers, but all of them are paused.
fn is_paused(details: &Value) -> bool {
    details["paused"].as_array().is_some_and(|paused| !paused.is_empty())
}
