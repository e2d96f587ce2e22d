//! What one tenant may take of what all tenants share: names in settings and pauses, schedules, push targets, series of
//! metrics. Every one of them is in the memory of every process.

use std::collections::BTreeSet;

use crate::error::{FieldError, FieldProblem};
use crate::job::{JobType, QueueName};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::caller::Caller;
use crate::store::documents::config::{Config, PauseScope};

/// Whether a tenant that has `own` of `all` shared items may add one. The limit is `most`; a tenant with fewer than
/// [`SHARE_GUARANTEED`](limits::SHARE_GUARANTEED) may add one up to twice that, so that the others cannot use up its
/// share.
pub(crate) fn has_room(all: usize, own: usize, most: usize) -> bool {
    all < most || (own < limits::SHARE_GUARANTEED && all < most.saturating_mul(2))
}

impl Config {
    /// Refuses settings or a pause of one more queue than the caller's tenant may name. Callers of all tenants are
    /// admins, who are not limited.
    pub(crate) fn check_queue_named(&self, caller: &Caller, queue: &QueueName) -> Result<(), FieldError> {
        let settings = self.queues.keys().map(|(queue, tenant)| (queue, tenant));
        let scopes = self.pauses.keys().chain(self.resumed.keys());
        let paused = scopes.filter_map(|scope| match scope {
            PauseScope::Queue { queue, tenant } => Some((queue, tenant)),
            PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Type { .. } | PauseScope::Worker(_) => {
                None
            }
        });
        let named = settings.chain(paused).filter(|(_, tenant)| **tenant == caller.tenant);
        let named: BTreeSet<&QueueName> = named.map(|(queue, _)| queue).collect_ordered();
        self.check_named(caller, ("queue", "max_queues"), queue, &named)
    }

    /// Refuses a pause of one more type than the caller's tenant may name.
    pub(crate) fn check_type_named(&self, caller: &Caller, job_type: &JobType) -> Result<(), FieldError> {
        let named = self.pauses.keys().filter_map(|scope| match scope {
            PauseScope::Type { job_type, tenant } if *tenant == caller.tenant => Some(job_type),
            _ => None,
        });
        self.check_named(caller, ("type", "max_types"), job_type, &named.collect_ordered())
    }

    fn check_named<N: Ord + ToString>(
        &self,
        caller: &Caller,
        (field, name): (&str, &'static str),
        wanted: &N,
        named: &BTreeSet<&N>,
    ) -> Result<(), FieldError> {
        let Some(tenant) = &caller.tenant else { return Ok(()) };
        let most = self.names_max(tenant);
        let limit = if field == "queue" { most.queues } else { most.types };
        if named.contains(wanted) || (named.len() as u64) < limit {
            return Ok(());
        }
        let (value, tenant) = (wanted.to_string(), tenant.to_string());
        Err(FieldError::new(field, FieldProblem::LimitReached { name, value, limit, tenant }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_few_gets_more_when_others_have_taken_all() {
        let few = limits::SHARE_GUARANTEED;
        assert!(has_room(99, 99, 100), "alone it may have all");
        assert!(!has_room(100, 100, 100));
        assert!(has_room(100, 0, 100) && has_room(199, few - 1, 100));
        assert!(!has_room(100, few, 100));
        assert!(!has_room(200, 0, 100), "in all there is a bound");
    }
}
