//! Audit records of changes. Decides, for all commands, which audit event a transition is and what its context
//! contains.

use std::time::Duration;

use serde_json::{Value, json};

use crate::audit::{AuditEvent, Record};
use crate::clock::DurationText;
use crate::error::StoreError;
use crate::job::{
    JobEvent, JobRecord, JobState, JobType, QueueName, SuspendMode, Suspension, Tenant, TraceId, WorkerId,
};
use crate::key::KeyId;
use crate::settings::TypeSettings;
use crate::store::caller::Caller;
use crate::store::tx::write_tx::WriteTx;

/// The actor of a change, and the reason.
#[derive(Debug, Clone)]
pub(crate) struct RecordActor {
    /// Kind of actor: `user`, `worker` or `system`.
    pub(crate) kind: &'static str,
    /// The actor's id.
    pub(crate) id: String,
    /// The reason given.
    pub(crate) reason: Option<String>,
    /// The trace the change belongs to.
    pub(crate) trace_id: Option<String>,
    /// The API key the worker used.
    pub(crate) key: Option<KeyId>,
}

impl RecordActor {
    /// The actor that requested a suspension which takes effect after the request.
    pub(crate) fn suspension(how: &Suspension) -> RecordActor {
        RecordActor {
            kind: "user",
            id: how.by.clone(),
            reason: how.reason.clone(),
            trace_id: None,
            key: None,
        }
    }

    /// The store itself, for timers and consequences of other jobs.
    pub(crate) fn system() -> RecordActor {
        RecordActor { kind: "system", id: "windlass".into(), reason: None, trace_id: None, key: None }
    }

    /// A worker that uses this caller's API key.
    pub(crate) fn worker(caller: &Caller, worker: WorkerId) -> RecordActor {
        RecordActor {
            kind: "worker",
            id: worker.to_string(),
            reason: None,
            trace_id: caller.trace_id.clone(),
            key: caller.key.clone(),
        }
    }

    /// A caller, with the reason it gave.
    pub(crate) fn caller(caller: &Caller, reason: Option<&str>) -> RecordActor {
        RecordActor {
            kind: caller.kind,
            id: caller.id.clone(),
            reason: reason.map(str::to_owned),
            trace_id: caller.trace_id.clone(),
            key: None,
        }
    }
}

/// The object of an operator's action, for searching records.
pub(crate) struct Subject {
    pub(crate) tenant: Tenant,
    pub(crate) queue: Option<QueueName>,
    pub(crate) job_type: Option<JobType>,
}

impl From<Tenant> for Subject {
    fn from(tenant: Tenant) -> Subject {
        Subject { tenant, queue: None, job_type: None }
    }
}

/// The audit event for a transition.
fn event_of(event: &JobEvent, after: &JobRecord) -> AuditEvent {
    match (event, after.state) {
        (JobEvent::Submit, JobState::Pending | JobState::Delayed | JobState::Scheduled) => {
            AuditEvent::Submitted
        }
        (JobEvent::Claim { .. } | JobEvent::ClaimAhead { .. }, _) => AuditEvent::Claimed,
        (JobEvent::Cancel { .. }, _) | (JobEvent::DependencyEnded { .. }, JobState::Cancelled) => {
            AuditEvent::Cancelled
        }
        (JobEvent::Expire, _) => AuditEvent::Expired,
        // It takes effect when the running attempt ends.
        (JobEvent::Suspend { .. }, JobState::Running) => AuditEvent::SuspendRequested,
        (
            JobEvent::Suspend { .. }
            | JobEvent::Fail { .. }
            | JobEvent::LeaseExpired { .. }
            | JobEvent::Release
            | JobEvent::Park { .. },
            JobState::Suspended,
        )
        | (JobEvent::Suspend { .. }, _) => AuditEvent::Suspended,
        (JobEvent::Resume, _) => AuditEvent::Resumed,
        (_, JobState::Completed) => AuditEvent::Completed,
        (JobEvent::Fail { .. } | JobEvent::LeaseExpired { .. }, JobState::DeadLetter) => {
            AuditEvent::Exhausted
        }
        (_, JobState::Failed | JobState::DeadLetter) => AuditEvent::Failed,
        // The second case is a job that was claimed ahead and never started.
        (JobEvent::Release, _)
        | (JobEvent::Fail { .. } | JobEvent::LeaseExpired { .. }, JobState::Scheduled) => {
            AuditEvent::Released
        }
        (JobEvent::Fail { .. } | JobEvent::LeaseExpired { .. }, _) => AuditEvent::Retried,
        (JobEvent::Park { .. }, _) => AuditEvent::Parked,
        (JobEvent::Wake, _) => AuditEvent::Woken,
        (
            JobEvent::Submit
            | JobEvent::Due
            | JobEvent::DependencyEnded { .. }
            | JobEvent::Refuse { .. }
            | JobEvent::Succeed,
            _,
        ) => AuditEvent::Promoted,
    }
}

impl WriteTx<'_> {
    /// Records a transition, if it is an audited one.
    pub(crate) fn record_transition(
        &mut self,
        event: &JobEvent,
        before: &JobRecord,
        after: &JobRecord,
        cause: &RecordActor,
    ) -> Result<(), StoreError> {
        if matches!(event, JobEvent::LeaseExpired { .. }) {
            self.record_job(AuditEvent::Reaped, before, after, cause, None)?;
        }
        let kind = event_of(event, after);
        // The actor of a suspension that was requested earlier is its operator, not the worker whose attempt ended.
        if kind == AuditEvent::Suspended
            && let Some(how) = &before.details.suspend_requested
            && !matches!(event, JobEvent::Suspend { .. })
        {
            return self.record_job(kind, before, after, &RecordActor::suspension(how), None);
        }
        self.record_job(kind, before, after, cause, None)
    }

    /// The trace of a record: the request's trace for an operator's action, the job's own trace for events of the job;
    /// otherwise the trace of the call, which is generated if missing. Timer effects on a job without a trace have
    /// none.
    fn trace_of(&mut self, cause: &RecordActor, job: Option<&JobRecord>) -> Option<String> {
        let own = job.and_then(|job| job.trace).map(|trace| trace.to_string());
        let given = cause.trace_id.clone();
        if given.is_some() {
            self.call_trace.clone_from(&given);
        }
        let found = if cause.kind == "worker" { own.or(given) } else { given.or(own) };
        if found.is_none() && self.call_trace.is_none() && cause.kind != "system" {
            self.call_trace = Some(TraceId::new(self.env.entropy.bits()).to_string());
        }
        found.or_else(|| self.call_trace.clone())
    }

    /// Records an event of a job; `extra` replaces the usual context.
    pub(crate) fn record_job(
        &mut self,
        event: AuditEvent,
        before: &JobRecord,
        after: &JobRecord,
        cause: &RecordActor,
        extra: Option<serde_json::Value>,
    ) -> Result<(), StoreError> {
        self.announce(Some(&after.lane.tenant));
        let config = self.config()?;
        let is_kept = config.audit_level(&after.lane).keeps(event);
        if !is_kept && !self.env.feed.has_listeners() {
            return Ok(());
        }
        let settings = TypeSettings::NAMED.contains(&event).then(|| config.types.get(&after.lane.job_type));
        let alias = settings.flatten().and_then(|settings| settings.alias(event)).map(str::to_owned);
        let context = match extra {
            Some(context) => context.to_string(),
            None => with_key(context_of(event, before, after, cause), cause.key.as_ref()),
        };
        let trace_id = self.trace_of(cause, Some(after));
        self.record(
            Record {
                seq: 0,
                event,
                alias,
                at: self.now,
                actor_type: cause.kind.into(),
                actor_id: cause.id.clone(),
                tenant: after.lane.tenant.clone(),
                job: Some(after.id),
                queue: Some(after.lane.queue.clone()),
                job_type: Some(after.lane.job_type.clone()),
                trace_id,
                context,
            },
            is_kept,
        );
        Ok(())
    }

    /// Records an operator's action that is not about one job.
    pub(crate) fn record_operation(
        &mut self,
        event: AuditEvent,
        subject: impl Into<Subject>,
        cause: &RecordActor,
        context: &serde_json::Value,
    ) {
        let Subject { tenant, queue, job_type } = subject.into();
        let trace_id = self.trace_of(cause, None);
        let record = Record {
            seq: 0,
            event,
            alias: None,
            at: self.now,
            actor_type: cause.kind.into(),
            actor_id: cause.id.clone(),
            tenant,
            job: None,
            queue,
            job_type,
            trace_id,
            context: with_durations_as_text(context, DURATION_DEPTH_MAX).to_string(),
        };
        self.announce(None);
        self.record(record, true);
    }
}

/// How deep in a context durations are: `settings.retry.initial_delay`.
const DURATION_DEPTH_MAX: usize = 3;

/// The value with durations as texts such as `1h30m`, as in all answers: settings are stored with seconds and nanoseconds.
fn with_durations_as_text(value: &Value, depth: usize) -> Value {
    let Value::Object(fields) = value else {
        return value.clone();
    };
    if let (2, Some(secs), Some(nanos)) = (
        fields.len(),
        fields.get("secs").and_then(Value::as_u64),
        fields.get("nanos").and_then(Value::as_u64).and_then(|nanos| u32::try_from(nanos).ok()),
    ) {
        let duration = Duration::from_secs(secs).saturating_add(Duration::from_nanos(nanos.into()));
        return json!(DurationText(duration).to_string());
    }
    if depth == 0 {
        return value.clone();
    }
    let shown = |(name, value): (&String, &Value)| (name.clone(), with_durations_as_text(value, depth - 1));
    fields.iter().map(shown).collect()
}

/// Adds the worker's API key to the context. A key id needs no escaping.
fn with_key(context: String, key: Option<&KeyId>) -> String {
    match (context.strip_suffix('}'), key) {
        (Some(fields), Some(key)) => format!(r#"{fields},"key":"{key}"}}"#),
        _ => context,
    }
}

fn context_of(event: AuditEvent, before: &JobRecord, after: &JobRecord, cause: &RecordActor) -> String {
    match event {
        AuditEvent::Suspended
        | AuditEvent::SuspendRequested
        | AuditEvent::Resumed
        | AuditEvent::Cancelled => {
            let mut context = json!({
                "job_id": after.id.to_string(),
                "actor_id": cause.id,
                "previous_state": before.state.as_str(),
                "state": after.state.as_str(),
            });
            if let Some(reason) = &cause.reason {
                context["reason"] = json!(reason);
            }
            if let Some(mode) = mode_of(event, before, after) {
                context["mode"] = json!(mode);
            }
            context.to_string()
        }
        AuditEvent::Failed | AuditEvent::Exhausted | AuditEvent::Expired | AuditEvent::Retried => {
            let error = after.details.error.as_ref();
            json!({
                "previous_state": before.state.as_str(),
                "state": after.state.as_str(),
                "attempt": after.attempt,
                "category": error.map(|error| error.category.as_str()),
                "code": error.and_then(|error| error.code.as_deref()),
                "message": error.map(|error| error.message.as_str()),
            })
            .to_string()
        }
        // State names need no escaping. This is written for every job, so no JSON tree is built.
        _ => format!(
            r#"{{"previous_state":"{}","state":"{}","attempt":{}}}"#,
            before.state, after.state, after.attempt
        ),
    }
}

/// The mode of the suspension that a record describes.
fn mode_of(event: AuditEvent, before: &JobRecord, after: &JobRecord) -> Option<SuspendMode> {
    let (before, after) = (&before.details, &after.details);
    let suspension = match event {
        AuditEvent::Suspended => after.suspension.as_ref(),
        AuditEvent::SuspendRequested => after.suspend_requested.as_ref(),
        AuditEvent::Resumed => before.suspension.as_ref().or(before.suspend_requested.as_ref()),
        _ => None,
    };
    suspension.map(|suspension| suspension.mode)
}
