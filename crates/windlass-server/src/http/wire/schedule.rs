//! Schedules in the API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::clock::Timestamp;
use windlass::job::{JobId, JobType, NewJob, QueueName, ScheduleName, Tenant};
use windlass::schedule::{CatchUp, Cron, Overlap, ScheduleSpec, Zone};
use windlass::store::documents::schedules::{NewSchedule, RefusedRun, RetriedRun, Schedule, SchedulePause};

use super::payload;
use super::retry::EffectiveRetry;
use super::submission::Submission;
use super::text::Text;
use super::time::{Moment, Span};
use crate::http::reply::error::ApiError;

/// A schedule: its timing and its job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleBody {
    /// Cron expression: five fields, or six with seconds first.
    cron: Option<String>,
    /// Time zone of `cron`, such as `Europe/Berlin`; `UTC` if not given.
    timezone: Option<String>,
    /// Interval.
    every: Option<Span>,
    /// Time of a single run.
    at: Option<Moment>,
    /// What happens to missed runs; `once` if not given.
    missed: Option<MissedWord>,
    /// What happens if the previous run is not finished; `allow` if not given.
    overlap: Option<OverlapWord>,
    /// The job that each run submits.
    job: Submission,
}

/// What happens to missed runs.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MissedWord {
    Skip,
    Once,
    All,
}

/// What happens if the previous run is not finished.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OverlapWord {
    Allow,
    Skip,
    Cancel,
}

impl ScheduleBody {
    /// The library's schedule.
    pub(crate) fn into_schedule(self) -> Result<NewSchedule, ApiError> {
        let timing = timing(self.cron.as_deref(), self.timezone.as_deref(), self.every, self.at)?;
        let job = self.job.into_job(None).map_err(|invalid| ApiError::from(invalid).within("job"))?;
        let mut new = NewSchedule::new(timing, job);
        if let Some(missed) = self.missed {
            new.missed = match missed {
                MissedWord::Skip => CatchUp::Skip,
                MissedWord::Once => CatchUp::Once,
                MissedWord::All => CatchUp::All,
            };
        }
        if let Some(overlap) = self.overlap {
            new.overlap = match overlap {
                OverlapWord::Allow => Overlap::Allow,
                OverlapWord::Skip => Overlap::Skip,
                OverlapWord::Cancel => Overlap::Cancel,
            };
        }
        Ok(new)
    }
}

fn timing(
    cron: Option<&str>,
    timezone: Option<&str>,
    every: Option<Span>,
    at: Option<Moment>,
) -> Result<ScheduleSpec, ApiError> {
    let refused = |field: &'static str| {
        move |problem: windlass::error::FieldProblem| ApiError::invalid(field, problem.to_string())
    };
    if timezone.is_some() && cron.is_none() {
        return Err(ApiError::invalid("timezone", "requires `cron`"));
    }
    match (cron, every, at) {
        (Some(cron), None, None) => Ok(ScheduleSpec::Cron {
            cron: cron.parse::<Cron>().map_err(refused("cron"))?,
            timezone: timezone.unwrap_or("UTC").parse::<Zone>().map_err(refused("timezone"))?,
        }),
        (None, Some(every), None) => Ok(ScheduleSpec::Every(every.0)),
        (None, None, Some(at)) => Ok(ScheduleSpec::At(at.0)),
        (None, None, None) => Err(ApiError::invalid("cron", "give one of `cron`, `every` and `at`")),
        (_, Some(_), _) => Err(ApiError::invalid("every", "give only one of `cron`, `every` and `at`")),
        (_, _, Some(_)) => Err(ApiError::invalid("at", "give only one of `cron`, `every` and `at`")),
    }
}

/// A schedule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub(crate) struct ScheduleView {
    name: Text<ScheduleName>,
    tenant: Text<Tenant>,
    cron: Option<String>,
    timezone: Option<String>,
    every: Option<Span>,
    at: Option<Moment>,
    missed: MissedWord,
    overlap: OverlapWord,
    job: JobTemplate,
    /// True if the caller may not read the payload and the query of the callback URL.
    redacted: bool,
    /// Its pause; null if it is not paused.
    paused: Option<SchedulePauseView>,
    /// Its next runs, at most five.
    next_runs: Vec<Moment>,
    last_run: Option<Moment>,
    last_job: Option<Text<JobId>>,
    /// Number of jobs it has submitted.
    submitted: u64,
    /// Number of runs skipped because the previous run was not finished.
    overlapped: u64,
    /// The latest run whose job was rejected.
    last_refused: Option<RefusedView>,
    /// Number of runs whose job was rejected permanently.
    refusals: u64,
    created_at: Moment,
    updated_at: Moment,
    updated_by: String,
}

/// A pause of a schedule.
#[derive(Debug, Serialize, JsonSchema)]
struct SchedulePauseView {
    by: String,
    at: Moment,
    reason: Option<String>,
    expires_at: Option<Moment>,
}

impl From<&SchedulePause> for SchedulePauseView {
    fn from(pause: &SchedulePause) -> SchedulePauseView {
        SchedulePauseView {
            by: pause.by.clone(),
            at: pause.since.into(),
            reason: pause.reason.clone(),
            expires_at: pause.expires_at.map(Moment),
        }
    }
}

/// A run whose job was rejected.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RefusedRun")]
struct RefusedView {
    /// Time of the run.
    run: Moment,
    /// When it was rejected.
    at: Moment,
    /// Why it was rejected.
    reason: String,
    /// Until when it is retried; null if it is not, or was submitted since.
    retried_until: Option<Moment>,
}

impl RefusedView {
    fn of(refused: &RefusedRun, retry: Option<RetriedRun>) -> RefusedView {
        RefusedView {
            run: refused.run.into(),
            at: refused.at.into(),
            reason: refused.message.clone(),
            retried_until: retry.filter(|retry| retry.run == refused.run).map(|retry| Moment(retry.until)),
        }
    }
}

impl ScheduleView {
    /// The schedule at this time.
    pub(crate) fn of(schedule: &Schedule, now: Timestamp) -> ScheduleView {
        let (cron, every, at) = match &schedule.timing {
            ScheduleSpec::Cron { cron, timezone } => {
                (Some((cron.to_string(), timezone.to_string())), None, None)
            }
            ScheduleSpec::Every(every) => (None, Some(Span(*every)), None),
            ScheduleSpec::At(at) => (None, None, Some(Moment(*at))),
        };
        let (cron, timezone) = cron.unzip();
        ScheduleView {
            name: Text(schedule.name.clone()),
            tenant: Text(schedule.tenant.clone()),
            cron,
            timezone,
            every,
            at,
            missed: match schedule.missed {
                CatchUp::Skip => MissedWord::Skip,
                CatchUp::Once => MissedWord::Once,
                CatchUp::All => MissedWord::All,
            },
            overlap: match schedule.overlap {
                Overlap::Allow => OverlapWord::Allow,
                Overlap::Skip => OverlapWord::Skip,
                Overlap::Cancel => OverlapWord::Cancel,
            },
            job: JobTemplate::of(&schedule.job, schedule.is_redacted),
            redacted: schedule.is_redacted,
            paused: schedule.pause_now(now).map(SchedulePauseView::from),
            next_runs: schedule.next_runs().into_iter().map(Moment).collect(),
            last_run: schedule.last_run.map(Moment),
            last_job: schedule.last_job.map(Text),
            submitted: schedule.submitted,
            overlapped: schedule.overlapped,
            last_refused: schedule.refused.as_ref().map(|refused| RefusedView::of(refused, schedule.retry)),
            refusals: schedule.refusals,
            created_at: schedule.created_at.into(),
            updated_at: schedule.updated_at.into(),
            updated_by: schedule.updated_by.clone(),
        }
    }
}

/// The job that each run submits; fields that are not set are left out.
#[derive(Debug, Serialize, JsonSchema)]
struct JobTemplate {
    r#type: Text<JobType>,
    queue: Text<QueueName>,
    /// Left out if the caller may not read it.
    #[serde(flatten)]
    payload: Option<payload::Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<EffectiveRetry>,
    timeouts: TemplateTimeouts,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
}

/// Time limits of the job; fields that are not set are left out.
#[derive(Debug, Serialize, JsonSchema)]
struct TemplateTimeouts {
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Span>,
}

impl JobTemplate {
    fn of(job: &NewJob, is_redacted: bool) -> JobTemplate {
        JobTemplate {
            r#type: Text(job.job_type.clone()),
            queue: Text(job.queue.clone()),
            payload: (!is_redacted).then(|| (&job.payload).into()),
            priority: job.priority.map(windlass::job::Priority::value),
            delay: job.delay.map(Span),
            unique_key: job.unique_key.clone(),
            concurrency_key: job.concurrency_key.clone(),
            retry: job.retry.as_ref().map(EffectiveRetry::from),
            timeouts: TemplateTimeouts {
                execution: job.execution_timeout.map(Span),
                lease: job.lease_timeout.map(Span),
                lifetime: job.lifetime.map(Span),
                start: job.start_timeout.map(Span),
            },
            tags: job.labels.tags.clone(),
            correlation_id: job.labels.correlation_id.clone(),
            callback_url: job.labels.callback_url.clone(),
        }
    }
}
