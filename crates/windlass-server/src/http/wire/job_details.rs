//! Job data in the API: attempts, checkpoints, children, logs, result, graph, reasons.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use windlass::job::{AttemptId, AttemptOutcome, JobId, JobRecord, JobState, JobType, Need, WorkerId};
use windlass::store::command::attempt_writes::LogLine;
use windlass::store::command::claim::Checkpoint;
use windlass::store::query::explain::Reason;
use windlass::store::query::job_details::{Attempt, Group};

use super::Json;
use super::job::ErrorView;
use super::outcome::StrategyBody;
use super::text::Text;
use super::time::Moment;

/// A job's attempts, the running one last.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Attempts {
    pub(crate) attempts: Vec<AttemptView>,
}

/// One attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
pub(crate) struct AttemptView {
    attempt_id: String,
    number: u32,
    previous_attempt_id: Option<String>,
    worker: Option<Text<WorkerId>>,
    started_at: Option<Moment>,
    ended_at: Option<Moment>,
    /// The outcome; null while it runs.
    outcome: Option<&'static str>,
    error: Option<ErrorView>,
}

impl AttemptView {
    /// An attempt; `job` has the data of a running one.
    pub(crate) fn of(attempt: &Attempt, job: &JobRecord) -> AttemptView {
        let record = attempt.record.as_ref();
        let running = job.lease.filter(|_| record.is_none());
        let started_at = record.map(|record| record.started_at).or(running.and(job.started_at));
        AttemptView {
            attempt_id: attempt.id.to_string(),
            number: attempt.id.number,
            previous_attempt_id: attempt.id.previous().as_ref().map(AttemptId::to_string),
            worker: record.map_or(running.map(|lease| lease.worker), |record| record.worker).map(Text),
            started_at: started_at.map(Moment),
            ended_at: record.map(|record| record.ended_at.into()),
            outcome: record.map(|record| outcome_name(record.outcome)),
            error: record.and_then(|record| record.error.as_ref()).map(ErrorView::from),
        }
    }
}

fn outcome_name(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Completed => "completed",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::TimedOut => "timed_out",
        AttemptOutcome::Lost => "lost",
        AttemptOutcome::Released => "released",
        AttemptOutcome::Parked => "parked",
        AttemptOutcome::Suspended => "suspended",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Expired => "expired",
    }
}

/// A job's checkpoints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Checkpoints {
    pub(crate) checkpoints: Vec<CheckpointView>,
}

/// A checkpoint.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Checkpoint")]
pub(crate) struct CheckpointView {
    step: String,
    value: Option<Json>,
}

impl From<Checkpoint> for CheckpointView {
    fn from(checkpoint: Checkpoint) -> CheckpointView {
        CheckpointView { value: Json::stored(&checkpoint.value), step: checkpoint.step }
    }
}

/// A job's log.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Logs {
    pub(crate) logs: Vec<LogView>,
}

/// A line of a job's log.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LogLine")]
pub(crate) struct LogView {
    /// Line number, for `after`.
    number: u64,
    at: Moment,
    attempt: u32,
    text: String,
}

impl From<(u64, LogLine)> for LogView {
    fn from((number, line): (u64, LogLine)) -> LogView {
        LogView { number, at: line.at.into(), attempt: line.attempt, text: line.text }
    }
}

/// A job's result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultView {
    pub(crate) state: Text<JobState>,
    pub(crate) result: Option<Json>,
    pub(crate) error: Option<ErrorView>,
}

/// All reasons why a job is not running.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Reasons {
    pub(crate) reasons: Vec<ReasonView>,
}

/// One reason with its data.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Reason")]
pub(crate) struct ReasonView {
    code: String,
    message: String,
    #[serde(flatten)]
    details: Map<String, Value>,
}

impl From<Reason> for ReasonView {
    fn from(reason: Reason) -> ReasonView {
        let details = match reason.details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        ReasonView { code: reason.code.to_owned(), message: reason.message, details }
    }
}

/// A job's children.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Children {
    pub(crate) children: Vec<ChildView>,
    pub(crate) groups: Vec<GroupView>,
}

/// A child, in input order.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Child")]
pub(crate) struct ChildView {
    id: Text<JobId>,
    r#type: Text<JobType>,
    state: Text<JobState>,
    group: u64,
    index: u32,
    result: Option<Json>,
    /// True if it has a result that the caller may not read.
    redacted: bool,
    /// True if its result is left out because those before exceed 64 MiB: get it separately.
    omitted: bool,
    error: Option<ErrorView>,
}

impl ChildView {
    /// A child with its result, if the caller may read it.
    pub(crate) fn of(
        child: &JobRecord,
        result: Option<&[u8]>,
        is_redacted: bool,
        is_omitted: bool,
    ) -> ChildView {
        ChildView {
            id: Text(child.id),
            r#type: Text(child.lane.job_type.clone()),
            state: Text(child.state),
            group: child.parent.map_or(0, |parent| parent.group),
            index: child.parent.map_or(0, |parent| parent.index),
            result: result.and_then(Json::stored),
            redacted: is_redacted,
            omitted: is_omitted,
            error: child.details.error.as_ref().map(ErrorView::from),
        }
    }
}

/// A group of children and its progress.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Group")]
pub(crate) struct GroupView {
    group: u64,
    name: String,
    /// When the group is decided.
    strategy: StrategyBody,
    total: u32,
    open: u32,
    completed: u32,
    /// `well` or `badly` once it is decided.
    decided: Option<&'static str>,
}

impl From<&Group> for GroupView {
    fn from(group: &Group) -> GroupView {
        GroupView {
            group: group.number,
            name: group.group.name.clone(),
            strategy: group.group.strategy.into(),
            total: group.group.total,
            open: group.group.open,
            completed: group.group.completed,
            decided: group.group.decided.map(|decided| match decided {
                windlass::job::Decided::Well => "well",
                windlass::job::Decided::Badly => "badly",
            }),
        }
    }
}

/// Related jobs: dependencies, parents and children.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<NodeView>,
    pub(crate) edges: Vec<EdgeView>,
    /// Whether the graph has more jobs than shown.
    pub(crate) truncated: bool,
}

/// A job in a graph.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Node")]
pub(crate) struct NodeView {
    id: Text<JobId>,
    r#type: Text<JobType>,
    state: Text<JobState>,
}

impl From<&JobRecord> for NodeView {
    fn from(job: &JobRecord) -> NodeView {
        NodeView { id: Text(job.id), r#type: Text(job.lane.job_type.clone()), state: Text(job.state) }
    }
}

/// A job that waits, or waited, for another.
#[derive(Debug, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(rename = "Edge")]
pub(crate) struct EdgeView {
    /// The job that is waited for.
    from: Text<JobId>,
    /// The waiting job.
    to: Text<JobId>,
    /// `after`, `after_any`, or `child` for a parent that waits for its child.
    need: &'static str,
}

impl EdgeView {
    /// `to` waits for `from`.
    pub(crate) fn new(from: JobId, to: JobId, need: Need) -> EdgeView {
        EdgeView { from: Text(from), to: Text(to), need: need.as_str() }
    }

    /// `parent` waits for its child.
    pub(crate) fn of_child(child: JobId, parent: JobId) -> EdgeView {
        EdgeView { from: Text(child), to: Text(parent), need: "child" }
    }
}
