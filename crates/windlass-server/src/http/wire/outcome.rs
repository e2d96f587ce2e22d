//! Outcomes of attempts in the API. Each item is parsed separately, so that an invalid one does not affect the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::job::{Category, ErrorCause, Failure, Fence, GroupStrategy, JobId, JobState};
use windlass::store::command::finish::{Finish, Outcome, Park, Report};

use super::Json;
use super::expires::Expiry;
use super::submission::Submission;
use super::text::Text;
use super::time::Span;
use crate::http::reply::error::ApiError;

/// Outcomes of attempts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomesBody {
    pub(crate) worker_id: String,
    /// At most 1000.
    #[schemars(with = "Vec<OutcomeBody>", length(max = 1000))]
    pub(crate) outcomes: Vec<Json>,
}

/// The outcome of one attempt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeBody {
    id: Text<JobId>,
    fence: u64,
    outcome: OutcomeWord,
    /// The result, for `completed`.
    result: Option<Json>,
    /// The error, for `failed`.
    error: Option<FailureBody>,
    /// The cost of the attempt.
    cost_cents: Option<i64>,
    /// What it waits for, for `parked`.
    park: Option<ParkBody>,
}

/// The outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    Completed,
    Failed,
    Released,
    Parked,
}

/// An error.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FailureBody {
    /// `temporary` if not given.
    category: Option<Category>,
    #[serde(default)]
    message: String,
    code: Option<String>,
    /// Delay before the retry, instead of the policy's backoff.
    retry_after: Option<Span>,
    /// The underlying errors, the nearest first; only the first 8 are stored.
    #[serde(default)]
    cause: Vec<CauseBody>,
}

/// An underlying error: a text, or an object with a code.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum CauseBody {
    Text(String),
    Whole(CauseFields),
}

/// An underlying error.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ErrorCause")]
#[serde(deny_unknown_fields)]
struct CauseFields {
    message: String,
    code: Option<String>,
}

impl From<CauseBody> for ErrorCause {
    fn from(body: CauseBody) -> ErrorCause {
        match body {
            CauseBody::Text(message) => ErrorCause::new(message),
            CauseBody::Whole(CauseFields { message, code }) => ErrorCause { message, code },
        }
    }
}

/// What a parked attempt waits for: a time, a duration, a signal, or the first of several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParkBody {
    until: Option<Expiry>,
    r#for: Option<Span>,
    signal: Option<String>,
    /// Maximum time to wait for the signal.
    timeout: Option<Span>,
    /// The checkpoint for the signal's value; `signal:NAME` if not given.
    step: Option<String>,
    /// Continues with the first of these; they cannot be nested.
    any: Option<Vec<ParkBody>>,
}

impl OutcomeBody {
    /// The library's report.
    pub(crate) fn into_report(self) -> Result<Report, ApiError> {
        let misplaced = |field: &str, is_there: bool, wanted: OutcomeWord| {
            if is_there && self.outcome != wanted {
                return Err(ApiError::invalid(field, "is not valid for this outcome"));
            }
            Ok(())
        };
        misplaced("result", self.result.is_some(), OutcomeWord::Completed)?;
        misplaced("error", self.error.is_some(), OutcomeWord::Failed)?;
        misplaced("park", self.park.is_some(), OutcomeWord::Parked)?;
        let required = |field: &str| ApiError::invalid(field, "is required");
        let outcome = match self.outcome {
            OutcomeWord::Completed => {
                Outcome::Completed { result: self.result.map(|json| json.bytes().to_vec()) }
            }
            OutcomeWord::Failed => {
                Outcome::Failed(self.error.ok_or_else(|| required("error"))?.into_failure())
            }
            OutcomeWord::Released => Outcome::Released,
            OutcomeWord::Parked => Outcome::Parked(self.park.ok_or_else(|| required("park"))?.into_park()?),
        };
        let cost_cents = self.cost_cents.unwrap_or(0);
        Ok(Report { job: self.id.0, fence: Fence(self.fence), outcome, cost_cents })
    }
}

impl FailureBody {
    fn into_failure(self) -> Failure {
        let category = self.category.unwrap_or(Category::Temporary);
        let mut failure = Failure::new(category, self.message);
        if let Some(code) = self.code {
            failure = failure.with_code(code);
        }
        failure = self.cause.into_iter().fold(failure, Failure::with_cause);
        match self.retry_after {
            Some(delay) => failure.with_retry_after(delay.0),
            None => failure,
        }
    }
}

impl ParkBody {
    pub(crate) fn into_park(self) -> Result<Park, ApiError> {
        if let Some(any) = self.any {
            let is_alone = self.until.is_none() && self.r#for.is_none() && self.signal.is_none();
            if !is_alone || any.iter().any(|park| park.any.is_some()) {
                return Err(ApiError::invalid("park.any", "cannot be combined with other fields or nested"));
            }
            return Ok(Park::Any(any.into_iter().map(ParkBody::into_park).collect::<Result<_, _>>()?));
        }
        match (self.until, self.r#for, self.signal) {
            (Some(Expiry::At(until)), None, None) => Ok(Park::Until(until.0)),
            (Some(Expiry::After(span)), None, None) | (None, Some(span), None) => Ok(Park::For(span.0)),
            (None, None, Some(name)) => {
                Ok(Park::Signal { name, step: self.step, timeout: self.timeout.map(|span| span.0) })
            }
            _ => Err(ApiError::invalid("park", "give one of `until`, `for`, `signal` and `any`")),
        }
    }
}

/// The results of the reports, in their order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutcomesView {
    pub(crate) outcomes: Vec<OutcomeView>,
}

/// The result of one report.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OutcomeAnswer")]
pub(crate) struct OutcomeView {
    /// The id as given.
    id: Value,
    /// `applied`, `stale` or `rejected`.
    status: &'static str,
    /// The job's state, if the report was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Text<JobState>>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl OutcomeView {
    /// The result for this job.
    pub(crate) fn of(id: JobId, finish: Finish) -> OutcomeView {
        let id = Value::String(id.to_string());
        match finish {
            Finish::Applied(state) => {
                OutcomeView { id, status: "applied", state: Some(Text(state)), error: None }
            }
            Finish::Stale => OutcomeView { id, status: "stale", state: None, error: None },
            Finish::Rejected(invalid) => OutcomeView::rejected(id, &invalid.into()),
        }
    }

    /// A rejected report.
    pub(crate) fn rejected(id: Value, problem: &ApiError) -> OutcomeView {
        OutcomeView { id, status: "rejected", state: None, error: Some(problem.as_item()) }
    }
}

/// Children of a running job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChildrenBody {
    pub(crate) fence: u64,
    /// The worker that claimed the parent. Checked if given; without it the fence alone identifies the claim.
    pub(crate) worker_id: Option<String>,
    pub(crate) jobs: Vec<Submission>,
    /// When the group is decided; `fail_fast` if not given.
    pub(crate) strategy: Option<StrategyBody>,
    /// Its name within the parent, so that a replay finds the group again; `children` if not given.
    pub(crate) name: Option<String>,
    /// What else wakes the parent before the group is decided.
    #[serde(default)]
    pub(crate) beside: Vec<ParkBody>,
}

/// When a group is decided.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StrategyBody {
    /// At the first child that fails, or when all have completed.
    FailFast,
    /// When all are final.
    CollectAll,
    /// When this many have completed, or no longer can.
    Threshold(u32),
}

impl From<GroupStrategy> for StrategyBody {
    fn from(strategy: GroupStrategy) -> StrategyBody {
        match strategy {
            GroupStrategy::FailFast => StrategyBody::FailFast,
            GroupStrategy::CollectAll => StrategyBody::CollectAll,
            GroupStrategy::Threshold(count) => StrategyBody::Threshold(count),
        }
    }
}

impl From<StrategyBody> for GroupStrategy {
    fn from(strategy: StrategyBody) -> GroupStrategy {
        match strategy {
            StrategyBody::FailFast => GroupStrategy::FailFast,
            StrategyBody::CollectAll => GroupStrategy::CollectAll,
            StrategyBody::Threshold(count) => GroupStrategy::Threshold(count),
        }
    }
}
