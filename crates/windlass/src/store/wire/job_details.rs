//! Job data: attempts, children, groups, graphs.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_api::job_details::{self as shown, Child, Edge};
use windlass_api::json::Json;
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::clock::Timestamp;
use crate::job::{
    AttemptId, ChildGroup, ErrorRecord, JobId, JobRecord, Lane, Need, Parent, QueueName, Seq, Tenant,
};
use crate::store::command::attempt_writes::LogLine;
use crate::store::documents::attempt::AttemptRecord;
use crate::store::query::job_details::{Attempt, Group};

/// An attempt; `job` has the data of a running one.
pub fn attempt(attempt: &Attempt, job: &JobRecord) -> shown::Attempt {
    let record = attempt.record.as_ref();
    let running = job.lease.filter(|_| record.is_none());
    let started_at = record.map(|record| record.started_at).or(running.and(job.started_at));
    shown::Attempt {
        attempt_id: attempt.id.to_string(),
        number: attempt.id.number,
        previous_attempt_id: attempt.id.previous().as_ref().map(AttemptId::to_string),
        worker: record.map_or(running.map(|lease| lease.worker), |record| record.worker).map(Text),
        started_at: started_at.map(Moment),
        ended_at: record.map(|record| record.ended_at.into()),
        outcome: record.map(|record| record.outcome),
        error: record.and_then(|record| record.error.as_ref()).map(Into::into),
    }
}

/// An attempt of this job.
pub fn stored_attempt(shown: shown::Attempt, job: JobId) -> Attempt {
    let record = match (shown.outcome, shown.started_at, shown.ended_at) {
        (Some(outcome), Some(started_at), Some(ended_at)) => Some(AttemptRecord {
            worker: shown.worker.map(|worker| worker.0),
            started_at: started_at.0,
            ended_at: ended_at.0,
            outcome,
            error: shown.error.map(ErrorRecord::from),
        }),
        _ => None,
    };
    Attempt { id: AttemptId { job, number: shown.number }, record }
}

/// A line with its number.
pub fn log_line((number, line): (u64, LogLine)) -> shown::LogLine {
    shown::LogLine { number, at: line.at.into(), attempt: line.attempt, text: line.text }
}

/// A line of a server's log, with its number.
pub fn stored_log_line(shown: shown::LogLine) -> (u64, LogLine) {
    (shown.number, LogLine { at: shown.at.0, attempt: shown.attempt, text: shown.text })
}

/// A child with its result, if the caller may read it.
pub fn child(child: &JobRecord, result: Option<&[u8]>, is_redacted: bool, is_omitted: bool) -> Child {
    Child {
        id: Text(child.id),
        r#type: Text(child.lane.job_type.clone()),
        state: Text(child.state),
        group: child.parent.map_or(0, |parent| parent.group),
        index: child.parent.map_or(0, |parent| parent.index),
        result: result.and_then(Json::stored),
        redacted: is_redacted,
        omitted: is_omitted,
        error: child.details.error.as_ref().map(Into::into),
    }
}

/// The children of a group.
pub fn children(group: &Group) -> impl Iterator<Item = Child> {
    group.children.iter().map(|(one, result)| {
        let (is_redacted, is_omitted) = (group.redacted.contains(&one.id), group.omitted.contains(&one.id));
        child(one, result.as_deref(), is_redacted, is_omitted)
    })
}

impl From<&Group> for shown::Group {
    fn from(group: &Group) -> shown::Group {
        let ChildGroup { name, strategy, total, open, completed, decided } = &group.group;
        shown::Group {
            group: group.number,
            name: name.clone(),
            strategy: *strategy,
            total: *total,
            open: *open,
            completed: *completed,
            decided: *decided,
        }
    }
}

impl From<shown::Group> for Group {
    /// The group without its children.
    fn from(shown: shown::Group) -> Group {
        let shown::Group { group: number, name, strategy, total, open, completed, decided } = shown;
        let group = ChildGroup { name, strategy, total, open, completed, decided };
        Group { number, group, children: Vec::new(), redacted: BTreeSet::new(), omitted: BTreeSet::new() }
    }
}

/// Adds a child of this parent, as a server shows it.
pub fn add_child(group: &mut Group, parent: JobId, shown: Child, now: Timestamp) {
    let lane = Lane::new(Tenant::default(), QueueName::default(), shown.r#type.0);
    let place = Parent { seq: Seq(0), id: parent, group: shown.group, index: shown.index };
    let mut job = JobRecord {
        state: shown.state.0,
        parent: Some(place),
        ..JobRecord::new(Seq(0), shown.id.0, Arc::new(lane), Arc::default(), now)
    };
    job.details_mut().error = shown.error.map(ErrorRecord::from);
    job.has.result = shown.result.is_some();
    group.redacted.extend(shown.redacted.then_some(job.id));
    group.omitted.extend(shown.omitted.then_some(job.id));
    group.children.push((job, shown.result.map(|json| Arc::from(json.bytes()))));
}

/// `to` waits for `from`; a parent waits for its child if there is no need.
pub fn edge(from: JobId, to: JobId, need: Option<Need>) -> Edge {
    Edge { from: Text(from), to: Text(to), need: need.map_or("child", Need::as_str).to_owned() }
}
