//! Error responses: `{"error": {"code", "message", "details"?}}`, and the status and code of each library error. Codes are
//! stable; programs match on them.

use std::fmt::Display;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use windlass::error::{
    ActionError, AlertError, FieldError, Forbidden, InvalidTransition, ScheduleError, StoreError,
    SubmitError, TooDeep, WorkError,
};
use windlass::limits::OVERLOADED_RETRY_AFTER;
use windlass_api::error::{ErrorBody, ErrorFields};
use windlass_api::error_code::CODES;

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Map<String, Value>,
    retry_after: Option<Duration>,
}

impl ApiError {
    /// An error with this status, code and message.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        let is_known = CODES.iter().any(|(known, name, _)| (*known, *name) == (status.as_u16(), code));
        debug_assert!(is_known, "{status} {code} is not in the list of codes");
        ApiError { status, code, message: message.into(), details: Map::new(), retry_after: None }
    }

    /// Adds a detail.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> ApiError {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// An invalid value in the field with this dotted path.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> ApiError {
        let (field, message) = (field.into(), message.into());
        let whole = format!("{field}: {message}");
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value", whole).with("field", field)
    }

    /// The object does not exist, or the caller may not see it.
    pub(crate) fn not_found(what: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", what)
    }

    /// A conflict with the current state.
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, code, message)
    }

    /// A strict request to pause what is already paused.
    pub(crate) fn already_paused(what: impl Display) -> ApiError {
        ApiError::conflict("already_paused", format!("{what} is already paused"))
            .with("state", "paused")
            .with("action", "pause")
    }

    /// A strict request to resume what is not paused.
    pub(crate) fn not_paused(what: impl Display) -> ApiError {
        ApiError::conflict("not_paused", format!("{what} is not paused"))
            .with("state", "active")
            .with("action", "resume")
    }

    /// The server is stopping: the client can retry, on this or another server.
    pub(crate) fn draining() -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "the server is stopping: retry")
    }

    /// The server is out of memory for bodies: retry later.
    pub(crate) fn crowded(retry_after: Duration) -> ApiError {
        let message = "too many large requests and responses are in progress: read the pending responses, \
            then retry";
        let problem = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message);
        ApiError { retry_after: Some(retry_after), ..problem }
    }

    /// A limit is exceeded: retry later.
    pub(crate) fn too_much(
        code: &'static str,
        message: impl Into<String>,
        retry_after: Duration,
    ) -> ApiError {
        let problem = ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, message);
        ApiError { retry_after: Some(retry_after), ..problem }
    }

    /// Prefixes the field with its place in the body.
    #[must_use]
    pub(crate) fn within(mut self, place: &str) -> ApiError {
        if let Some(Value::String(field)) = self.details.get("field") {
            let field = if field == "body" { place.to_owned() } else { format!("{place}.{field}") };
            self.details.insert("field".into(), field.into());
        }
        self
    }

    /// The body to send.
    pub(crate) fn body(&self) -> ErrorBody {
        let ApiError { code, message, details, .. } = self;
        let fields =
            ErrorFields { code: (*code).to_owned(), message: message.clone(), details: details.clone() };
        ErrorBody { error: fields }
    }

    /// The error without the wrapping, for one item of several.
    pub(crate) fn as_item(&self) -> ErrorFields {
        self.body().error
    }

    /// The error of a submission; in a batch it names the job.
    pub(crate) fn of_submission(error: SubmitError, is_batch: bool) -> ApiError {
        ApiError::of_list(error, is_batch.then_some("jobs"))
    }

    /// The error of a job that an outcome submits; it always has an index.
    pub(crate) fn of_follow_up(error: SubmitError) -> ApiError {
        let refused = ApiError::of_list(error, Some("submit"));
        if refused.details.contains_key("index") { refused } else { refused.with("index", 0) }
    }

    /// The error of a submission; in a list it names list and job.
    fn of_list(error: SubmitError, list: Option<&str>) -> ApiError {
        let place = |problem: ApiError, index: usize| match list {
            Some(list) => problem.within(&format!("{list}.{index}")).with("index", index),
            None => problem,
        };
        match error {
            // An error of the list as a whole names no job.
            SubmitError::Invalid { invalid, .. } if list.is_some() && invalid.field == "jobs" => {
                invalid.into()
            }
            SubmitError::Invalid { index, invalid } => place(invalid.into(), index),
            SubmitError::PayloadTooLarge { index, size, limit } => {
                let message = format!("payload is {size} bytes, the limit is {limit}");
                let problem = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message);
                place(problem.with("field", "payload").with("size", size).with("limit", limit), index)
            }
            SubmitError::UniqueKeyTaken { index, key, holder } => {
                place(unique_key_taken(&key, &holder.to_string()), index)
            }
            SubmitError::PayloadDiffers { index, existing } => {
                let message = format!("the idempotency key belongs to job {existing} with another payload");
                let problem = ApiError::conflict("payload_differs", message);
                place(problem.with("job_id", existing.to_string()), index)
            }
            SubmitError::TooDeep(full) => full.into(),
            SubmitError::Forbidden(denied) => denied.into(),
            SubmitError::Store(error) => error.into(),
            other => ApiError::internal(&other),
        }
    }

    /// An unexpected error.
    fn internal(error: &dyn std::fmt::Display) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    }
}

fn unique_key_taken(key: &str, holder: &str) -> ApiError {
    let message = format!("unique key `{key}` is held by job {holder}");
    ApiError::conflict("unique_key_taken", message).with("job_id", holder).with("key", key)
}

impl From<FieldError> for ApiError {
    fn from(invalid: FieldError) -> ApiError {
        let problem = ApiError::invalid(invalid.field, invalid.problem.to_string());
        explained(problem, invalid.problem)
    }
}

/// Adds details about the invalid value.
fn explained(refusal: ApiError, problem: windlass::error::FieldProblem) -> ApiError {
    use windlass::error::FieldProblem as Wrong;
    match problem {
        Wrong::Missing => refusal.with("problem", "missing"),
        Wrong::TooLong { length, limit } => {
            refusal.with("problem", "too_long").with("length", length).with("limit", limit)
        }
        Wrong::TooManyBytes { length, limit } => {
            refusal.with("problem", "too_many_bytes").with("length", length).with("limit", limit)
        }
        Wrong::NotAName(value) => refusal.with("problem", "not_a_name").with("value", value),
        Wrong::OutOfRange { value, min, max } => {
            let refusal = refusal.with("problem", "out_of_range").with("value", value);
            refusal.with("min", min).with("max", max)
        }
        Wrong::NoSuchJob(value) => refusal.with("problem", "no_such_job").with("value", value),
        Wrong::NameTwice(value) => refusal.with("problem", "name_twice").with("value", value),
        Wrong::LimitReached { name, value, limit, tenant } => refusal
            .with("problem", "limit_reached")
            .with("setting", name)
            .with("value", value)
            .with("limit", limit)
            .with("tenant", tenant),
        Wrong::Cycle(value) => refusal.with("problem", "cycle").with("value", value),
        // The message is enough.
        _ => refusal,
    }
}

impl ApiError {
    /// Whether a valid key is missing.
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }
}

impl From<Forbidden> for ApiError {
    fn from(denied: Forbidden) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", denied.to_string())
            .with("actor", denied.actor)
            .with("role", denied.role)
            .with("action", denied.action)
    }
}

impl From<InvalidTransition> for ApiError {
    fn from(refused: InvalidTransition) -> ApiError {
        ApiError::conflict("state_conflict", refused.to_string())
            .with("state", refused.state.as_str())
            .with("action", refused.action.as_str())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        let message = error.to_string();
        let unavailable = |code| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message.clone());
        match error {
            StoreError::Full => unavailable("disk_full"),
            StoreError::Overloaded { retry_after, .. } => {
                ApiError { retry_after: Some(retry_after), ..unavailable("overloaded") }
            }
            StoreError::TooManyReads { retry_after, .. } => {
                ApiError::too_much("too_many_requests", message, retry_after)
            }
            StoreError::TooSlow(_) => {
                ApiError { retry_after: Some(OVERLOADED_RETRY_AFTER), ..unavailable("overloaded") }
            }
            StoreError::Forbidden(denied) => denied.into(),
            StoreError::Stopped(_) | StoreError::Closed | StoreError::Moved(_) => unavailable("stopped"),
            StoreError::Damaged(_) => {
                tracing::error!(message, "stored data is damaged");
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged", message)
            }
            StoreError::Database(_) | _ => {
                tracing::warn!(message, "database error");
                unavailable("database")
            }
        }
    }
}

impl From<TooDeep> for ApiError {
    fn from(full: TooDeep) -> ApiError {
        let TooDeep { scope, depth, limit, retry_after } = full;
        let message = format!("{scope} has {depth} unfinished jobs, the limit is {limit}");
        let problem = ApiError::too_much("too_many_jobs", message, retry_after);
        problem.with("scope", scope).with("depth", depth).with("limit", limit)
    }
}

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> ApiError {
        let message = error.to_string();
        match error {
            ActionError::NotFound(_) | ActionError::NoSuchWorker(_) | ActionError::NoSuchKey(_) => {
                ApiError::not_found(message)
            }
            ActionError::Refused(refused) => refused.into(),
            ActionError::AlreadySuspended(_) => ApiError::conflict("already_suspended", message)
                .with("state", "suspended")
                .with("action", "suspend"),
            ActionError::SuspensionRequested(_) => ApiError::conflict("already_suspended", message)
                .with("state", "running")
                .with("action", "suspend"),
            ActionError::NotSuspended(_) => {
                ApiError::conflict("not_suspended", message).with("action", "resume")
            }
            ActionError::AlreadyPaused(what) => ApiError::already_paused(what),
            ActionError::NotPaused(what) => ApiError::not_paused(what),
            ActionError::Needed { state, by, .. } => ApiError::conflict("job_needed", message)
                .with("state", state.as_str())
                .with("action", "delete")
                .with("job_id", by.job().to_string())
                .with("role", by.as_str()),
            ActionError::AlreadyRedriven { successor, .. } => {
                ApiError::conflict("already_redriven", message).with("job_id", successor.to_string())
            }
            ActionError::Changed { version, .. } => {
                ApiError::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", message)
                    .with("version", version.to_string())
            }
            ActionError::LastAdminKey(_) => ApiError::conflict("last_admin_key", message),
            ActionError::Invalid(invalid) => invalid.into(),
            ActionError::UniqueKeyTaken { key, holder } => unique_key_taken(&key, &holder.to_string()),
            ActionError::TooDeep(full) => full.into(),
            ActionError::Forbidden(denied) => denied.into(),
            ActionError::Store(error) => error.into(),
            other => ApiError::internal(&other),
        }
    }
}

impl From<WorkError> for ApiError {
    fn from(error: WorkError) -> ApiError {
        let message = error.to_string();
        match error {
            WorkError::NoSuchWorker(_) | WorkError::NoSuchJob(_) => ApiError::not_found(message),
            WorkError::Stale(_) => ApiError::conflict("stale_fence", message),
            WorkError::Invalid(invalid) => invalid.into(),
            WorkError::TooManyWorkers { of, workers_max, bytes_max, retry_after } => {
                ApiError::too_much("too_many_workers", message, retry_after)
                    .with("of", of)
                    .with("limit", workers_max)
                    .with("bytes_limit", bytes_max)
            }
            WorkError::Children(refused) => ApiError::of_submission(*refused, true),
            WorkError::Forbidden(denied) => denied.into(),
            WorkError::Store(error) => error.into(),
            other => ApiError::internal(&other),
        }
    }
}

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> ApiError {
        let message = error.to_string();
        match error {
            ScheduleError::NotFound(_) => ApiError::not_found(message),
            ScheduleError::Invalid(invalid) => invalid.into(),
            ScheduleError::Refused(refused) => ApiError::of_submission(*refused, false).within("job"),
            ScheduleError::Forbidden(denied) => denied.into(),
            ScheduleError::Store(error) => error.into(),
            other => ApiError::internal(&other),
        }
    }
}

impl From<AlertError> for ApiError {
    fn from(error: AlertError) -> ApiError {
        let message = error.to_string();
        match error {
            AlertError::NotFound(_) => ApiError::not_found(message),
            AlertError::Invalid(invalid) => invalid.into(),
            AlertError::Forbidden(denied) => denied.into(),
            AlertError::Store(error) => error.into(),
            other => ApiError::internal(&other),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = crate::http::reply::response::json(self.status, &self.body());
        if let Some(retry_after) = self.retry_after {
            // Whole seconds, rounded up.
            let seconds = retry_after.as_millis().div_ceil(1000).max(1);
            let value = HeaderValue::from_str(&seconds.to_string()).expect("digits are a header value");
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_beyond_a_callers_share_and_slow_reads_are_not_database_errors() {
        let retry_after = Duration::from_secs(2);
        let crowded = StoreError::TooManyReads { of: "key", waiting: 1_024, retry_after };
        let slow = StoreError::TooSlow("the read was cancelled".to_owned());
        let refusals = [(crowded, 429, "too_many_requests", "2"), (slow, 503, "overloaded", "1")];
        for (error, status, code, seconds) in refusals {
            let problem = ApiError::from(error);
            assert_eq!((problem.status.as_u16(), problem.code), (status, code));
            assert_eq!(problem.into_response().headers()[header::RETRY_AFTER], seconds);
        }
    }
}
