//! Schedules in the API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::error::{FieldError, FieldProblem};
use windlass_core::job::{
    JobId, JobMetadata, JobType, NewJob, Payload, QueueName, RetryPolicy, ScheduleName, Tenant, WorkerVersion,
};
use windlass_core::schedule::{CatchUp, Cron, Overlap, ScheduleSpec, Zone};
use windlass_core::skip_none;

use crate::expires::Expiry;
use crate::invalid;
use crate::json::Json;
use crate::payload::PayloadView;
use crate::priority::PriorityInput;
use crate::retry::{EffectiveRetry, Retry, SomeTimeouts};
use crate::submission::Submission;
use crate::tags::Tags;
use crate::text::Text;
use crate::time::{Moment, Span};

/// A schedule: its timing and its job.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ScheduleRequest")]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody {
    /// Cron expression: five fields, or six with seconds first.
    pub cron: Option<String>,
    /// Time zone of `cron`, such as `Europe/Berlin`; `UTC` if not given.
    pub timezone: Option<String>,
    /// Interval.
    pub every: Option<Span>,
    /// Time of a single run.
    pub at: Option<Moment>,
    /// What happens to missed runs; `once` if not given.
    pub missed: Option<CatchUp>,
    /// What happens if the previous run is not finished; `allow` if not given.
    pub overlap: Option<Overlap>,
    /// The job that each run submits.
    pub job: Submission,
}

/// A schedule.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub struct ScheduleView {
    /// Name.
    pub name: Text<ScheduleName>,
    /// Tenant.
    pub tenant: Text<Tenant>,
    /// Cron expression, if it has one.
    pub cron: Option<String>,
    /// Time zone of `cron`.
    pub timezone: Option<String>,
    /// Interval, if it has one.
    pub every: Option<Span>,
    /// Time of its single run, if it has one.
    pub at: Option<Moment>,
    /// What happens to missed runs.
    pub missed: CatchUp,
    /// What happens if the previous run is not finished.
    pub overlap: Overlap,
    /// The job that each run submits.
    pub job: JobTemplate,
    /// True if the caller may not read the payload and the query of the callback URL.
    pub redacted: bool,
    /// Its pause; null if it is not paused.
    pub paused: Option<SchedulePauseView>,
    /// Its next runs, at most five.
    pub next_runs: Vec<Moment>,
    /// Time of its last run.
    pub last_run: Option<Moment>,
    /// The job that its last run submitted.
    pub last_job: Option<Text<JobId>>,
    /// Number of jobs it has submitted.
    pub submitted: u64,
    /// Number of runs skipped because the previous run was not finished.
    pub overlapped: u64,
    /// The latest run whose job was rejected.
    pub last_refused: Option<RefusedView>,
    /// Number of runs whose job was rejected permanently.
    pub refusals: u64,
    /// When it was created.
    pub created_at: Moment,
    /// When it was last changed.
    pub updated_at: Moment,
    /// Who last changed it.
    pub updated_by: String,
    /// When it was deleted; left out unless deleted schedules are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Moment>,
    /// Who deleted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_by: Option<String>,
}

/// Schedules by name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ScheduleList")]
pub struct Schedules {
    /// The schedules.
    pub schedules: Vec<ScheduleView>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// A pause of a schedule.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SchedulePause")]
pub struct SchedulePauseView {
    /// Who paused it.
    pub by: String,
    /// When it was paused.
    pub at: Moment,
    /// The reason given.
    pub reason: Option<String>,
    /// When it resumes automatically.
    pub expires_at: Option<Moment>,
}

/// How to pause a schedule.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PauseScheduleRequest")]
#[serde(default, deny_unknown_fields)]
pub struct SchedulePauseBody {
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// When it resumes automatically: a duration or a time.
    pub expires: Option<Expiry>,
}

/// A run whose job was rejected.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RefusedRun")]
pub struct RefusedView {
    /// Time of the run.
    pub run: Moment,
    /// When it was rejected.
    pub at: Moment,
    /// Why it was rejected.
    pub reason: String,
    /// Until when it is retried; null if it is not, or was submitted since.
    pub retried_until: Option<Moment>,
}

/// The job that each run submits; fields that are not set are left out.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobTemplate {
    /// Job type.
    pub r#type: Text<JobType>,
    /// Queue.
    pub queue: Text<QueueName>,
    /// The version of the only workers that receive it.
    #[serde(default)]
    pub requires_version: Option<Text<WorkerVersion>>,
    /// Left out if the caller may not read it.
    #[serde(default, deserialize_with = "crate::json::present")]
    pub payload: Option<Json>,
    /// The payload in base64, if it is not JSON.
    pub payload_base64: Option<String>,
    /// The content type of the payload; left out with it.
    pub content_type: Option<String>,
    /// Priority.
    pub priority: Option<PriorityInput>,
    /// Delay before the job runs.
    pub delay: Option<Span>,
    /// At most one unfinished job with this key at a time.
    pub unique_key: Option<String>,
    /// Key for concurrency limits across jobs.
    pub concurrency_key: Option<String>,
    /// Retry policy.
    pub retry: Option<EffectiveRetry>,
    /// Time limits.
    #[serde(deserialize_with = "crate::values::lenient::known")]
    pub timeouts: SomeTimeouts,
    /// Tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The caller's id for the operation it belongs to.
    pub correlation_id: Option<String>,
    /// URL that is called when the job is final.
    pub callback_url: Option<String>,
}

/// The timing of a schedule, in the fields that `ScheduleBody` and `ScheduleView` have for it.
pub struct TimingFields {
    /// See [`ScheduleBody::cron`].
    pub cron: Option<String>,
    /// See [`ScheduleBody::timezone`].
    pub timezone: Option<String>,
    /// See [`ScheduleBody::every`].
    pub every: Option<Span>,
    /// See [`ScheduleBody::at`].
    pub at: Option<Moment>,
}

impl From<&ScheduleSpec> for TimingFields {
    fn from(timing: &ScheduleSpec) -> TimingFields {
        let nothing = TimingFields { cron: None, timezone: None, every: None, at: None };
        match timing {
            ScheduleSpec::Cron { cron, timezone } => {
                TimingFields { cron: Some(cron.to_string()), timezone: Some(timezone.to_string()), ..nothing }
            }
            ScheduleSpec::Every(every) => TimingFields { every: Some(Span(*every)), ..nothing },
            ScheduleSpec::At(at) => TimingFields { at: Some(Moment(*at)), ..nothing },
        }
    }
}

impl TryFrom<TimingFields> for ScheduleSpec {
    type Error = FieldError;

    fn try_from(fields: TimingFields) -> Result<ScheduleSpec, FieldError> {
        let refused = |field: &'static str| move |problem: FieldProblem| FieldError::new(field, problem);
        if fields.timezone.is_some() && fields.cron.is_none() {
            return Err(invalid("timezone", "requires `cron`"));
        }
        match (fields.cron, fields.every, fields.at) {
            (Some(cron), None, None) => {
                let timezone = fields.timezone.as_deref().unwrap_or("UTC");
                Ok(ScheduleSpec::Cron {
                    cron: cron.parse::<Cron>().map_err(refused("cron"))?,
                    timezone: timezone.parse::<Zone>().map_err(refused("timezone"))?,
                })
            }
            (None, Some(every), None) => Ok(ScheduleSpec::Every(every.0)),
            (None, None, Some(at)) => Ok(ScheduleSpec::At(at.0)),
            (None, None, None) => Err(invalid("cron", "give one of `cron`, `every` and `at`")),
            (_, Some(_), _) => Err(invalid("every", "give only one of `cron`, `every` and `at`")),
            (_, _, Some(_)) => Err(invalid("at", "give only one of `cron`, `every` and `at`")),
        }
    }
}

impl JobTemplate {
    /// The job of a schedule, without its payload if the caller may not read it.
    pub fn new(job: &NewJob, is_redacted: bool) -> JobTemplate {
        let shown = (!is_redacted).then(|| PayloadView::from(&job.payload));
        let (payload, payload_base64, content_type) = match shown {
            Some(shown) => (shown.payload, shown.payload_base64, Some(shown.content_type)),
            None => (None, None, None),
        };
        JobTemplate {
            r#type: Text(job.job_type.clone()),
            queue: Text(job.queue.clone()),
            requires_version: job.requires_version.clone().map(Text),
            payload,
            payload_base64,
            content_type,
            priority: job.priority.map(PriorityInput),
            delay: job.delay.map(Span),
            unique_key: job.unique_key.clone(),
            concurrency_key: job.concurrency_key.clone(),
            retry: job.retry.as_ref().map(EffectiveRetry::from),
            timeouts: SomeTimeouts {
                execution: job.execution_timeout.map(Span),
                lease: job.lease_timeout.map(Span),
                visibility: None,
                lifetime: job.lifetime.map(Span),
                start: job.start_timeout.map(Span),
            },
            tags: job.metadata.tags.clone(),
            correlation_id: job.metadata.correlation_id.clone(),
            callback_url: job.metadata.callback_url.clone(),
        }
    }
}

impl From<JobTemplate> for Submission {
    /// The submission that makes a schedule submit the same job.
    fn from(shown: JobTemplate) -> Submission {
        let retry = shown.retry.map(|policy| Retry::from(&RetryPolicy::from(policy)));
        Submission {
            payload: shown.payload,
            payload_base64: shown.payload_base64,
            content_type: shown.content_type,
            queue: Some(shown.queue),
            requires_version: shown.requires_version,
            priority: shown.priority,
            delay: shown.delay,
            unique_key: shown.unique_key,
            concurrency_key: shown.concurrency_key,
            retry,
            timeouts: (shown.timeouts != SomeTimeouts::default()).then_some(shown.timeouts),
            tags: (!shown.tags.is_empty()).then_some(Tags(shown.tags)),
            correlation_id: shown.correlation_id,
            callback_url: shown.callback_url,
            ..Submission::new(shown.r#type)
        }
    }
}

impl From<JobTemplate> for NewJob {
    fn from(shown: JobTemplate) -> NewJob {
        let content_type = shown.content_type.unwrap_or_else(|| Payload::JSON.to_owned());
        let payload =
            PayloadView { payload: shown.payload, payload_base64: shown.payload_base64, content_type };
        NewJob {
            queue: shown.queue.0,
            requires_version: shown.requires_version.map(|version| version.0),
            priority: shown.priority.map(|priority| priority.0),
            delay: shown.delay.map(|span| span.0),
            unique_key: shown.unique_key,
            concurrency_key: shown.concurrency_key,
            retry: shown.retry.map(Into::into),
            execution_timeout: shown.timeouts.execution.map(|span| span.0),
            lease_timeout: shown.timeouts.lease.map(|span| span.0),
            lifetime: shown.timeouts.lifetime.map(|span| span.0),
            start_timeout: shown.timeouts.start.map(|span| span.0),
            metadata: JobMetadata {
                tags: shown.tags,
                correlation_id: shown.correlation_id,
                callback_url: shown.callback_url,
            },
            ..NewJob::new(shown.r#type.0, payload.into())
        }
    }
}
