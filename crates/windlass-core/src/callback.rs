//! The content of callbacks, and their retries. A callback is delivered by an internal job: its payload is the
//! callback's body, its metadata holds the URL. The network request itself is sent by the server.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::job::{
    JobMetadata, JobRecord, JobState, JobType, NewJob, Payload, QueueName, RetryPolicy, Spec, Strategy,
    Tenant,
};
use crate::limits;
use crate::webhook_url::WebhookUrl;

/// The type of callback jobs.
pub const TYPE: &str = "windlass.callback";
/// The queue of callback jobs, and of deliveries of alerts.
pub const QUEUE: &str = "windlass.callbacks";
/// The tag with the id of the finished job.
pub const TAG: &str = "callback_of";

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Delay after each failure, in seconds: as Standard Webhooks recommends, three days in total.
const WAITS: [u64; 9] =
    [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
/// Timeout of one attempt: a slower receiver should respond first and work afterwards.
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(60);
/// How long delivery is tried.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * HOUR);

/// Delay after the `failures`-th failure; `None` after the last.
pub fn retry_after(failures: u32) -> Option<Duration> {
    let place = usize::try_from(failures).ok()?.checked_sub(1)?;
    WAITS.get(place).map(|wait| Duration::from_secs(*wait))
}

/// The retry policy of deliveries.
pub(crate) fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        // The worker knows the delays; if a worker is lost, similar exponential delays apply.
        strategy: Strategy::Custom,
        initial_delay: Duration::from_secs(WAITS[0]),
        max_delay: Duration::from_secs(WAITS[WAITS.len() - 1]),
        multiplier: 6.0,
        max_attempts: u32::try_from(WAITS.len()).expect("there are few") + 1,
        ..RetryPolicy::standard()
    }
}

/// The body of a callback: the three fields of Standard Webhooks.
#[derive(Serialize)]
struct Report<'a> {
    r#type: String,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    id: String,
    tenant: &'a Tenant,
    r#type: &'a JobType,
    queue: &'a QueueName,
    state: &'static str,
    attempt: u32,
    created_at: String,
    completed_at: Option<String>,
    correlation_id: Option<&'a str>,
    tags: &'a std::collections::BTreeMap<String, String>,
    error: Option<serde_json::Value>,
    /// As the worker wrote it; omitted if it is too large or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

/// The internal job that delivers a finished job's callback; `None` if the job has no callback URL.
pub fn delivery(job: &JobRecord, spec: &Spec, result: Option<&[u8]>) -> Option<NewJob> {
    let url = spec.metadata.callback_url.clone()?;
    let mut metadata = JobMetadata { callback_url: Some(url.clone()), ..JobMetadata::default() };
    metadata.tags.insert(TAG.to_owned(), job.id.to_string());
    metadata.correlation_id.clone_from(&spec.metadata.correlation_id);
    let body = serde_json::to_vec(&report(job, spec, result)).expect("plain data is always valid JSON");
    Some(NewJob {
        // A receiver that never responds delays only its own callbacks.
        concurrency_key: WebhookUrl::parse(&url).ok().map(|target| target.authority()),
        queue: QueueName::new(QUEUE).expect("it is a name"),
        retry: Some(retry_policy()),
        execution_timeout: Some(ATTEMPT_MAX),
        lifetime: Some(LIFETIME),
        metadata,
        tenant: Some(job.lane.tenant.clone()),
        traceparent: spec.traceparent.clone(),
        tracestate: spec.tracestate.clone(),
        baggage: spec.baggage.clone(),
        ..NewJob::new(JobType::new(TYPE).expect("it is a name"), Payload::json(body))
    })
}

fn report<'a>(job: &'a JobRecord, spec: &'a Spec, result: Option<&[u8]>) -> Report<'a> {
    let ended_at = job.completed_at.unwrap_or(job.updated_at);
    let error = job.details.error.as_ref().map(
        |error| json!({"category": error.category.as_str(), "code": error.code, "message": error.message}),
    );
    let result = result
        .filter(|result| {
            job.state == JobState::Completed && result.len() <= limits::CALLBACK_RESULT_BYTES_MAX
        })
        .and_then(|result| String::from_utf8(result.to_vec()).ok())
        .and_then(|result| RawValue::from_string(result).ok());
    Report {
        r#type: format!("job.{}", job.state),
        timestamp: ended_at.to_string(),
        data: Data {
            id: job.id.to_string(),
            tenant: &job.lane.tenant,
            r#type: &job.lane.job_type,
            queue: &job.lane.queue,
            state: job.state.as_str(),
            attempt: job.attempt,
            created_at: job.created_at.to_string(),
            completed_at: job.completed_at.map(|at| at.to_string()),
            correlation_id: spec.metadata.correlation_id.as_deref(),
            tags: &spec.metadata.tags,
            error,
            result,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Model: callbacks. Over days.
    #[test]
    fn a_report_is_tried_ten_times_over_three_days() {
        assert_eq!(retry_after(0), None, "nothing failed");
        let waits: Vec<Duration> = (1..).map_while(retry_after).collect();
        assert_eq!(waits.len(), 9);
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1]));
        let all: Duration = waits.iter().sum();
        assert!(all > Duration::from_secs(3 * 24 * HOUR) && all < LIFETIME);
    }
}
