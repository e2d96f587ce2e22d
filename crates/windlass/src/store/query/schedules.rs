//! Schedules visible to a caller: those of other tenants do not exist.

use std::sync::Arc;

use super::payload::seen_schedule;
use crate::error::StoreError;
use crate::job::Tenant;
use crate::store::caller::Caller;
use crate::store::documents::config::Config;
use crate::store::documents::schedules::{Schedule, ScheduleRef};
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

/// The schedule with this name. For an admin that names no tenant: that of the default tenant, or the only one of that
/// name.
pub(crate) fn find<'a>(
    config: &'a Config,
    caller: &Caller,
    which: &ScheduleRef,
) -> Option<&'a Arc<Schedule>> {
    let of = |tenant: Tenant| config.schedules.get(&(tenant, which.name.clone()));
    if let Some(tenant) = which.tenant.clone().or_else(|| caller.tenant.clone()) {
        return of(tenant).filter(|schedule| caller.can_see(&schedule.tenant));
    }
    of(Tenant::default()).or_else(|| {
        let mut others = config.schedules.values().filter(|schedule| schedule.name == which.name);
        others.next().filter(|_| others.next().is_none())
    })
}
