//! Alerts: create, pause, resume, test, delete. Deciding about them is in its own module.

pub(crate) mod evaluate;

use serde_json::json;

use super::effects::audit::{RecordActor, Subject};
use super::submit::{self, SubmitOptions};
use crate::alert::message::scope;
use crate::alert::{AlertNotice, AlertRule, AlertState};
use crate::audit::AuditEvent;
use crate::error::{AlertError, FieldError, FieldProblem, StoreError, SubmitError};
use crate::job::{AlertName, JobRecord, Tenant, check_text};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::documents::alerts::{Alert, PutAlert};
use crate::store::documents::config::encode;
use crate::store::documents::shares::has_room;
use crate::store::documents::tenant_object::{AlertRef, PauseOptions};
use crate::store::engine::DocumentKind;
use crate::store::query::alerts;
use crate::store::tx::write_tx::WriteTx;

/// Creates or replaces an alert of a tenant, of the caller's own if none is given. Its state stays: an alert that fires
/// resolves when the new condition does not hold.
pub(crate) fn put(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    which: &AlertRef,
    rule: &AlertRule,
) -> Result<PutAlert, AlertError> {
    caller.require(Permission::Configure)?;
    let tenant = which.tenant.clone().or_else(|| caller.tenant.clone());
    if tenant.as_ref().is_some_and(|tenant| !caller.can_see(tenant)) {
        caller.require(Permission::Administer)?;
    }
    rule.check(&tx.env.options.targets)?;
    let now = tx.now;
    let all = tx.raw(|db| alerts::stored(db))?;
    let before = all.iter().find(|alert| alert.tenant == tenant && alert.name == which.name);
    if before.is_none() {
        check_room(&all, tenant.as_ref())?;
    }
    if let Some(same) = before.filter(|before| before.rule == *rule) {
        return Ok(PutAlert { alert: same.clone(), is_new: false, is_changed: false });
    }
    let mut alert = before.cloned().unwrap_or_else(|| Alert::new(tenant, &which.name, rule, caller, now));
    alert.rule = rule.clone();
    alert.state.turning_since = None;
    (alert.updated_at, alert.updated_by) = (now, caller.id.clone());
    let event = if before.is_some() { AuditEvent::AlertUpdated } else { AuditEvent::AlertCreated };
    record(tx, event, &alert, &RecordActor::caller(caller, None));
    tx.put_alert(&alert)?;
    Ok(PutAlert { alert, is_new: before.is_none(), is_changed: true })
}

/// Refuses one more alert than a tenant, or the store, may have.
fn check_room(all: &[Alert], tenant: Option<&Tenant>) -> Result<(), FieldError> {
    let own = all.iter().filter(|alert| alert.tenant.as_ref() == tenant).count();
    let (length, limit) = if own >= limits::ALERTS_PER_TENANT_MAX {
        (own + 1, limits::ALERTS_PER_TENANT_MAX)
    } else if has_room(all.len(), own, limits::ALERTS_MAX) {
        return Ok(());
    } else {
        (all.len() + 1, limits::ALERTS_MAX)
    };
    Err(FieldError::new("alerts", FieldProblem::TooLong { length, limit }))
}

/// Removes an alert. Nothing is sent about it, also if it fires.
pub(crate) fn delete(tx: &mut WriteTx<'_>, caller: &Caller, which: &AlertRef) -> Result<(), AlertError> {
    let alert = tx.managed_alert(caller, which)?;
    record(tx, AuditEvent::AlertDeleted, &alert, &RecordActor::caller(caller, None));
    tx.put_document(DocumentKind::Alert, &alert.key(), None, |_| {})?;
    Ok(())
}

/// Pauses an alert; returns whether it was not paused before.
pub(crate) fn pause(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    which: &AlertRef,
    how: &PauseOptions,
) -> Result<bool, AlertError> {
    check_text("reason", how.reason.as_deref(), limits::REASON_CHARS_MAX)?;
    let now = tx.now;
    let mut alert = tx.managed_alert(caller, which)?;
    if alert.pause_now(now).is_some() {
        return Ok(false);
    }
    alert.paused = Some(how.begin(caller, now));
    // How long a condition held before the pause says nothing about the time after it.
    alert.state.turning_since = None;
    record(tx, AuditEvent::AlertPaused, &alert, &RecordActor::caller(caller, how.reason.as_deref()));
    tx.put_alert(&alert)?;
    Ok(true)
}

/// Resumes an alert; returns whether it was paused.
pub(crate) fn resume(tx: &mut WriteTx<'_>, caller: &Caller, which: &AlertRef) -> Result<bool, AlertError> {
    let mut alert = tx.managed_alert(caller, which)?;
    if alert.pause_now(tx.now).is_none() {
        return Ok(false);
    }
    alert.paused = None;
    record(tx, AuditEvent::AlertResumed, &alert, &RecordActor::caller(caller, None));
    tx.put_alert(&alert)?;
    Ok(true)
}

/// Submits a sample message; the alert's state stays.
pub(crate) fn test(tx: &mut WriteTx<'_>, caller: &Caller, which: &AlertRef) -> Result<JobRecord, AlertError> {
    let mut alert = tx.managed_alert(caller, which)?;
    let job =
        tx.deliver(&alert, AlertNotice::Test, caller.trace_id.clone()).map_err(|error| match error {
            SubmitError::Store(error) => error,
            refused => StoreError::Database(format!("the message of alert {}: {refused}", alert.name)),
        })?;
    alert.last_delivery = Some(job.id);
    record(tx, AuditEvent::AlertTested, &alert, &RecordActor::caller(caller, None));
    tx.put_alert(&alert)?;
    Ok(job)
}

/// Records an event of an alert. The URL is left out but for its host: everyone in the tenant can read the audit trail.
fn record(tx: &mut WriteTx<'_>, event: AuditEvent, alert: &Alert, cause: &RecordActor) {
    let Alert { tenant, name, rule, state, last_delivery, .. } = alert;
    let mut context = json!({
        "actor_id": cause.id,
        "alert": name,
        "condition": format!(
            "{}{}",
            rule.condition,
            scope(rule.queue.as_ref(), rule.job_type.as_ref(), tenant.as_ref())
        ),
        "receiver": rule.receiver(),
        "format": rule.format,
        "state": state.status,
        "value": state.value.map(|value| value.to_string()),
        "delivery": last_delivery.map(|id| id.to_string()),
    });
    if let Some(reason) = &cause.reason {
        context["reason"] = json!(reason);
    }
    let (queue, job_type) = (rule.queue.clone(), rule.job_type.clone());
    let subject = Subject { tenant: tenant.clone().unwrap_or_default(), queue, job_type };
    tx.record_operation(event, subject, cause, &context);
}

impl Alert {
    fn new(
        tenant: Option<Tenant>,
        name: &AlertName,
        rule: &AlertRule,
        caller: &Caller,
        now: crate::clock::Timestamp,
    ) -> Alert {
        Alert {
            tenant,
            name: name.clone(),
            rule: rule.clone(),
            state: AlertState::new(now),
            paused: None,
            last_delivery: None,
            created_at: now,
            updated_at: now,
            updated_by: caller.id.clone(),
            is_redacted: false,
        }
    }
}

impl WriteTx<'_> {
    /// The alert, if the caller can see and change it.
    fn managed_alert(&mut self, caller: &Caller, which: &AlertRef) -> Result<Alert, AlertError> {
        caller.require(Permission::Configure)?;
        let found = self.raw(|db| alerts::find(db, caller, which))?;
        found.ok_or_else(|| AlertError::NotFound(which.name.clone()))
    }

    fn put_alert(&mut self, alert: &Alert) -> Result<(), StoreError> {
        self.put_document(DocumentKind::Alert, &alert.key(), Some(&encode(alert)), |_| {})
    }

    /// Submits the job that delivers a message about an alert.
    fn deliver(
        &mut self,
        alert: &Alert,
        notice: AlertNotice,
        trace_id: Option<String>,
    ) -> Result<JobRecord, SubmitError> {
        let delivery = alert.message(notice, self.now).delivery(&alert.rule);
        let caller = Caller { id: format!("alert:{}", alert.name), trace_id, ..Caller::system() };
        let mut receipts = submit::submit(self, &caller, &[delivery], SubmitOptions::default(), None)?;
        Ok(receipts.remove(0).job)
    }
}
