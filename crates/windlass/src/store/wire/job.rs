//! Jobs: encoded from snapshots, and decoded into records. Fields that the API does not send (the sequence number,
//! internal counters) have their defaults.

use serde_json::{Map, Value};
use windlass_api::job::{Job, Lease, Suspension, Why};
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::job::{self, JobMetadata, Spec};
use crate::store::query::explain::Reason;
use crate::store::query::snapshot::Snapshot;

impl From<Reason> for Why {
    fn from(reason: Reason) -> Why {
        let details = match reason.details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        Why { code: reason.code.to_owned(), message: reason.message, details }
    }
}

impl From<Why> for Reason {
    fn from(why: Why) -> Reason {
        let code = Reason::CODES.into_iter().find(|code| *code == why.code).unwrap_or("other");
        Reason { code, message: why.message, details: Value::Object(why.details) }
    }
}

impl From<Snapshot> for Job {
    /// The job without its result and payload.
    fn from(snapshot: Snapshot) -> Job {
        let version = snapshot.version();
        let Snapshot { job, spec, why, is_redacted, .. } = snapshot;
        let (policy, details, metadata) = (&job.policy, &job.details, spec.metadata);
        Job {
            id: Text(job.id),
            tenant: Text(job.lane.tenant.clone()),
            r#type: Text(job.lane.job_type.clone()),
            queue: Text(job.lane.queue.clone()),
            state: Text(job.state),
            version: Text(version),
            why: why.map(Why::from),
            priority: job.priority.value(),
            effective_priority: job.effective_priority().value(),
            attempt: job.attempt,
            max_attempts: policy.retry.max_attempts,
            failures: job.failures,
            crashes: job.crashes,
            retry_count: job.retry_count(),
            max_retries: policy.retry.max_retries(),
            created_at: job.created_at.into(),
            updated_at: job.updated_at.into(),
            run_at: job.next_run_at().into(),
            scheduled_at: job.scheduled_at.map(Moment),
            first_started_at: job.first_started_at.map(Moment),
            started_at: job.started_at.map(Moment),
            completed_at: job.completed_at.map(Moment),
            expires_at: job.expires_at.into(),
            suspended_at: details.suspended_at.map(Moment),
            suspended_by: details.suspended_by.clone(),
            suspension: details.suspension.as_ref().map(Suspension::from),
            suspend_requested: details.suspend_requested.as_ref().map(Suspension::from),
            resumed_at: details.resumed_at.map(Moment),
            priority_updated_at: details.priority_updated_at.map(Moment),
            lease: job.lease.map(lease),
            retry: (&policy.retry).into(),
            timeouts: policy.timeouts.into(),
            after: spec.after.into_iter().map(Text).collect(),
            after_any: spec.after_any.into_iter().map(Text).collect(),
            retry_of: details.retry_of.map(Text),
            superseded_by: details.superseded_by.map(Text),
            parent: job.parent.map(|parent| Text(parent.id)),
            owner: spec.owner,
            idempotency_key: spec.idempotency_key,
            unique_key: spec.unique_key,
            concurrency_key: spec.concurrency_key,
            traceparent: spec.traceparent,
            tracestate: spec.tracestate,
            baggage: spec.baggage,
            tags: metadata.tags,
            correlation_id: metadata.correlation_id,
            callback_url: metadata.callback_url,
            error: details.error.as_ref().map(Into::into),
            progress: details.progress.as_ref().map(Into::into),
            cost_cents: job.cost_cents,
            result: None,
            redacted: is_redacted,
            payload: None,
            payload_base64: None,
            content_type: None,
        }
    }
}

fn lease(lease: job::Lease) -> Lease {
    Lease {
        worker: Text(lease.worker),
        expires_at: lease.expires_at.into(),
        deadline: lease.deadline_at.into(),
    }
}

impl From<Job> for Snapshot {
    fn from(mut shown: Job) -> Snapshot {
        let why = shown.why.take().map(Reason::from);
        let shown_version = Some(shown.version.0);
        let is_redacted = shown.redacted;
        let spec = Spec {
            payload: shown.take_payload(),
            idempotency_key: shown.idempotency_key.take(),
            unique_key: shown.unique_key.take(),
            concurrency_key: shown.concurrency_key.take(),
            metadata: JobMetadata {
                tags: std::mem::take(&mut shown.tags),
                correlation_id: shown.correlation_id.take(),
                // The record says whether there is one.
                callback_url: shown.callback_url.clone(),
            },
            owner: std::mem::take(&mut shown.owner),
            // The record needs it as well.
            traceparent: shown.traceparent.clone(),
            tracestate: shown.tracestate.take(),
            baggage: shown.baggage.take(),
            after: shown.after.drain(..).map(|id| id.0).collect(),
            after_any: shown.after_any.drain(..).map(|id| id.0).collect(),
        };
        Snapshot { job: shown.into(), spec, why, is_redacted, shown_version }
    }
}
