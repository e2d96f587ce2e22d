//! Pauses of all processing, tenants, types, queues and workers, each with actor, start, reason and end.

use std::fmt;
use std::time::Duration;

use serde_json::json;

use super::actions::ActionRequest;
use super::bulk::BulkAction;
use super::effects::audit::{RecordActor, Subject};
use crate::audit::AuditEvent;
use crate::error::{ActionError, StoreError};
use crate::job::{JobState, JobType, QueueName, Tenant, WorkerId, check_text};
use crate::limits;
use crate::settings::PauseMode;
use crate::store::caller::{Caller, Permission};
use crate::store::documents::cascade::LeaseEnd;
use crate::store::documents::config::{PauseRecord, PauseScope, Resumption, encode};
use crate::store::engine::DocumentKind;
use crate::store::filter::Filter;
use crate::store::tx::write_tx::WriteTx;

/// The scope to pause or resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseTarget {
    /// All processing; admins only.
    Gate,
    /// A tenant; admins only.
    Tenant(Tenant),
    /// A type: in the caller's tenant, or in all tenants for an admin.
    Type(JobType),
    /// A queue: in the caller's tenant, or in all tenants for an admin.
    Queue(QueueName),
    /// A worker.
    Worker(WorkerId),
}

impl fmt::Display for PauseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PauseTarget::Gate => f.write_str("all processing"),
            PauseTarget::Tenant(tenant) => write!(f, "tenant {tenant}"),
            PauseTarget::Type(job_type) => write!(f, "type {job_type}"),
            PauseTarget::Queue(queue) => write!(f, "queue {queue}"),
            PauseTarget::Worker(worker) => write!(f, "worker {worker}"),
        }
    }
}

/// The strict form of an answer: it is an error if nothing changed.
pub(crate) fn changed_or(
    unchanged: impl FnOnce(String) -> ActionError,
    target: &PauseTarget,
    changed: Result<bool, ActionError>,
) -> Result<(), ActionError> {
    if changed? { Ok(()) } else { Err(unchanged(target.to_string())) }
}

/// What resumes the jobs that aggressive pauses of a queue have suspended.
pub(crate) fn resume_suspended(queue: QueueName, reason: Option<String>) -> (Filter, BulkAction) {
    let filter = Filter {
        queue: Some(queue),
        states: vec![JobState::Suspended],
        is_suspended_by_pause: Some(true),
        ..Filter::default()
    };
    (filter, BulkAction::Act(ActionRequest::Resume { reason }))
}

/// Options for a pause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pause {
    /// What happens to running jobs.
    pub mode: PauseMode,
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// How long until it ends by itself.
    pub expires: Option<Duration>,
}

impl Pause {
    /// Running jobs may finish.
    pub fn graceful() -> Pause {
        Pause::default()
    }

    /// Running jobs are stopped now; this does not count as a failure.
    pub fn aggressive() -> Pause {
        Pause { mode: PauseMode::Aggressive, ..Pause::default() }
    }

    /// Sets the reason.
    #[must_use]
    pub fn reason(self, reason: &str) -> Pause {
        Pause { reason: Some(reason.to_owned()), ..self }
    }

    /// Resumes automatically after this long.
    #[must_use]
    pub fn expires_in(self, time: Duration) -> Pause {
        Pause { expires: Some(time), ..self }
    }
}

/// Pauses a scope; returns whether anything changed. A second pause keeps the first one, unless it is aggressive and the
/// first one is not.
pub(crate) fn pause(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    target: &PauseTarget,
    pause: &Pause,
) -> Result<bool, ActionError> {
    check_text("reason", pause.reason.as_deref(), limits::REASON_CHARS_MAX)?;
    let scope = scope_for(tx, caller, target)?;
    let now = tx.now;
    // An expired pause has ended, even if maintenance has not removed it yet.
    tx.end_if_expired(&scope)?;
    let config = tx.config()?;
    if let Some(hold) = config.pauses.get(&scope) {
        let hold = hold.clone();
        drop(config);
        return escalate(tx, caller, hold, pause);
    }
    match target {
        PauseTarget::Queue(queue) => config.check_queue_named(caller, queue)?,
        PauseTarget::Type(job_type) => config.check_type_named(caller, job_type)?,
        PauseTarget::Gate | PauseTarget::Tenant(_) | PauseTarget::Worker(_) => {}
    }
    drop(config);
    let hold = PauseRecord {
        scope: scope.clone(),
        mode: pause.mode,
        reason: pause.reason.clone(),
        by: caller.id.clone(),
        since: now,
        expires_at: pause.expires.map(|after| now.plus(after)),
    };
    let key = hold_key(&scope);
    tx.put_document(DocumentKind::Hold, &key, Some(&encode(&hold)), |config| {
        config.pauses.insert(scope.clone(), hold.clone());
    })?;
    record(tx, caller, &hold, true, pause.reason.as_deref())?;
    tx.interrupt();
    if pause.mode == PauseMode::Aggressive {
        interrupt(tx, &hold)?;
    }
    Ok(true)
}

/// Makes a graceful pause of a queue or worker aggressive: its running jobs are stopped now. The pause keeps its end, and
/// is from now on that of the caller who stopped them. Any other second pause changes nothing.
fn escalate(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    hold: PauseRecord,
    pause: &Pause,
) -> Result<bool, ActionError> {
    let stops_jobs = matches!(hold.scope, PauseScope::Queue { .. } | PauseScope::Worker(_));
    let is_escalation = pause.mode == PauseMode::Aggressive && hold.mode != PauseMode::Aggressive;
    if !stops_jobs || !is_escalation {
        return Ok(false);
    }
    let reason = pause.reason.clone().or_else(|| hold.reason.clone());
    let hold =
        PauseRecord { mode: PauseMode::Aggressive, reason, by: caller.id.clone(), since: tx.now, ..hold };
    let key = hold_key(&hold.scope);
    tx.put_document(DocumentKind::Hold, &key, Some(&encode(&hold)), |config| {
        config.pauses.insert(hold.scope.clone(), hold.clone());
    })?;
    record(tx, caller, &hold, true, pause.reason.as_deref())?;
    tx.interrupt();
    interrupt(tx, &hold)?;
    Ok(true)
}

/// Ends a pause; returns whether there was one.
pub(crate) fn resume(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    target: &PauseTarget,
    reason: Option<&str>,
) -> Result<bool, ActionError> {
    check_text("reason", reason, limits::REASON_CHARS_MAX)?;
    let scope = scope_for(tx, caller, target)?;
    tx.end_if_expired(&scope)?;
    let Some(hold) = tx.config()?.pauses.get(&scope).cloned() else { return Ok(false) };
    tx.drop_hold(&scope)?;
    tx.keep_resumption(caller, &scope, reason)?;
    record(tx, caller, &hold, false, reason)?;
    tx.wake();
    tx.interrupt();
    Ok(true)
}

/// The scope for this caller: for anyone but an admin, it is limited to the caller's own tenant.
fn scope_for(tx: &mut WriteTx<'_>, caller: &Caller, target: &PauseTarget) -> Result<PauseScope, ActionError> {
    match target {
        PauseTarget::Gate => {
            caller.require(Permission::Administer)?;
            Ok(PauseScope::Gate)
        }
        PauseTarget::Tenant(tenant) => {
            caller.require(Permission::Administer)?;
            Ok(PauseScope::Tenant(tenant.clone()))
        }
        PauseTarget::Worker(worker) => {
            caller.require(Permission::Pause)?;
            let tenant = tx.config()?.workers.get(worker).map(|known| known.tenant.clone());
            match tenant {
                // A tenant sees a worker that serves all tenants, and cannot pause it.
                Some(None) if caller.tenant.is_some() => caller.require(Permission::Administer)?,
                Some(tenant) if caller.tenant.is_none() || tenant == caller.tenant => {}
                _ => return Err(ActionError::NoSuchWorker(*worker)),
            }
            Ok(PauseScope::Worker(*worker))
        }
        PauseTarget::Type(job_type) => {
            caller.require(Permission::Pause)?;
            Ok(PauseScope::Type { job_type: job_type.clone(), tenant: caller.tenant.clone() })
        }
        PauseTarget::Queue(queue) => {
            caller.require(Permission::Pause)?;
            Ok(PauseScope::Queue { queue: queue.clone(), tenant: caller.tenant.clone() })
        }
    }
}

fn hold_key(scope: &PauseScope) -> String {
    serde_json::to_string(scope).expect("a scope is plain data")
}

/// Records the start or end of a pause under the tenant it concerns: other tenants must not see it. Both records name its
/// mode.
fn record(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    hold: &PauseRecord,
    is_paused: bool,
    reason: Option<&str>,
) -> Result<(), StoreError> {
    let scope = &hold.scope;
    let event = match (scope, is_paused) {
        (PauseScope::Queue { .. }, true) => AuditEvent::QueuePaused,
        (PauseScope::Queue { .. }, false) => AuditEvent::QueueResumed,
        (PauseScope::Worker(_), true) => AuditEvent::WorkerPaused,
        (PauseScope::Worker(_), false) => AuditEvent::WorkerResumed,
        (PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Type { .. }, true) => AuditEvent::GateClosed,
        (PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Type { .. }, false) => AuditEvent::GateOpened,
    };
    let tenant = match scope {
        PauseScope::Tenant(tenant) => tenant.clone(),
        PauseScope::Type { tenant, .. } | PauseScope::Queue { tenant, .. } => {
            tenant.clone().unwrap_or_default()
        }
        PauseScope::Worker(worker) => {
            let worker = tx.config()?.workers.get(worker).and_then(|worker| worker.tenant.clone());
            worker.unwrap_or_default()
        }
        PauseScope::Gate => Tenant::default(),
    };
    let (queue, job_type) = match scope {
        PauseScope::Queue { queue, .. } => (Some(queue.clone()), None),
        PauseScope::Type { job_type, .. } => (None, Some(job_type.clone())),
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Worker(_) => (None, None),
    };
    let subject = Subject { tenant, queue, job_type };
    let mut context = json!({"actor_id": caller.id, "scope": scope, "mode": hold.mode});
    if let Some(reason) = reason {
        context["reason"] = json!(reason);
    }
    tx.record_operation(event, subject, &RecordActor::caller(caller, reason), &context);
    Ok(())
}

/// Applies an aggressive pause: a queue's running jobs are suspended, a worker's are released, as many as
/// one commit may; maintenance handles the rest.
fn interrupt(tx: &mut WriteTx<'_>, hold: &PauseRecord) -> Result<(), StoreError> {
    match &hold.scope {
        PauseScope::Worker(worker) => {
            // Includes leases of the same instant: the pause came after them.
            let before = tx.now.plus(Duration::from_millis(1));
            let trace_id = tx.call_trace.clone();
            tx.workers_gone([*worker].into(), before, LeaseEnd::Release, trace_id)?;
        }
        PauseScope::Queue { .. } => tx.suspend_all_running(hold)?,
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Type { .. } => {}
    }
    Ok(())
}

impl WriteTx<'_> {
    /// Stores who last resumed a queue, and when. For other scopes only the audit trail has this.
    fn keep_resumption(
        &mut self,
        caller: &Caller,
        scope: &PauseScope,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        if !matches!(scope, PauseScope::Queue { .. }) {
            return Ok(());
        }
        let resumption = Resumption {
            scope: scope.clone(),
            by: caller.id.clone(),
            at: self.now,
            reason: reason.map(str::to_owned),
        };
        let body = encode(&resumption);
        self.put_document(DocumentKind::Resumption, &hold_key(scope), Some(&body), |config| {
            config.resumed.insert(scope.clone(), resumption);
        })
    }

    /// Removes a pause without an audit record.
    pub(crate) fn drop_hold(&mut self, scope: &PauseScope) -> Result<(), StoreError> {
        if !self.config()?.pauses.contains_key(scope) {
            return Ok(());
        }
        self.put_document(DocumentKind::Hold, &hold_key(scope), None, |config| {
            config.pauses.remove(scope);
        })
    }

    /// Ends up to `max` expired pauses; returns how many.
    pub(crate) fn end_expired_pauses(&mut self, max: usize) -> Result<usize, StoreError> {
        let now = self.now;
        let config = self.config()?;
        let expired = config.pauses.values().filter(|hold| !hold.is_active(now)).take(max);
        let expired: Vec<PauseRecord> = expired.cloned().collect();
        drop(config);
        for hold in &expired {
            self.end_expired(hold)?;
        }
        Ok(expired.len())
    }

    /// Ends the pause of one scope if it has expired.
    fn end_if_expired(&mut self, scope: &PauseScope) -> Result<(), StoreError> {
        let now = self.now;
        let hold = self.config()?.pauses.get(scope).filter(|hold| !hold.is_active(now)).cloned();
        hold.map_or(Ok(()), |hold| self.end_expired(&hold))
    }

    fn end_expired(&mut self, hold: &PauseRecord) -> Result<(), StoreError> {
        self.drop_hold(&hold.scope)?;
        self.keep_resumption(&Caller::system(), &hold.scope, Some("it expired"))?;
        record(self, &Caller::system(), hold, false, Some("it expired"))?;
        self.wake();
        self.interrupt();
        Ok(())
    }
}
