//! Job data in the API: attempts, checkpoints, children, logs, result, graph, reasons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::job::{
    AttemptOutcome, GroupDecision, GroupStrategy, JobId, JobRecord, JobState, JobType, WorkerId,
};

use crate::job::{JobError, Why};
use crate::json::Json;
use crate::text::Text;
use crate::time::{Moment, Span};

/// A job's attempts, the running one last.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AttemptList")]
pub struct Attempts {
    /// The attempts.
    pub attempts: Vec<Attempt>,
}

/// One attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Id of the attempt.
    pub attempt_id: String,
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Id of the attempt before it.
    pub previous_attempt_id: Option<String>,
    /// The worker.
    pub worker: Option<Text<WorkerId>>,
    /// When it started.
    pub started_at: Option<Moment>,
    /// When it ended; null while it runs.
    pub ended_at: Option<Moment>,
    /// The outcome; null while it runs.
    #[schemars(with = "Option<String>")]
    pub outcome: Option<AttemptOutcome>,
    /// Its error, if it failed.
    pub error: Option<JobError>,
}

/// A job's checkpoints.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CheckpointList")]
pub struct Checkpoints {
    /// The checkpoints, by name.
    pub checkpoints: Vec<Checkpoint>,
}

/// A checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Name of the step.
    pub step: String,
    /// The saved value.
    pub value: Option<Json>,
}

/// A job's log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobLog")]
pub struct Logs {
    /// The lines.
    pub logs: Vec<LogLine>,
}

/// A line of a job's log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Line number, for `after`.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// Number of the attempt that wrote it.
    pub attempt: u32,
    /// The line.
    pub text: String,
}

/// A job's result.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobResult {
    /// State.
    pub state: Text<JobState>,
    /// The result, once the job is completed.
    pub result: Option<Json>,
    /// The error of the last failed attempt.
    pub error: Option<JobError>,
}

/// All reasons why a job is not running.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReasonList")]
pub struct Reasons {
    /// The reasons; empty if nothing prevents it from running.
    pub reasons: Vec<Why>,
}

/// A token to make.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBody {
    /// How long it is valid, at most 24 hours; 15 minutes if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Span>,
}

/// A token that reads one job, for a page in a browser.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// The token; it is sent like an API key, and reads the job and its result.
    pub token: String,
    /// When it ends.
    pub expires_at: Moment,
}

/// A job's children.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChildList")]
pub struct Children {
    /// The children, in input order.
    pub children: Vec<Child>,
    /// The groups that they belong to.
    pub groups: Vec<Group>,
    /// For the next page; null after the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A child, in input order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Child {
    /// Id of the job.
    pub id: Text<JobId>,
    /// Job type.
    pub r#type: Text<JobType>,
    /// State.
    pub state: Text<JobState>,
    /// Number of its group within the parent.
    pub group: u64,
    /// Its place within the group, from 0.
    pub index: u32,
    /// Its result, once it is completed.
    pub result: Option<Json>,
    /// True if it has a result that the caller may not read.
    pub redacted: bool,
    /// True if its result is left out because those before exceed 64 MiB: get it separately.
    pub omitted: bool,
    /// Its error, if it failed.
    pub error: Option<JobError>,
}

/// A group of spawned children.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SpawnedChildren")]
pub struct SpawnedChildren {
    /// The group's number within the parent.
    pub group: u64,
    /// Whether it existed already, from an earlier attempt.
    pub known: bool,
    /// The children, in input order.
    pub children: Vec<Child>,
    /// The parent.
    pub parent: Parent,
}

/// The parent's state.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Parent {
    /// Its id.
    pub id: Text<JobId>,
    /// Its state.
    pub state: Text<JobState>,
}

/// A group of children and its progress.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChildGroup")]
pub struct Group {
    /// Number of the group within the parent.
    pub group: u64,
    /// Name of the group within the parent.
    pub name: String,
    /// When the group is decided.
    #[serde(deserialize_with = "crate::values::lenient::known")]
    pub strategy: GroupStrategy,
    /// Number of children.
    pub total: u32,
    /// Number of children that are not final.
    pub open: u32,
    /// Number of children that completed.
    pub completed: u32,
    /// `well` or `badly` once it is decided.
    #[schemars(with = "Option<String>")]
    pub decided: Option<GroupDecision>,
}

/// Related jobs: dependencies, parents and children.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Graph {
    /// The jobs.
    pub nodes: Vec<Node>,
    /// Which waits for which.
    pub edges: Vec<Edge>,
    /// Whether the graph has more jobs than shown.
    pub truncated: bool,
}

/// A job in a graph.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GraphNode")]
pub struct Node {
    /// Id of the job.
    pub id: Text<JobId>,
    /// Job type.
    pub r#type: Text<JobType>,
    /// State.
    pub state: Text<JobState>,
}

/// A job that waits, or waited, for another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(rename = "GraphEdge")]
pub struct Edge {
    /// The job that is waited for.
    pub from: Text<JobId>,
    /// The waiting job.
    pub to: Text<JobId>,
    /// `after`, `after_any`, or `child` for a parent that waits for its child.
    pub need: String,
}

impl From<&JobRecord> for Node {
    fn from(job: &JobRecord) -> Node {
        Node { id: Text(job.id), r#type: Text(job.lane.job_type.clone()), state: Text(job.state) }
    }
}
