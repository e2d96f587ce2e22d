//! What the audit trail says about a change. Which event a transition is, and what goes into its context, is decided here
//! for all commands.

use serde_json::json;

use crate::audit::{AuditEvent, Record};
use crate::error::StoreError;
use crate::job::{Event, Job, State, Tenant};
use crate::store::caller::Caller;
use crate::store::unit::Unit;

/// Who or what is behind a change, and why.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    /// Kind of actor: `user`, `worker` or `system`.
    pub(crate) kind: &'static str,
    /// Who.
    pub(crate) id: String,
    /// Why.
    pub(crate) reason: Option<String>,
    /// The trace it belongs to.
    pub(crate) trace_id: Option<String>,
}

impl Cause {
    /// The store itself, as time passes or other jobs end.
    pub(crate) fn system() -> Cause {
        Cause { kind: "system", id: "windlass".into(), reason: None, trace_id: None }
    }

    /// A caller, with the reason it gave.
    pub(crate) fn caller(caller: &Caller, reason: Option<&str>) -> Cause {
        Cause {
            kind: caller.kind,
            id: caller.id.clone(),
            reason: reason.map(str::to_owned),
            trace_id: caller.trace_id.clone(),
        }
    }
}

/// The audit event that a transition is.
fn event_of(event: &Event, after: &Job) -> AuditEvent {
    match (event, after.state) {
        (Event::Submit, State::Pending | State::Delayed | State::Scheduled) => AuditEvent::Submitted,
        (Event::Claim { .. }, _) => AuditEvent::Claimed,
        (Event::Cancel { .. }, _) | (Event::DependencyEnded { .. }, State::Cancelled) => {
            AuditEvent::Cancelled
        }
        (Event::Expire, _) => AuditEvent::Expired,
        (Event::Suspend { .. }, _) | (Event::Fail { .. } | Event::LeaseExpired { .. }, State::Suspended) => {
            AuditEvent::Suspended
        }
        (Event::Resume, _) => AuditEvent::Resumed,
        (_, State::Completed) => AuditEvent::Completed,
        (Event::Fail { .. } | Event::LeaseExpired { .. }, State::DeadLetter) => AuditEvent::Exhausted,
        (_, State::Failed | State::DeadLetter) => AuditEvent::Failed,
        (Event::Fail { .. } | Event::LeaseExpired { .. }, _) => AuditEvent::Retried,
        (Event::Release, _) => AuditEvent::Released,
        (Event::Park { .. }, _) => AuditEvent::Parked,
        (Event::Wake, _) => AuditEvent::Woken,
        (
            Event::Submit
            | Event::Due
            | Event::DependencyEnded { .. }
            | Event::Refuse { .. }
            | Event::Succeed,
            _,
        ) => AuditEvent::Promoted,
    }
}

impl Unit<'_> {
    /// Records a transition, if anybody is to know.
    pub(crate) fn record_transition(
        &mut self,
        event: &Event,
        before: &Job,
        after: &Job,
        cause: &Cause,
    ) -> Result<(), StoreError> {
        if matches!(event, Event::LeaseExpired { .. }) {
            self.record_job(AuditEvent::Reaped, before, after, cause, None)?;
        }
        self.record_job(event_of(event, after), before, after, cause, None)
    }

    /// Records what happened to a job; `extra` replaces the usual context.
    pub(crate) fn record_job(
        &mut self,
        event: AuditEvent,
        before: &Job,
        after: &Job,
        cause: &Cause,
        extra: Option<serde_json::Value>,
    ) -> Result<(), StoreError> {
        self.announce(Some(&after.lane.tenant));
        let config = self.config()?;
        let is_kept = config.audit_level(&after.lane).keeps(event);
        if !is_kept && !self.env.feed.has_listeners() {
            return Ok(());
        }
        let alias = (event == AuditEvent::Completed)
            .then(|| config.types.get(&after.lane.job_type).and_then(|kind| kind.success_event.clone()))
            .flatten();
        let context = match extra {
            Some(context) => context.to_string(),
            None => context_of(event, before, after, cause),
        };
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
                trace_id: cause.trace_id.clone(),
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
        tenant: Tenant,
        cause: &Cause,
        context: &serde_json::Value,
    ) {
        let record = Record {
            seq: 0,
            event,
            alias: None,
            at: self.now,
            actor_type: cause.kind.into(),
            actor_id: cause.id.clone(),
            tenant,
            job: None,
            trace_id: cause.trace_id.clone(),
            context: context.to_string(),
        };
        self.announce(None);
        self.record(record, true);
    }
}

fn context_of(event: AuditEvent, before: &Job, after: &Job, cause: &Cause) -> String {
    match event {
        AuditEvent::Suspended | AuditEvent::Resumed | AuditEvent::Cancelled => {
            let mut context = json!({
                "job_id": after.id.to_string(),
                "actor_id": cause.id,
                "previous_state": before.state.as_str(),
                "state": after.state.as_str(),
            });
            if let Some(reason) = &cause.reason {
                context["reason"] = json!(reason);
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
        // The words of states need no escaping, and this is written for every job: no JSON tree is built for it.
        _ => format!(
            r#"{{"previous_state":"{}","state":"{}","attempt":{}}}"#,
            before.state, after.state, after.attempt
        ),
    }
}
