//! Schedules visible to a caller: those of other tenants do not exist.

use std::sync::Arc;

use super::payload::seen_schedule;
use crate::error::StoreError;
use crate::job::Tenant;
use crate::store::caller::Caller;
use crate::store::documents::config::{Config, parse};
use crate::store::documents::schedules::{DeletedSchedule, Schedule};
use crate::store::documents::tenant_object::ScheduleRef;
use crate::store::engine::DocumentKind;
use crate::store::tx::read_tx::ReadTx;

/// The schedule with this name, if the caller can see it.
pub(crate) fn get(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    which: &ScheduleRef,
) -> Result<Option<Arc<Schedule>>, StoreError> {
    Ok(find(&*tx.config()?, caller, which).map(|schedule| seen_schedule(caller, schedule)))
}

/// All schedules this caller can see.
pub(crate) fn all(tx: &mut ReadTx<'_>, caller: &Caller) -> Result<Vec<Arc<Schedule>>, StoreError> {
    let config = tx.config()?;
    let own = config.schedules.values().filter(|schedule| caller.can_see(&schedule.tenant));
    Ok(own.map(|schedule| seen_schedule(caller, schedule)).collect())
}

/// The deleted schedules that this caller can see and that can be restored, latest first.
pub(crate) fn deleted(tx: &mut ReadTx<'_>, caller: &Caller) -> Result<Vec<DeletedSchedule>, StoreError> {
    let mut found = Vec::new();
    for document in tx.db.documents(DocumentKind::DeletedSchedule)?.into_iter().rev() {
        let deleted: DeletedSchedule = parse(&document.body)?;
        if caller.can_see(&deleted.schedule.tenant) && deleted.is_restorable(tx.now) {
            let schedule = seen_schedule(caller, &deleted.schedule);
            found.push(DeletedSchedule { schedule, ..deleted });
        }
    }
    Ok(found)
}

/// The schedule with this name.
pub(crate) fn find<'a>(
    config: &'a Config,
    caller: &Caller,
    which: &ScheduleRef,
) -> Option<&'a Arc<Schedule>> {
    let tenant = which.tenant.clone().or_else(|| caller.tenant.clone());
    let of = |tenant: Tenant| config.schedules.get(&(tenant, which.name.clone()));
    if let Some(tenant) = tenant {
        return of(tenant).filter(|schedule| caller.can_see(&schedule.tenant));
    }
    let named = config.schedules.values().filter(|schedule| schedule.name == which.name);
    of(pick(&named.map(|schedule| &**schedule), caller, which)?.tenant.clone())
}

/// The schedule that is meant, of several with this name. For an admin that names no tenant: that of the default tenant,
/// or the only one.
pub(crate) fn pick<'a>(
    named: &(impl Iterator<Item = &'a Schedule> + Clone),
    caller: &Caller,
    which: &ScheduleRef,
) -> Option<&'a Schedule> {
    let of = |tenant: &Tenant| named.clone().find(|schedule| schedule.tenant == *tenant);
    if let Some(tenant) = which.tenant.as_ref().or(caller.tenant.as_ref()) {
        return of(tenant).filter(|schedule| caller.can_see(&schedule.tenant));
    }
    of(&Tenant::default()).or_else(|| {
        let mut others = named.clone();
        others.next().filter(|_| others.next().is_none())
    })
}
