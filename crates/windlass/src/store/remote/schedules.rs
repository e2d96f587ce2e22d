//! Schedules at a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::Remote;
use super::actions::given as without_nulls;
use super::client::Call;
use super::error::RemoteError;
use super::job::{ShownJob, ShownRetry, given, payload};
use super::submission::Submission;
use super::text::{Moment, Span};
use crate::error::{ScheduleError, StoreError};
use crate::job::{
    JobId, JobMetadata, JobRecord, JobType, NewJob, Priority, QueueName, RetryPolicy, ScheduleName, Tenant,
};
use crate::schedule::{CatchUp, Overlap, ScheduleSpec};
use crate::store::documents::schedules::{
    NewSchedule, PauseSchedule, PutSchedule, RefusedRun, RetriedRun, Schedule, SchedulePause, ScheduleRef,
};

#[derive(Serialize)]
struct ScheduleBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Moment>,
    missed: CatchUp,
    overlap: Overlap,
    job: Submission<'a>,
}

impl<'a> From<&'a NewSchedule> for ScheduleBody<'a> {
    fn from(new: &'a NewSchedule) -> ScheduleBody<'a> {
        let (cron, every, at) = match &new.timing {
            ScheduleSpec::Cron { cron, timezone } => {
                (Some((cron.to_string(), timezone.to_string())), None, None)
            }
            ScheduleSpec::Every(every) => (None, Some(Span(*every)), None),
            ScheduleSpec::At(at) => (None, None, Some(Moment(*at))),
        };
        let (cron, timezone) = cron.unzip();
        let (missed, overlap) = (new.missed, new.overlap);
        ScheduleBody { cron, timezone, every, at, missed, overlap, job: (&new.job).into() }
    }
}

#[derive(Deserialize)]
struct ShownSchedules {
    schedules: Vec<ShownSchedule>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Changed {
    changed: bool,
}

#[derive(Deserialize)]
struct ShownSchedule {
    name: ScheduleName,
    tenant: Tenant,
    cron: Option<String>,
    timezone: Option<String>,
    every: Option<Span>,
    at: Option<Moment>,
    missed: CatchUp,
    overlap: Overlap,
    job: ShownTemplate,
    paused: Option<ShownPause>,
    next_runs: Vec<Moment>,
    last_run: Option<Moment>,
    last_job: Option<JobId>,
    submitted: u64,
    overlapped: u64,
    last_refused: Option<ShownRefusal>,
    #[serde(default)]
    refusals: u64,
    created_at: Moment,
    updated_at: Moment,
    updated_by: String,
    /// After an action: whether anything changed.
    #[serde(default)]
    changed: bool,
    #[serde(default)]
    redacted: bool,
}

#[derive(Deserialize)]
struct ShownPause {
    by: String,
    at: Moment,
    reason: Option<String>,
    expires_at: Option<Moment>,
}

#[derive(Deserialize)]
struct ShownRefusal {
    run: Moment,
    at: Moment,
    reason: String,
    retried_until: Option<Moment>,
}

/// The job that each run submits.
#[derive(Deserialize)]
struct ShownTemplate {
    r#type: JobType,
    queue: QueueName,
    #[serde(default, deserialize_with = "given")]
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    content_type: Option<String>,
    priority: Option<Priority>,
    delay: Option<Span>,
    unique_key: Option<String>,
    concurrency_key: Option<String>,
    retry: Option<ShownRetry>,
    #[serde(default)]
    timeouts: TemplateTimeouts,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    correlation_id: Option<String>,
    callback_url: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TemplateTimeouts {
    execution: Option<Span>,
    lease: Option<Span>,
    lifetime: Option<Span>,
    start: Option<Span>,
}

impl From<ShownTemplate> for NewJob {
    fn from(shown: ShownTemplate) -> NewJob {
        NewJob {
            queue: shown.queue,
            priority: shown.priority,
            delay: shown.delay.map(|span| span.0),
            unique_key: shown.unique_key,
            concurrency_key: shown.concurrency_key,
            retry: shown.retry.map(RetryPolicy::from),
            execution_timeout: shown.timeouts.execution.map(|span| span.0),
            lease_timeout: shown.timeouts.lease.map(|span| span.0),
            lifetime: shown.timeouts.lifetime.map(|span| span.0),
            start_timeout: shown.timeouts.start.map(|span| span.0),
            labels: JobMetadata {
                tags: shown.tags,
                correlation_id: shown.correlation_id,
                callback_url: shown.callback_url,
            },
            ..NewJob::new(shown.r#type, payload(shown.payload, shown.payload_base64, shown.content_type))
        }
    }
}

impl ShownSchedule {
    fn timing(&self) -> Result<ScheduleSpec, StoreError> {
        let unknown =
            || StoreError::Unreachable(format!("cannot parse the timing of schedule {}", self.name));
        match (&self.cron, self.every, self.at) {
            (Some(cron), _, _) => Ok(ScheduleSpec::Cron {
                cron: cron.parse().map_err(|_| unknown())?,
                timezone: self.timezone.as_deref().unwrap_or("UTC").parse().map_err(|_| unknown())?,
            }),
            (None, Some(every), _) => Ok(ScheduleSpec::Every(every.0)),
            (None, None, Some(at)) => Ok(ScheduleSpec::At(at.0)),
            (None, None, None) => Err(unknown()),
        }
    }

    /// The schedule. The start of its repetitions is not available; counted from its next run they are the same.
    fn into_schedule(self) -> Result<Arc<Schedule>, StoreError> {
        let timing = self.timing()?;
        let next_at = self.next_runs.first().map(|moment| moment.0);
        let updated_at = self.updated_at.0;
        Ok(Arc::new(Schedule {
            tenant: self.tenant,
            name: self.name,
            timing,
            missed: self.missed,
            overlap: self.overlap,
            job: self.job.into(),
            created_at: self.created_at.0,
            updated_at,
            updated_by: self.updated_by,
            paused: self.paused.map(|pause| SchedulePause {
                by: pause.by,
                since: pause.at.0,
                reason: pause.reason,
                expires_at: pause.expires_at.map(|moment| moment.0),
            }),
            start: next_at.unwrap_or(updated_at),
            done_through: self.last_run.map_or(updated_at, |moment| moment.0),
            next_at,
            is_redacted: self.redacted,
            last_run: self.last_run.map(|moment| moment.0),
            last_job: self.last_job,
            open: Vec::new(),
            submitted: self.submitted,
            overlapped: self.overlapped,
            refusals: self.refusals,
            retry: self.last_refused.as_ref().and_then(|refused| {
                let until = refused.retried_until.as_ref()?.0;
                Some(RetriedRun { run: refused.run.0, until })
            }),
            refused: self.last_refused.map(|refused| RefusedRun {
                run: refused.run.0,
                at: refused.at.0,
                message: refused.reason,
            }),
        }))
    }
}

/// Adds the name of a schedule to a call.
fn about(call: Call, which: &ScheduleRef) -> Call {
    call.query_if("tenant", which.tenant.as_ref().map(Tenant::as_str))
}

impl Remote {
    /// Creates or replaces a schedule; whether it is new is derived from its age.
    pub(crate) async fn put_schedule(
        &self,
        name: ScheduleName,
        new: NewSchedule,
    ) -> Result<PutSchedule, ScheduleError> {
        let call = Call::put(format!("/schedules/{name}")).json(&ScheduleBody::from(&new)).repeatable(true);
        let asked = self.client.ask::<ShownSchedule>(call).await;
        let shown = asked.map_err(|error| error.into_schedule(name))?;
        let is_new = shown.created_at == shown.updated_at && shown.changed;
        let is_changed = shown.changed;
        Ok(PutSchedule { schedule: shown.into_schedule()?, is_new, is_changed })
    }

    pub(crate) async fn delete_schedule(&self, which: ScheduleRef) -> Result<(), ScheduleError> {
        let call = about(Call::delete(format!("/schedules/{}", which.name)), &which);
        self.client.done(call).await.map(drop).map_err(|error| error.into_schedule(which.name))
    }

    pub(crate) async fn pause_schedule(
        &self,
        which: ScheduleRef,
        how: PauseSchedule,
    ) -> Result<bool, ScheduleError> {
        let body = without_nulls(json!({"reason": how.reason, "expires": how.expires.map(Span)}));
        let call = about(Call::post(format!("/schedules/{}/pause", which.name)).json(&body), &which);
        self.changed_schedule(call, which.name).await
    }

    pub(crate) async fn resume_schedule(&self, which: ScheduleRef) -> Result<bool, ScheduleError> {
        let call = about(Call::post(format!("/schedules/{}/resume", which.name)), &which);
        self.changed_schedule(call, which.name).await
    }

    async fn changed_schedule(&self, call: Call, name: ScheduleName) -> Result<bool, ScheduleError> {
        let asked: Result<Changed, RemoteError> = self.client.ask(call).await;
        asked.map(|answer| answer.changed).map_err(|error| error.into_schedule(name))
    }

    pub(crate) async fn trigger_schedule(&self, which: ScheduleRef) -> Result<JobRecord, ScheduleError> {
        let call = about(Call::post(format!("/schedules/{}/trigger", which.name)), &which);
        let asked: Result<ShownJob, RemoteError> = self.client.ask(call).await;
        asked.map(ShownJob::into_job).map_err(|error| error.into_schedule(which.name))
    }

    pub(crate) async fn schedule(&self, which: &ScheduleRef) -> Result<Option<Arc<Schedule>>, StoreError> {
        let call = about(Call::get(format!("/schedules/{}", which.name)), which);
        self.client.find::<ShownSchedule>(call).await?.map(ShownSchedule::into_schedule).transpose()
    }

    pub(crate) async fn schedules(&self) -> Result<Vec<Arc<Schedule>>, StoreError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let call = Call::get("/schedules").query_if("cursor", cursor);
            let page: ShownSchedules = self.client.ask(call).await?;
            for schedule in page.schedules {
                found.push(schedule.into_schedule()?);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }
}
