//! Workers, claims and heartbeats.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_api::claim::{
    ClaimBody, ClaimedGroup, ClaimedView, HeartbeatBody, HeartbeatItemBody, ProgressBody, WorkerBody,
    WorkerStatus,
};
use windlass_api::job_details::Checkpoint as ShownCheckpoint;
use windlass_api::json::Json;
use windlass_api::text::Text;
use windlass_api::time::Span;

use super::invalid;
use super::job_details::{add_child, children};
use crate::clock::Timestamp;
use crate::error::FieldError;
use crate::job::{ChildGroup, Fence, GroupStrategy, JobId, Progress, Seq, WorkerId};
use crate::limits;
use crate::store::command::claim::{Checkpoint, ClaimRequest, ClaimedJob};
use crate::store::command::heartbeat::{HeartbeatItem, HeartbeatReply};
use crate::store::command::worker::NewWorker;
use crate::store::query::job_details::{DecidedGroup, Group};

impl TryFrom<WorkerBody> for NewWorker {
    type Error = FieldError;

    fn try_from(body: WorkerBody) -> Result<NewWorker, FieldError> {
        let (concurrency, max) = (body.concurrency.unwrap_or(1), limits::WORKER_CONCURRENCY_MAX);
        if !(1..=max).contains(&concurrency) {
            return Err(invalid("concurrency", format!("is {concurrency}, allowed is 1 to {max}")));
        }
        Ok(NewWorker {
            name: body.name.unwrap_or_default(),
            queues: body.queues.into_iter().map(|queue| queue.0).collect(),
            types: body.types.into_iter().map(|name| name.0).collect(),
            concurrency,
            version: body.version,
            heartbeats: body.heartbeats.unwrap_or(true),
        })
    }
}

impl From<&NewWorker> for WorkerBody {
    fn from(new: &NewWorker) -> WorkerBody {
        WorkerBody {
            name: Some(new.name.clone()),
            queues: new.queues.iter().cloned().map(Text).collect(),
            types: new.types.iter().cloned().map(Text).collect(),
            concurrency: Some(new.concurrency),
            version: new.version.clone(),
            heartbeats: Some(new.heartbeats),
        }
    }
}

/// The request of this worker.
///
/// # Errors
/// [`FieldError`] names the field that is out of range.
pub fn claim_request(body: ClaimBody, worker: WorkerId) -> Result<ClaimRequest, FieldError> {
    let limit = body.limit.unwrap_or(1);
    if !(1..=limits::CLAIM_JOBS_MAX).contains(&limit) {
        return Err(invalid("limit", format!("is {limit}, allowed is 1 to {}", limits::CLAIM_JOBS_MAX)));
    }
    if body.wait.is_some_and(|wait| wait.0 > limits::CLAIM_WAIT_MAX) {
        return Err(invalid("wait", "is longer than 60s"));
    }
    Ok(ClaimRequest {
        worker,
        queues: body.queues.map(|queues| queues.into_iter().map(|queue| queue.0).collect()),
        types: body.types.map(|types| types.into_iter().map(|name| name.0).collect()),
        limit,
    })
}

impl From<&ClaimRequest> for ClaimBody {
    fn from(request: &ClaimRequest) -> ClaimBody {
        ClaimBody {
            worker_id: request.worker.to_string(),
            queues: request.queues.as_ref().map(|queues| queues.iter().cloned().map(Text).collect()),
            types: request.types.as_ref().map(|types| types.iter().cloned().map(Text).collect()),
            limit: Some(request.limit),
            wait: None,
        }
    }
}

impl From<Checkpoint> for ShownCheckpoint {
    fn from(checkpoint: Checkpoint) -> ShownCheckpoint {
        ShownCheckpoint { value: Json::stored(&checkpoint.value), step: checkpoint.step }
    }
}

impl From<ShownCheckpoint> for Checkpoint {
    fn from(shown: ShownCheckpoint) -> Checkpoint {
        let value = shown.value.as_ref().map_or(&b"null"[..], Json::bytes);
        Checkpoint { step: shown.step, value: Arc::from(value) }
    }
}

impl From<ClaimedJob> for ClaimedView {
    fn from(claimed: ClaimedJob) -> ClaimedView {
        let ClaimedJob { job, spec, checkpoints, groups } = claimed;
        ClaimedView {
            checkpoints: checkpoints.into_iter().map(Into::into).collect(),
            groups: groups.iter().filter_map(claimed_group).collect(),
            ..ClaimedView::new(&job, spec)
        }
    }
}

fn claimed_group(decided: &DecidedGroup) -> Option<ClaimedGroup> {
    let Group { number, group, .. } = &decided.group;
    Some(ClaimedGroup {
        group: *number,
        name: group.name.clone(),
        total: group.total,
        decided: group.decided?,
        children: children(&decided.group).collect(),
        next_cursor: decided.next.map(|Seq(last)| last.to_string()),
    })
}

/// The groups of a claimed job that came whole; others are read when they are needed.
fn decided_groups(shown: Vec<ClaimedGroup>, parent: JobId, now: Timestamp) -> Vec<DecidedGroup> {
    let whole = shown.into_iter().filter(|group| group.next_cursor.is_none());
    let read = |shown: ClaimedGroup| {
        let group = ChildGroup {
            name: shown.name,
            strategy: GroupStrategy::CollectAll,
            total: shown.total,
            open: 0,
            completed: 0,
            decided: Some(shown.decided),
        };
        let (redacted, omitted) = (BTreeSet::new(), BTreeSet::new());
        let mut group = Group { number: shown.group, group, children: Vec::new(), redacted, omitted };
        for child in shown.children {
            add_child(&mut group, parent, child, now);
        }
        DecidedGroup { group, next: None }
    };
    whole.map(read).collect()
}

/// A job that this worker has just claimed at a server.
pub fn claimed(mut shown: ClaimedView, worker: WorkerId, now: Timestamp) -> ClaimedJob {
    let groups = decided_groups(std::mem::take(&mut shown.groups), shown.id.0, now);
    let checkpoints = std::mem::take(&mut shown.checkpoints).into_iter().map(Checkpoint::from).collect();
    let (job, spec) = shown.into_parts(worker, now);
    ClaimedJob { job, spec, checkpoints, groups }
}

/// The id as given, and the heartbeat if the id is well-formed.
pub fn heartbeat_item(body: HeartbeatItemBody) -> (String, Option<HeartbeatItem>) {
    let job = body.id.parse().ok();
    let progress = body.progress.map(|given| Progress { percent: given.percent, message: given.message });
    let item = job.map(|job| HeartbeatItem {
        job,
        fence: Fence(body.fence),
        progress,
        logs: body.logs.unwrap_or_default(),
        timeout: body.timeout.map(|span| span.0),
    });
    (body.id, item)
}

impl From<&HeartbeatItem> for HeartbeatItemBody {
    fn from(item: &HeartbeatItem) -> HeartbeatItemBody {
        let progress = item.progress.clone();
        HeartbeatItemBody {
            id: item.job.to_string(),
            fence: item.fence.0,
            progress: progress.map(|Progress { percent, message }| ProgressBody { percent, message }),
            logs: (!item.logs.is_empty()).then(|| item.logs.clone()),
            timeout: item.timeout.map(Span),
        }
    }
}

/// The heartbeats of a worker.
pub fn heartbeats(worker: WorkerId, items: &[HeartbeatItem], wait: Option<Span>) -> HeartbeatBody {
    let jobs = items.iter().map(HeartbeatItemBody::from).collect();
    HeartbeatBody { worker_id: worker.to_string(), jobs, wait }
}

impl From<&HeartbeatReply> for WorkerStatus {
    fn from(reply: &HeartbeatReply) -> WorkerStatus {
        let mode = reply.paused.map(|mode| mode.as_str().to_owned());
        WorkerStatus { paused: mode.is_some(), mode }
    }
}
