//! Converts a server's errors, by the stable codes of the HTTP API, back to the errors of the library: the same errors
//! as those of an embedded store.

use std::time::Duration;

use windlass_api::client::error::ErrorResponse;
use windlass_api::error::ErrorFields;

use crate::error::{
    ActionError, FieldError, FieldProblem, Forbidden, InvalidTransition, ScheduleError, StoreError,
    SubmitError, TooDeep, WorkError,
};
use crate::job::{JobId, JobState, NeededBy, ScheduleName, WorkerId};
use crate::limits;
use crate::store::caller::{Permission, Role};

/// The status of a response about an invalid value.
const INVALID: u16 = 422;

/// A failed call.
#[derive(Debug)]
pub(super) enum RemoteError {
    /// The server refused it.
    Refused(Box<ErrorResponse>),
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
            RemoteError::Refused(refusal) => store_error(&refusal),
            RemoteError::Store(error) => error,
        }
    }
}

fn retry_after(refusal: &ErrorResponse) -> Duration {
    refusal.retry_after.unwrap_or(limits::OVERLOADED_RETRY_AFTER)
}

fn store_error(refusal: &ErrorResponse) -> StoreError {
    if let Some(denied) = denied(refusal) {
        return StoreError::Forbidden(denied);
    }
    match refusal.code.as_str() {
        "disk_full" => StoreError::Full,
        "damaged" => StoreError::Damaged(
            refusal
                .message_between("stored data is damaged: ", "; restore a backup, or run `windlass verify`"),
        ),
        "database" => StoreError::Database(refusal.message_between("database error: ", "")),
        _ if refusal.code == "overloaded" || refusal.status == 429 => {
            StoreError::Overloaded { waiting: refusal.size("waiting"), retry_after: retry_after(refusal) }
        }
        // A retry succeeds once the server was started again.
        _ if refusal.status >= 500 => StoreError::Unreachable(refusal.message.clone()),
        code => StoreError::Database(format!("{code}: {}", refusal.message)),
    }
}

/// The missing permission, if that is the reason.
fn denied(refusal: &ErrorResponse) -> Option<Forbidden> {
    if refusal.status == 401 {
        let actor = "a caller without a valid key".to_owned();
        return Some(Forbidden { actor, role: "none", action: "use this server" });
    }
    if refusal.status != 403 {
        return None;
    }
    let role = Role::ALL.into_iter().map(Role::as_str).find(|word| refusal.text("role") == Some(word));
    let actions = Permission::ALL.into_iter().map(Permission::as_str);
    let action = actions.into_iter().find(|word| refusal.text("action") == Some(word));
    Some(Forbidden {
        actor: refusal.text("actor").unwrap_or("the caller").to_owned(),
        role: role.unwrap_or("unknown"),
        action: action.unwrap_or("do this"),
    })
}

/// The invalid value, if that is the reason.
fn invalid(refusal: &ErrorResponse) -> Option<FieldError> {
    let is_one = refusal.code == "invalid_value" || refusal.status == INVALID;
    let field = refusal.text("field").filter(|_| is_one)?;
    let prefix = format!("jobs.{}.", refusal.number("index"));
    let local = field.strip_prefix(&prefix).or_else(|| field.strip_prefix("job.")).unwrap_or(field);
    Some(FieldError::new(local, problem(refusal, field, local)))
}

fn problem(refusal: &ErrorResponse, field: &str, local: &str) -> FieldProblem {
    let value = || refusal.text_or_empty("value");
    match refusal.text("problem").unwrap_or_default() {
        "missing" => FieldProblem::Missing,
        "too_long" => FieldProblem::TooLong { length: refusal.size("length"), limit: refusal.size("limit") },
        "too_many_bytes" => {
            FieldProblem::TooManyBytes { length: refusal.size("length"), limit: refusal.size("limit") }
        }
        "not_a_name" => FieldProblem::NotAName(value()),
        "out_of_range" => FieldProblem::OutOfRange {
            value: value(),
            min: refusal.text_or_empty("min"),
            max: refusal.text_or_empty("max"),
        },
        "no_such_job" => FieldProblem::NoSuchJob(value()),
        "name_twice" => FieldProblem::NameTwice(value()),
        "cycle" => FieldProblem::Cycle(value()),
        "limit_reached" => FieldProblem::LimitReached {
            name: match refusal.text("setting") {
                Some("max_types") => "max_types",
                Some("max_lanes") => "max_lanes",
                Some(FieldProblem::MAX_CONCURRENCY_KEYS) => FieldProblem::MAX_CONCURRENCY_KEYS,
                _ => "max_queues",
            },
            value: value(),
            limit: refusal.number("limit"),
            tenant: refusal.text_or_empty("tenant"),
        },
        _ => {
            let said = refusal.message_between(&format!("{field}: "), "");
            FieldProblem::Contradiction(said.strip_prefix(&format!("{local}: ")).unwrap_or(&said).to_owned())
        }
    }
}

fn refused(refusal: &ErrorResponse) -> Option<InvalidTransition> {
    if refusal.code != "state_conflict" {
        return None;
    }
    Some(InvalidTransition {
        state: refusal.text("state")?.parse().ok()?,
        action: refusal.text("action")?.parse().ok()?,
    })
}

fn too_deep(refusal: &ErrorResponse) -> TooDeep {
    TooDeep {
        scope: refusal.text_or_empty("scope"),
        depth: refusal.number("depth"),
        limit: refusal.number("limit"),
        retry_after: retry_after(refusal),
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
        if let Some(denied) = denied(&refusal) {
            return denied.into();
        }
        match (refusal.code.as_str(), refusal.job()) {
            ("payload_too_large" | "body_too_large", _) => {
                let (size, limit) = (refusal.size("size"), refusal.size("limit"));
                SubmitError::PayloadTooLarge { index, size, limit }
            }
            ("unique_key_taken", Some(holder)) => {
                SubmitError::UniqueKeyTaken { index, key: refusal.text_or_empty("key"), holder }
            }
            ("payload_differs", Some(existing)) => SubmitError::PayloadDiffers { index, existing },
            ("too_many_jobs", _) => too_deep(&refusal).into(),
            _ => match invalid(&refusal) {
                Some(invalid) => SubmitError::Invalid { index, invalid },
                None => store_error(&refusal).into(),
            },
        }
    }

    /// Converts it to the error of an action; `missing` is returned if the object was not found.
    pub(super) fn into_act(self, missing: ActionError) -> ActionError {
        let refusal = match self {
            RemoteError::Refused(refusal) => refusal,
            RemoteError::Store(error) => return error.into(),
        };
        if refusal.is_not_found() {
            return missing;
        }
        if let Some(denied) = denied(&refusal) {
            return denied.into();
        }
        if let Some(refused) = refused(&refusal) {
            return refused.into();
        }
        match (refusal.code.as_str(), refusal.job(), missing) {
            ("already_suspended", _, ActionError::NotFound(id))
                if refusal.text("state") == Some("running") =>
            {
                ActionError::SuspensionRequested(id)
            }
            ("already_suspended", _, ActionError::NotFound(id)) => ActionError::AlreadySuspended(id),
            ("not_suspended", _, ActionError::NotFound(id)) => ActionError::NotSuspended(id),
            ("precondition_failed", _, ActionError::NotFound(id)) => {
                match refusal.text("version").map(str::parse) {
                    Some(Ok(version)) => ActionError::Changed { id, version },
                    _ => store_error(&refusal).into(),
                }
            }
            ("already_redriven", Some(successor), ActionError::NotFound(id)) => {
                ActionError::AlreadyRedriven { id, successor }
            }
            ("last_admin_key", _, ActionError::NoSuchKey(id)) => ActionError::LastAdminKey(id),
            ("job_needed", Some(job), ActionError::NotFound(id)) => {
                let by = match refusal.text("role") {
                    Some("parent") => NeededBy::Parent(job),
                    Some("dependents") => NeededBy::Dependents(job),
                    _ => NeededBy::Dependent(job),
                };
                let state = refusal.text("state").and_then(|state| state.parse().ok());
                ActionError::Needed { id, state: state.unwrap_or(JobState::Completed), by }
            }
            ("unique_key_taken", Some(holder), _) => {
                ActionError::UniqueKeyTaken { key: refusal.text_or_empty("key"), holder }
            }
            ("too_many_jobs", _, _) => too_deep(&refusal).into(),
            _ => match invalid(&refusal) {
                Some(invalid) => invalid.into(),
                None => store_error(&refusal).into(),
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
                match (denied(&refusal), invalid(&refusal)) {
                    (Some(denied), _) => denied.into(),
                    (None, Some(invalid)) if !is_about_its_job => invalid.into(),
                    _ if is_about_its_job => {
                        ScheduleError::Refused(Box::new(RemoteError::Refused(refusal).into_submit()))
                    }
                    _ => store_error(&refusal).into(),
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
            RemoteError::Refused(refusal) => match (denied(&refusal), invalid(&refusal)) {
                (Some(denied), _) => denied.into(),
                (None, Some(invalid)) => invalid.into(),
                (None, None) => store_error(&refusal).into(),
            },
            RemoteError::Store(error) => error.into(),
        }
    }
}

/// The invalid value that one item of several was refused for.
pub(super) fn invalid_item(fields: ErrorFields) -> Option<FieldError> {
    invalid(&ErrorResponse::item(fields, INVALID))
}

/// Whether an outcome was rejected because of a job that it submits.
pub(super) fn is_about_a_follow_up(fields: &ErrorFields) -> bool {
    fields.details.contains_key("index")
}

/// The refusal of a job that an outcome submits.
pub(super) fn refused_item(fields: ErrorFields) -> SubmitError {
    RemoteError::Refused(Box::new(ErrorResponse::item(fields, INVALID))).into_submit()
}

/// The error about a field that names nothing the server knows.
pub(super) fn unknown(field: &str) -> ActionError {
    FieldError::new(field, FieldProblem::Contradiction("is not known to this server".into())).into()
}

/// The error for a value that is not JSON, which no server accepts.
pub(super) fn not_json(field: &str) -> FieldError {
    FieldError::new(field, FieldProblem::Contradiction("is not JSON".into()))
}
