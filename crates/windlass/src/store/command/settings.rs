//! Settings of queues, types and tenants. They apply from the next submission or claim on; policies of jobs submitted
//! before do not change.

use serde::Serialize;
use serde_json::json;

use super::effects::audit::{RecordActor, Subject};
use crate::audit::AuditEvent;
use crate::callback;
use crate::error::{ActionError, FieldError, FieldProblem};
use crate::job::{JobType, QueueName, Tenant};
use crate::limits;
use crate::settings::patch::{Field, QueuePatch, SettingsPatch, TenantPatch, TypePatch};
use crate::settings::{Push, QueueSettings, TenantSettings, TypeSettings};
use crate::store::caller::{Caller, Permission};
use crate::store::documents::config::{encode, queue_key};
use crate::store::documents::shares::has_room;
use crate::store::engine::DocumentKind;
use crate::store::query::payload::without_query;
use crate::store::tx::write_tx::WriteTx;

/// All settings of one queue, type or tenant.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Settings {
    /// A queue's settings: those of the caller's tenant, or of all tenants if the caller has none.
    Queue(QueueName, QueueSettings),
    /// A type's settings.
    Type(JobType, TypeSettings),
    /// A tenant's settings.
    Tenant(Tenant, TenantSettings),
}

/// Turns full settings into a change that replaces all fields.
impl From<Settings> for SettingsPatch {
    fn from(settings: Settings) -> SettingsPatch {
        match settings {
            Settings::Queue(queue, settings) => SettingsPatch::Queue(queue, settings.into()),
            Settings::Type(job_type, settings) => SettingsPatch::Type(job_type, settings.into()),
            Settings::Tenant(tenant, settings) => SettingsPatch::Tenant(tenant, settings.into()),
        }
    }
}

/// The result of changing settings.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingsReport {
    /// The new settings.
    pub settings: Settings,
    /// Whether they differ from the previous ones.
    pub is_changed: bool,
}

/// Changes settings.
pub(crate) fn configure(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    patch: &SettingsPatch,
) -> Result<SettingsReport, ActionError> {
    match patch {
        SettingsPatch::Queue(queue, patch) => {
            let (settings, is_changed) = configure_queue(tx, caller, queue, patch)?;
            Ok(SettingsReport { settings: Settings::Queue(queue.clone(), settings), is_changed })
        }
        SettingsPatch::Type(job_type, patch) => {
            let (settings, is_changed) = configure_type(tx, caller, job_type, patch)?;
            Ok(SettingsReport { settings: Settings::Type(job_type.clone(), settings), is_changed })
        }
        SettingsPatch::Tenant(tenant, patch) => {
            let (settings, is_changed) = configure_tenant(tx, caller, tenant, patch)?;
            Ok(SettingsReport { settings: Settings::Tenant(tenant.clone(), settings), is_changed })
        }
    }
}

fn configure_type(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    job_type: &JobType,
    patch: &TypePatch,
) -> Result<(TypeSettings, bool), ActionError> {
    caller.require(Permission::Administer)?;
    let before = tx.config()?.types.get(job_type).cloned();
    let settings = patch.applied_to(before.clone().unwrap_or_default());
    settings.check()?;
    if before.as_ref() == Some(&settings) {
        return Ok((settings, false));
    }
    tx.put_document(DocumentKind::Type, job_type.as_str(), Some(&encode(&settings)), |config| {
        config.types.insert(job_type.clone(), settings.clone());
    })?;
    record(tx, caller, AuditEvent::TypeConfigured, None, job_type.as_str(), &settings);
    tx.wake();
    Ok((settings, true))
}

fn configure_tenant(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    tenant: &Tenant,
    patch: &TenantPatch,
) -> Result<(TenantSettings, bool), ActionError> {
    caller.require(Permission::Administer)?;
    let before = tx.config()?.tenants.get(tenant).cloned();
    let settings = patch.applied_to(before.clone().unwrap_or_default());
    settings.check()?;
    if before.as_ref() == Some(&settings) {
        return Ok((settings, false));
    }
    tx.put_document(DocumentKind::Tenant, tenant.as_str(), Some(&encode(&settings)), |config| {
        config.tenants.insert(tenant.clone(), settings.clone());
    })?;
    record(tx, caller, AuditEvent::TenantConfigured, Some(tenant), tenant.as_str(), &settings);
    tx.wake();
    Ok((settings, true))
}

fn configure_queue(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    queue: &QueueName,
    patch: &QueuePatch,
) -> Result<(QueueSettings, bool), ActionError> {
    caller.require(Permission::Configure)?;
    let key = (queue.clone(), caller.tenant.clone());
    let config = tx.config()?;
    let before = config.queues.get(&key).cloned();
    let settings = patch.applied_to(before.clone().unwrap_or_default());
    settings.check()?;
    config.check_queue_named(caller, queue)?;
    if let Field::Set(push) = &patch.push {
        check_push(tx, &key, push)?;
    }
    if before.as_ref() == Some(&settings) {
        return Ok((settings, false));
    }
    let per_key = before.map_or((None, None), |before| (before.max_running_per_key, before.rate_per_key));
    let text = queue_key(queue, caller.tenant.as_ref());
    tx.put_document(DocumentKind::Queue, &text, Some(&encode(&settings)), |config| {
        config.queues.insert(key, settings.clone());
    })?;
    // Everyone in the tenant can read the audit trail, but must not see the query of a URL.
    let mut recorded = settings.clone();
    if let Some(push) = &mut recorded.push {
        push.url = without_query(&push.url);
    }
    record(tx, caller, AuditEvent::QueueConfigured, None, queue.as_str(), &recorded);
    if (settings.max_running_per_key, settings.rate_per_key) != per_key {
        tx.unblock_queue(queue)?;
    }
    tx.wake();
    Ok((settings, true))
}

/// Checks a push target: its URL, and the number of existing targets.
fn check_push(
    tx: &mut WriteTx<'_>,
    key: &(QueueName, Option<Tenant>),
    push: &Push,
) -> Result<(), ActionError> {
    if key.0.as_str() == callback::QUEUE {
        let problem = FieldProblem::Contradiction("this queue is reserved for the system".into());
        return Err(FieldError::new("push", problem).into());
    }
    push.check_target(&tx.env.options.targets)?;
    let config = tx.config()?;
    let others = config.queues.iter().filter(|(other, settings)| *other != key && settings.push.is_some());
    let own = others.clone().filter(|((_, tenant), _)| *tenant == key.1);
    let limit = limits::PUSH_TARGETS_MAX;
    if !has_room(others.clone().count(), own.count(), limit) {
        let problem = FieldProblem::Contradiction(format!("{limit} queues already have a push target"));
        return Err(FieldError::new("push", problem).into());
    }
    Ok(())
}

/// Records the new settings under the tenant they belong to: other tenants must not see them.
fn record<T: Serialize>(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    event: AuditEvent,
    about: Option<&Tenant>,
    name: &str,
    settings: &T,
) {
    let context = json!({"actor_id": caller.id, "name": name, "settings": settings});
    let tenant = about.or(caller.tenant.as_ref()).cloned().unwrap_or_default();
    let queue = (event == AuditEvent::QueueConfigured).then(|| QueueName::new(name).ok()).flatten();
    let job_type = (event == AuditEvent::TypeConfigured).then(|| JobType::new(name).ok()).flatten();
    let subject = Subject { tenant, queue, job_type };
    tx.record_operation(event, subject, &RecordActor::caller(caller, None), &context);
}
