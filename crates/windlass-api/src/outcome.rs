//! Outcomes of attempts in the API. Each item is parsed separately, so that an invalid one does not affect the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::job::{Category, ErrorCause, GroupStrategy, JobId, JobState, WorkerId};
use windlass_core::skip_none;

use crate::claim::{ProgressBody, SavedStep};
use crate::error::ErrorFields;
use crate::expires::Expiry;
use crate::json::Json;
use crate::stream::StreamPart;
use crate::submission::Submission;
use crate::text::Text;
use crate::time::Span;

/// Outcomes of attempts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OutcomesRequest")]
#[serde(deny_unknown_fields)]
pub struct OutcomesBody {
    /// Id of the worker.
    #[schemars(with = "Text<WorkerId>")]
    pub worker_id: String,
    /// At most 1000.
    #[schemars(with = "Vec<OutcomeBody>", length(max = 1000))]
    pub outcomes: Vec<Json>,
}

/// The outcome of one attempt.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OutcomeReport")]
#[serde(deny_unknown_fields)]
pub struct OutcomeBody {
    /// Id of the job.
    pub id: Text<JobId>,
    /// The fence of the claim.
    pub fence: u64,
    /// How the attempt ended.
    pub outcome: OutcomeKind,
    /// The result, for `completed`.
    pub result: Option<Json>,
    /// The error, for `failed`.
    pub error: Option<FailureBody>,
    /// The cost of the attempt.
    pub cost_cents: Option<i64>,
    /// What it waits for, for `parked`.
    pub park: Option<ParkBody>,
    /// Checkpoints, saved in the commit of the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<SavedStep>,
    /// Progress, written in the commit of the outcome.
    pub progress: Option<ProgressBody>,
    /// Lines for the job's log, written in the commit of the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    /// Partial output, written in the commit of the outcome.
    pub stream: Option<StreamPart>,
    /// Jobs submitted in the commit of the outcome, for `completed`, at most 100.
    #[schemars(length(max = 100))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submit: Vec<Submission>,
}

/// The outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OutcomeKind")]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named for what it is")]
pub enum OutcomeKind {
    Completed,
    Failed,
    Released,
    Parked,
}

/// An error.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Failure")]
#[serde(deny_unknown_fields)]
pub struct FailureBody {
    /// `temporary` if not given.
    pub category: Option<Category>,
    /// A message for people.
    #[serde(default)]
    pub message: String,
    /// A code for programs.
    pub code: Option<String>,
    /// Delay before the retry, instead of the policy's backoff.
    pub retry_after: Option<Span>,
    /// The underlying errors, the nearest first; only the first 8 are stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cause: Vec<CauseBody>,
}

/// An underlying error: a text, or an object with a code.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cause")]
#[serde(untagged)]
#[non_exhaustive]
pub enum CauseBody {
    /// A message.
    Text(String),
    /// A message with a code.
    Whole(CauseFields),
}

/// An underlying error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CauseFields")]
#[serde(deny_unknown_fields)]
pub struct CauseFields {
    /// A message for people.
    pub message: String,
    /// A code for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// What a parked attempt waits for: a time, a duration, a signal, a group of children, or the first of several.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Park")]
#[serde(deny_unknown_fields)]
pub struct ParkBody {
    /// Until a time, or for a duration.
    pub until: Option<Expiry>,
    /// For a duration.
    pub r#for: Option<Span>,
    /// Until a signal with this name is sent.
    pub signal: Option<String>,
    /// Maximum time to wait for the signal.
    pub timeout: Option<Span>,
    /// The checkpoint for the signal's value; `signal:NAME` if not given.
    pub step: Option<String>,
    /// Until this group of children is decided, which was spawned with `park: false`.
    pub group: Option<String>,
    /// Continues with the first of these; they cannot be nested.
    pub any: Option<Vec<ParkBody>>,
}

/// The results of the reports, in their order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OutcomesResponse")]
pub struct OutcomesView {
    /// The results.
    pub outcomes: Vec<OutcomeView>,
}

/// The result of one report.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OutcomeResult")]
pub struct OutcomeView {
    /// The id as given.
    pub id: Value,
    /// `applied`, `stale` or `rejected`.
    pub status: String,
    /// The job's state, if the report was applied.
    pub state: Option<Text<JobState>>,
    /// Why it was rejected.
    pub error: Option<ErrorFields>,
}

/// Children of a running job.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChildrenRequest")]
#[serde(deny_unknown_fields)]
pub struct ChildrenBody {
    /// The fence of the claim.
    pub fence: u64,
    /// The worker that claimed the parent. Checked if given; without it the fence alone identifies the claim.
    #[schemars(with = "Option<Text<WorkerId>>")]
    pub worker_id: Option<String>,
    /// The children.
    pub jobs: Vec<Submission>,
    /// When the group is decided; `fail_fast` if not given.
    pub strategy: Option<GroupStrategy>,
    /// Its name within the parent, so that a replay finds the group again; `children` if not given.
    pub name: Option<String>,
    /// Whether the parent parks until the group is decided; true if not given. With false it continues, and can park on the
    /// group later with `group`, or never.
    pub park: Option<bool>,
    /// What else wakes the parent before the group is decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<ParkBody>,
    /// Checkpoints of the parent, saved in the same commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<SavedStep>,
    /// Partial output of the parent, written in the same commit.
    pub stream: Option<StreamPart>,
}

impl From<CauseBody> for ErrorCause {
    fn from(body: CauseBody) -> ErrorCause {
        match body {
            CauseBody::Text(message) => ErrorCause::new(message),
            CauseBody::Whole(CauseFields { message, code }) => ErrorCause { message, code },
        }
    }
}

impl From<ErrorCause> for CauseBody {
    fn from(cause: ErrorCause) -> CauseBody {
        CauseBody::Whole(CauseFields { message: cause.message, code: cause.code })
    }
}
