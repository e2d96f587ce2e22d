//! Settings of queues, types and tenants. They count from the next submission or claim on; policies of jobs that were
//! submitted before stay as they are.

use serde::Serialize;
use serde_json::json;

use super::record::Cause;
use crate::audit::AuditEvent;
use crate::error::{ActError, Invalid, StoreError};
use crate::job::{JobType, QueueName, RetryPolicy, State, Tenant, Timeouts, check_text};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::config::{PartialTimeouts, QueueSettings, TenantSettings, TypeSettings, encode, queue_key};
use crate::store::engine::{DocumentKind, Place};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::unit::Unit;

/// Settings to be put in place of those in force.
#[derive(Debug, Clone, PartialEq)]
pub enum Settings {
    /// A queue's: for the caller's tenant, or for all by an admin (M90).
    Queue(QueueName, QueueSettings),
    /// A type's; admins only.
    Type(JobType, TypeSettings),
    /// A tenant's; admins only.
    Tenant(Tenant, TenantSettings),
}

/// Puts settings in force; says whether they differ from those before.
pub(crate) fn configure(unit: &mut Unit<'_>, caller: &Caller, settings: &Settings) -> Result<bool, ActError> {
    match settings {
        Settings::Queue(queue, settings) => configure_queue(unit, caller, queue, settings),
        Settings::Type(job_type, settings) => {
            caller.must(Permission::Administer)?;
            check_policy(settings.retry.as_ref(), settings.timeouts)?;
            check_text("success_event", settings.success_event.as_deref(), limits::NAME_CHARS_MAX)?;
            if unit.config()?.types.get(job_type) == Some(settings) {
                return Ok(false);
            }
            let body = encode(settings);
            unit.put_document(DocumentKind::Type, job_type.as_str(), Some(&body), |config| {
                config.types.insert(job_type.clone(), settings.clone());
            })?;
            record(unit, caller, AuditEvent::TypeConfigured, None, job_type.as_str(), settings);
            unit.wake();
            Ok(true)
        }
        Settings::Tenant(tenant, settings) => {
            caller.must(Permission::Administer)?;
            if unit.config()?.tenants.get(tenant) == Some(settings) {
                return Ok(false);
            }
            let body = encode(settings);
            unit.put_document(DocumentKind::Tenant, tenant.as_str(), Some(&body), |config| {
                config.tenants.insert(tenant.clone(), settings.clone());
            })?;
            record(unit, caller, AuditEvent::TenantConfigured, Some(tenant), tenant.as_str(), settings);
            unit.wake();
            Ok(true)
        }
    }
}

fn configure_queue(
    unit: &mut Unit<'_>,
    caller: &Caller,
    queue: &QueueName,
    settings: &QueueSettings,
) -> Result<bool, ActError> {
    caller.must(Permission::Configure)?;
    check_policy(settings.retry.as_ref(), settings.timeouts)?;
    let key = (queue.clone(), caller.tenant.clone());
    let before = unit.config()?.queues.get(&key).cloned();
    if before.as_ref() == Some(settings) {
        return Ok(false);
    }
    let per_key = before.and_then(|before| before.max_running_per_key);
    let text = queue_key(queue, caller.tenant.as_ref());
    unit.put_document(DocumentKind::Queue, &text, Some(&encode(settings)), |config| {
        config.queues.insert(key, settings.clone());
    })?;
    record(unit, caller, AuditEvent::QueueConfigured, None, queue.as_str(), settings);
    if settings.max_running_per_key != per_key {
        unblock_queue(unit, queue)?;
    }
    unit.wake();
    Ok(true)
}

fn check_policy(retry: Option<&RetryPolicy>, timeouts: PartialTimeouts) -> Result<(), Invalid> {
    if let Some(retry) = retry {
        retry.check()?;
    }
    timeouts.over(Timeouts::default()).check()
}

/// Records what was set, for the tenant it is about: another's settings are nobody's business (M90).
fn record<T: Serialize>(
    unit: &mut Unit<'_>,
    caller: &Caller,
    event: AuditEvent,
    about: Option<&Tenant>,
    name: &str,
    settings: &T,
) {
    let context = json!({"actor_id": caller.id, "name": name, "settings": settings});
    let tenant = about.or(caller.tenant.as_ref()).cloned().unwrap_or_default();
    unit.record_operation(event, tenant, &Cause::caller(caller, None), &context);
}

/// More jobs with one concurrency key may be allowed now: those set aside get their chance at the next claim.
fn unblock_queue(unit: &mut Unit<'_>, queue: &QueueName) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let filter = Filter {
            queue: Some(queue.clone()),
            states: vec![State::Scheduled],
            is_blocked: Some(true),
            ..Filter::default()
        };
        let limit = limits::BULK_JOBS_PER_COMMIT;
        let page = unit.db()?.scan(&Scan { filter, order: Order::Oldest, after, limit })?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(Place::of(last));
        for job in page {
            let seq = unit.remember(job);
            unit.set_blocked(seq, false)?;
        }
    }
}
