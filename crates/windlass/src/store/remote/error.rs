//! Converts a server's errors, by the stable codes of the HTTP API, back to the errors of the library: the same errors
//! as those of an embedded store.

use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::client::Reply;
use crate::error::{
    ActError, FieldProblem, Forbidden, Invalid, InvalidTransition, ScheduleError, StoreError, SubmitError,
    WorkError,
};
use crate::job::{JobId, JobState, NeededBy, ScheduleName, WorkerId};
use crate::limits;
use crate::store::caller::{Permission, Role};

/// A failed call.
#[derive(Debug)]
pub(super) enum RemoteError {
    /// The server refused it.
    Refused(ErrorResponse),
    /// The server could not do its work, or did not answer.
    Store(StoreError),
}

impl From<StoreError> for RemoteError {
    fn from(error: StoreError) -> RemoteError {
        RemoteError::Store(error)
    }
}

impl From<RemoteError> for StoreError {
    fn from(error: RemoteError) -> StoreError {
        match error {
            RemoteError::Refused(refusal) => refusal.store_error(),
            RemoteError::Store(error) => error,
        }
    }
}

/// A refusal by the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ErrorResponse {
    status: StatusCode,
    code: String,
    message: String,
    details: Map<String, Value>,
    retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct Body {
    error: Fields,
}

/// A refusal as it is sent, for a whole call or for one item of several.
#[derive(Deserialize)]
pub(super) struct Fields {
    code: String,
    message: String,
    #[serde(default)]
    details: Map<String, Value>,
}

impl ErrorResponse {
    /// Parses an error response; one without the API's format comes from an intermediary.
    pub(super) fn read(reply: &Reply) -> Result<ErrorResponse, StoreError> {
        let retry_after = reply.retry_after();
        match serde_json::from_slice::<Body>(&reply.body) {
            Ok(Body { error }) => {
                Ok(ErrorResponse { retry_after, ..ErrorResponse::item(error, reply.status) })
            }
            Err(_) => Err(StoreError::Unreachable(format!("an intermediary answered {}", reply.status))),
        }
    }

    /// The refusal of one item.
    pub(super) fn item(fields: Fields, status: StatusCode) -> ErrorResponse {
        let Fields { code, message, details } = fields;
        ErrorResponse { status, code, message, details, retry_after: None }
    }

    /// Whether it concerns a job to be submitted.
    pub(super) fn is_about_a_submission(&self) -> bool {
        let is_own = matches!(self.code.as_str(), "payload_too_large" | "payload_differs" | "too_many_jobs");
        is_own || self.code == "unique_key_taken" || self.details.contains_key("index")
    }

    /// Whether the object was not found.
    pub(super) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.details.get(name)?.as_str()
    }

    fn number(&self, name: &str) -> u64 {
        self.details.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    fn job(&self) -> Option<JobId> {
        self.text("job_id").or_else(|| self.text("job"))?.parse().ok()
    }

    fn owned(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// The specific part of the message, without the fixed text of its kind of error.
    fn said(&self, before: &str, after: &str) -> String {
        let message = self.message.strip_prefix(before).unwrap_or(&self.message);
        message.strip_suffix(after).unwrap_or(message).to_owned()
    }

    fn retry_after(&self) -> Duration {
        self.retry_after.unwrap_or(limits::OVERLOADED_RETRY_AFTER)
    }

    fn store_error(&self) -> StoreError {
        if let Some(denied) = self.denied() {
            return StoreError::Forbidden(denied);
        }
        match self.code.as_str() {
            "disk_full" => StoreError::Full,
            "damaged" => StoreError::Damaged(
                self.said("stored data is damaged: ", "; restore a backup, or run `windlass verify`"),
            ),
            "database" => StoreError::Database(self.said("database error: ", "")),
            _ if self.code == "overloaded" || self.status == StatusCode::TOO_MANY_REQUESTS => {
                StoreError::Overloaded { waiting: self.size("waiting"), retry_after: self.retry_after() }
            }
            // A retry succeeds once the server was started again.
            _ if self.status.is_server_error() => StoreError::Unreachable(self.message.clone()),
            code => StoreError::Database(format!("{code}: {}", self.message)),
        }
    }

    /// The missing permission, if that is the reason.
    fn denied(&self) -> Option<Forbidden> {
        if self.status == StatusCode::UNAUTHORIZED {
            let actor = "a caller without a valid key".to_owned();
            return Some(Forbidden { actor, role: "none", action: "use this server" });
        }
        if self.status != StatusCode::FORBIDDEN {
            return None;
        }
        let role = Role::ALL.into_iter().map(Role::as_str).find(|word| self.text("role") == Some(word));
        let actions = Permission::ALL.into_iter().map(Permission::as_str);
        let action = actions.into_iter().find(|word| self.text("action") == Some(word));
        Some(Forbidden {
            actor: self.text("actor").unwrap_or("the caller").to_owned(),
            role: role.unwrap_or("unknown"),
            action: action.unwrap_or("do this"),
        })
    }

    /// The invalid value, if that is the reason.
    pub(super) fn invalid(&self) -> Option<Invalid> {
        let is_one = self.code == "invalid_value" || self.status == StatusCode::UNPROCESSABLE_ENTITY;
        let field = self.text("field").filter(|_| is_one)?;
        let prefix = format!("jobs.{}.", self.number("index"));
        let local = field.strip_prefix(&prefix).or_else(|| field.strip_prefix("job.")).unwrap_or(field);
        Some(Invalid::new(local, self.problem(field, local)))
    }

    fn problem(&self, field: &str, local: &str) -> FieldProblem {
        let value = || self.owned("value");
        match self.text("problem").unwrap_or_default() {
            "missing" => FieldProblem::Missing,
            "too_long" => FieldProblem::TooLong { length: self.size("length"), limit: self.size("limit") },
            "too_many_bytes" => {
                FieldProblem::TooManyBytes { length: self.size("length"), limit: self.size("limit") }
            }
            "not_a_name" => FieldProblem::NotAName(value()),
            "out_of_range" => {
                FieldProblem::OutOfRange { value: value(), min: self.owned("min"), max: self.owned("max") }
            }
            "no_such_job" => FieldProblem::NoSuchJob(value()),
            "name_twice" => FieldProblem::NameTwice(value()),
            "cycle" => FieldProblem::Cycle(value()),
            "limit_reached" => FieldProblem::LimitReached {
                name: match self.text("setting") {
                    Some("max_types") => "max_types",
                    Some("max_lanes") => "max_lanes",
                    Some(FieldProblem::MAX_CONCURRENCY_KEYS) => FieldProblem::MAX_CONCURRENCY_KEYS,
                    _ => "max_queues",
                },
                value: value(),
                limit: self.number("limit"),
                tenant: self.owned("tenant"),
            },
            _ => {
                let said = self.said(&format!("{field}: "), "");
                FieldProblem::Contradiction(
                    said.strip_prefix(&format!("{local}: ")).unwrap_or(&said).to_owned(),
                )
            }
        }
    }

    fn refused(&self) -> Option<InvalidTransition> {
        if self.code != "state_conflict" {
            return None;
        }
        Some(InvalidTransition {
            state: self.text("state")?.parse().ok()?,
            action: self.text("action")?.parse().ok()?,
        })
    }
}

impl RemoteError {
    /// Converts it to a submission's error.
    pub(super) fn into_submit(self) -> SubmitError {
        let refusal = match self {
            RemoteError::Refused(refusal) => refusal,
            RemoteError::Store(error) => return error.into(),
        };
        let index = refusal.size("index");
        if let Some(denied) = refusal.denied() {
            return denied.into();
        }
        match (refusal.code.as_str(), refusal.job()) {
            ("payload_too_large" | "body_too_large", _) => {
                let (size, limit) = (refusal.size("size"), refusal.size("limit"));
                SubmitError::PayloadTooLarge { index, size, limit }
            }
            ("unique_key_taken", Some(holder)) => {
                SubmitError::UniqueKeyTaken { index, key: refusal.owned("key"), holder }
            }
            ("payload_differs", Some(existing)) => SubmitError::PayloadDiffers { index, existing },
            ("too_many_jobs", _) => SubmitError::TooDeep {
                scope: refusal.owned("scope"),
                depth: refusal.number("depth"),
                limit: refusal.number("limit"),
                retry_after: refusal.retry_after(),
            },
            _ => match refusal.invalid() {
                Some(invalid) => SubmitError::Invalid { index, invalid },
                None => refusal.store_error().into(),
            },
        }
    }

    /// Converts it to the error of an action; `missing` is returned if the object was not found.
    pub(super) fn into_act(self, missing: ActError) -> ActError {
        let refusal = match self {
            RemoteError::Refused(refusal) => refusal,
            RemoteError::Store(error) => return error.into(),
        };
        if refusal.is_not_found() {
            return missing;
        }
        if let Some(denied) = refusal.denied() {
            return denied.into();
        }
        if let Some(refused) = refusal.refused() {
            return refused.into();
        }
        match (refusal.code.as_str(), refusal.job(), missing) {
            ("already_suspended", _, ActError::NotFound(id)) => ActError::AlreadySuspended(id),
            ("not_suspended", _, ActError::NotFound(id)) => ActError::NotSuspended(id),
            ("precondition_failed", _, ActError::NotFound(id)) => {
                match refusal.text("version").map(str::parse) {
                    Some(Ok(version)) => ActError::Changed { id, version },
                    _ => refusal.store_error().into(),
                }
            }
            ("already_redriven", Some(successor), ActError::NotFound(id)) => {
                ActError::AlreadyRedriven { id, successor }
            }
            ("last_admin_key", _, ActError::NoSuchKey(id)) => ActError::LastAdminKey(id),
            ("job_needed", Some(job), ActError::NotFound(id)) => {
                let by = match refusal.text("role") {
                    Some("parent") => NeededBy::Parent(job),
                    Some("dependents") => NeededBy::Dependents(job),
                    _ => NeededBy::Dependent(job),
                };
                let state = refusal.text("state").and_then(|state| state.parse().ok());
                ActError::Needed { id, state: state.unwrap_or(JobState::Completed), by }
            }
            ("unique_key_taken", Some(holder), _) => {
                ActError::UniqueKeyTaken { key: refusal.owned("key"), holder }
            }
            ("too_many_jobs", _, _) => ActError::TooDeep {
                scope: refusal.owned("scope"),
                depth: refusal.number("depth"),
                limit: refusal.number("limit"),
                retry_after: refusal.retry_after(),
            },
            _ => match refusal.invalid() {
                Some(invalid) => invalid.into(),
                None => refusal.store_error().into(),
            },
        }
    }

    /// Converts it to the error of a call about a schedule.
    pub(super) fn into_schedule(self, name: ScheduleName) -> ScheduleError {
        match self {
            RemoteError::Refused(refusal) if refusal.is_not_found() => ScheduleError::NotFound(name),
            RemoteError::Refused(refusal) => {
                let is_about_its_job = refusal.text("field").is_some_and(|field| field.starts_with("job"))
                    || refusal.is_about_a_submission();
                match (refusal.denied(), refusal.invalid()) {
                    (Some(denied), _) => denied.into(),
                    (None, Some(invalid)) if !is_about_its_job => invalid.into(),
                    _ if is_about_its_job => {
                        ScheduleError::Refused(Box::new(RemoteError::Refused(refusal).into_submit()))
                    }
                    _ => refusal.store_error().into(),
                }
            }
            RemoteError::Store(error) => error.into(),
        }
    }

    /// Converts it to the error of a call by a worker for itself.
    pub(super) fn into_work(self, worker: WorkerId) -> WorkError {
        self.into_work_or(WorkError::NoSuchWorker(worker))
    }

    /// Converts it to the error of a call by a worker for a job.
    pub(super) fn into_work_for(self, job: JobId) -> WorkError {
        match self {
            RemoteError::Refused(refusal) if refusal.code == "stale_fence" => WorkError::Stale(job),
            other => other.into_work_or(WorkError::NoSuchJob(job)),
        }
    }

    /// Converts it to the error of a call that names neither worker nor job.
    pub(super) fn into_work_or(self, missing: WorkError) -> WorkError {
        match self {
            RemoteError::Refused(refusal) if refusal.is_not_found() => missing,
            RemoteError::Refused(refusal) => match (refusal.denied(), refusal.invalid()) {
                (Some(denied), _) => denied.into(),
                (None, Some(invalid)) => invalid.into(),
                (None, None) => refusal.store_error().into(),
            },
            RemoteError::Store(error) => error.into(),
        }
    }
}

/// The error for a value that is not JSON, which no server accepts.
pub(super) fn not_json(field: &str) -> Invalid {
    Invalid::new(field, FieldProblem::Contradiction("is not JSON".into()))
}
