//! Callbacks as jobs (M95): when a job with a callback address ends, the report of its end is a job itself, with a queue and
//! a policy of its own. What is reported, and how patiently, is decided here; who delivers it is not.

use std::time::Duration;

use serde_json::json;

use super::{Job, JobType, Labels, Lane, Policy, QueueName, RetryPolicy, Strategy, Tenant, Timeouts};
use crate::limits;

/// How the names of the system's own types and queues begin; nobody else's may.
const PREFIX: &str = "windlass.";
/// The queue of callbacks.
pub const CALLBACK_QUEUE: &str = "windlass.callbacks";
/// The type of callbacks.
pub const CALLBACK_TYPE: &str = "windlass.callback";

/// Whether a name is the system's own.
pub(crate) fn is_system_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The queue of callbacks.
pub(crate) fn callback_queue() -> QueueName {
    QueueName::new(CALLBACK_QUEUE).expect("the name was chosen to be one")
}

/// Where the callbacks of a tenant's jobs wait.
pub(crate) fn callback_lane(tenant: Tenant) -> Lane {
    let job_type = JobType::new(CALLBACK_TYPE).expect("the name was chosen to be one");
    Lane { tenant, queue: callback_queue(), job_type }
}

/// Tried for some three days: after 5 s, 20 s, 80 s and so on, up to once a day.
pub(crate) fn callback_policy() -> Policy {
    let retry = RetryPolicy {
        strategy: Strategy::Exponential,
        initial_delay: Duration::from_secs(5),
        max_delay: Duration::from_secs(24 * 3600),
        multiplier: 4.0,
        jitter: 0.2,
        max_attempts: limits::CALLBACK_ATTEMPTS_MAX,
        ..RetryPolicy::standard()
    };
    Policy { retry, timeouts: Timeouts::default(), crashes_max: limits::CALLBACK_ATTEMPTS_MAX }
}

/// What is reported of a job that has ended. Its payload and result are not: they are for those who may ask for them.
pub(crate) fn callback_body(job: &Job, labels: &Labels) -> Vec<u8> {
    let error = job.details.error.as_ref().map(|error| {
        json!({
            "category": error.category.as_str(),
            "code": error.code,
            "message": error.message,
            "attempt": error.attempt,
        })
    });
    let ended = job.completed_at.unwrap_or(job.updated_at).to_string();
    let data = json!({
        "id": job.id.to_string(),
        "tenant": job.lane.tenant,
        "type": job.lane.job_type,
        "queue": job.lane.queue,
        "state": job.state.as_str(),
        "attempt": job.attempt,
        "error": error,
        "cost_cents": job.cost_cents,
        "correlation_id": labels.correlation_id,
        "tags": labels.tags,
        "retry_of": job.details.retry_of.map(|id| id.to_string()),
        "created_at": job.created_at.to_string(),
        "completed_at": ended,
    });
    json!({"type": format!("job.{}", job.state.as_str()), "timestamp": ended, "data": data})
        .to_string()
        .into_bytes()
}
