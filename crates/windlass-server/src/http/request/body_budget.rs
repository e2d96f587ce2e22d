//! Memory budget for request and response bodies. Beyond a small size, all bodies share one bounded amount. A body that
//! does not fit is rejected at once and does not wait, because slow clients hold their share for long.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass::internal::ReadSource;
use windlass::job::Tenant;

use crate::http::reply::error::ApiError;
use crate::limits;

/// The unit of the budget.
const KIB: usize = 1024;

/// The memory shared by all bodies.
#[derive(Clone, Default)]
pub(crate) struct BodyBudget(Arc<Mutex<MemoryInUse>>);

/// The memory in use: in total, per holder and per tenant.
#[derive(Default)]
struct MemoryInUse {
    all: usize,
    /// Per holder, if not zero.
    each: HashMap<String, usize>,
    /// Per tenant, if not zero.
    tenants: HashMap<Tenant, usize>,
}

/// Returns a holder's memory.
fn give_back<K: Hash + Eq>(held: &mut HashMap<K, usize>, holder: &K, kib: usize) {
    if let Some(own) = held.get_mut(holder) {
        *own = own.saturating_sub(kib);
        if *own == 0 {
            held.remove(holder);
        }
    }
}

impl BodyBudget {
    /// A reservation for the body and the response of one request, empty at first; without a holder if the caller is not
    /// known.
    pub(crate) fn reserve_for(&self, source: Option<&ReadSource>) -> BodyReservation {
        let holder = source.map(ReadSource::holder).unwrap_or_default().to_owned();
        let tenant = source.and_then(ReadSource::tenant).cloned();
        BodyReservation(Arc::new(Reservation { memory: self.clone(), holder, tenant, kib: Mutex::new(0) }))
    }

    fn held(&self) -> MutexGuard<'_, MemoryInUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of one request, returned when all clones are dropped.
#[derive(Clone)]
pub(crate) struct BodyReservation(Arc<Reservation>);

struct Reservation {
    memory: BodyBudget,
    holder: String,
    tenant: Option<Tenant>,
    kib: Mutex<usize>,
}

impl BodyReservation {
    /// Reserves up to this many bytes in total, or fails.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        self.take(bytes, false)
    }

    /// Reserves this many bytes in total even beyond the limit: for responses to completed writes, which must be sent.
    pub(crate) fn hold_anyway(&self, bytes: usize) {
        let _ = self.take(bytes, true);
    }

    fn take(&self, bytes: usize, is_forced: bool) -> Result<(), ApiError> {
        let wanted = bytes.saturating_sub(limits::BODY_BYTES_FREE).div_ceil(KIB);
        let mut own = self.0.kib.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = wanted.saturating_sub(*own);
        if missing == 0 {
            return Ok(());
        }
        let mut held = self.0.memory.held();
        let each = held.each.get(&self.0.holder).copied().unwrap_or_default();
        let of_tenant = self.0.tenant.as_ref().and_then(|tenant| held.tenants.get(tenant)).copied();
        let is_too_much = held.all + missing > limits::BODIES_BYTES_MAX / KIB
            || each + missing > limits::BODIES_BYTES_PER_KEY_MAX / KIB
            || of_tenant.unwrap_or_default() + missing > limits::BODIES_BYTES_PER_TENANT_MAX / KIB;
        if is_too_much && !is_forced {
            return Err(ApiError::crowded(limits::BODIES_RETRY_AFTER));
        }
        held.all += missing;
        held.each.insert(self.0.holder.clone(), each + missing);
        if let Some(tenant) = &self.0.tenant {
            *held.tenants.entry(tenant.clone()).or_default() += missing;
        }
        *own = wanted;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let own = *self.kib.get_mut().unwrap_or_else(PoisonError::into_inner);
        if own == 0 {
            return;
        }
        let mut held = self.memory.held();
        held.all -= own;
        give_back(&mut held.each, &self.holder, own);
        if let Some(tenant) = &self.tenant {
            give_back(&mut held.tenants, tenant, own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::store::caller::{Caller, Role};

    fn reserve_for(memory: &BodyBudget, name: &str, tenant: Option<&str>) -> BodyReservation {
        let tenant = tenant.map(|tenant| Tenant::new(tenant).unwrap());
        memory.reserve_for(Some(&ReadSource::from_caller(&Caller::new(name, Role::Viewer, tenant))))
    }

    #[test]
    fn the_keys_of_one_tenant_leave_the_others_their_share() {
        let memory = BodyBudget::default();
        let count = limits::BODIES_BYTES_PER_TENANT_MAX / limits::BODIES_BYTES_PER_KEY_MAX;
        let own: Vec<BodyReservation> =
            (0..=count).map(|number| reserve_for(&memory, &format!("key-{number}"), Some("a"))).collect();
        for room in &own[..count] {
            room.hold(limits::BODIES_BYTES_PER_KEY_MAX + limits::BODY_BYTES_FREE).unwrap();
        }
        assert!(own[count].hold(limits::BODY_BYTES_LARGE).is_err());
        // A response to a completed write is sent and counted in any case.
        own[count].hold_anyway(limits::BODY_BYTES_LARGE);
        reserve_for(&memory, "other", Some("b")).hold(limits::BODIES_BYTES_PER_KEY_MAX / 2).unwrap();
        drop(own);
        let held = memory.held();
        assert!(held.all == 0 && held.each.is_empty() && held.tenants.is_empty());
    }

    #[test]
    fn bodies_share_a_bounded_memory_and_give_it_back() {
        let memory = BodyBudget::default();
        let count = limits::BODIES_BYTES_MAX / limits::BODIES_BYTES_PER_KEY_MAX;
        let largest = limits::BODIES_BYTES_PER_KEY_MAX + limits::BODY_BYTES_FREE;
        let holders: Vec<BodyReservation> =
            (0..count).map(|number| reserve_for(&memory, &format!("holder-{number}"), None)).collect();
        for room in &holders {
            room.hold(largest / 2).unwrap();
            room.hold(largest).unwrap();
        }
        let (other, small) = (reserve_for(&memory, "other", None), reserve_for(&memory, "other", None));
        assert!(other.hold(limits::BODY_BYTES_LARGE).is_err());
        small.hold(limits::BODY_BYTES_FREE).unwrap();
        drop(holders);
        other.hold(limits::BODY_BYTES_LARGE).unwrap();
    }

    #[test]
    fn one_key_leaves_the_others_their_share() {
        let memory = BodyBudget::default();
        let (first, second) = (reserve_for(&memory, "ada", None), reserve_for(&memory, "ada", None));
        first.hold(limits::BODIES_BYTES_PER_KEY_MAX).unwrap();
        assert!(second.hold(limits::BODY_BYTES_FREE + (1 << 20)).is_err());
        reserve_for(&memory, "bob", None).hold(limits::BODIES_BYTES_PER_KEY_MAX).unwrap();
        drop(first);
        second.hold(limits::BODIES_BYTES_PER_KEY_MAX).unwrap();
        drop(second);
        assert!(memory.held().each.is_empty() && memory.held().all == 0);
    }
}
