//! Queues, job types and tenants.

use std::collections::BTreeMap;

use windlass_api::known::KnownView;
use windlass_api::queue::{self, TenantView, Type};
use windlass_api::text::Text;

use super::pause::pause_record;
use super::stats::{counts, queue_rates};
use crate::clock::Timestamp;
use crate::job::{JobType, Tenant};
use crate::store::documents::config::{Config, PauseScope, Resumption};
use crate::store::documents::minute_stats::minute_of;
use crate::store::query::queues::QueueInfo;
use crate::store::query::stats::Stats;
use crate::store::query::types::TypeInfo;

/// A queue at this time.
pub fn queue(info: &QueueInfo, known: KnownView, now: Timestamp) -> queue::Queue {
    queue::Queue {
        name: Text(info.name.clone()),
        known,
        depth: counts(&info.depth),
        oldest_age: info.oldest.map(|since| now.since(since).into()),
        rates: queue_rates(&info.minutes, minute_of(now)),
        paused: info.paused.as_ref().map(Into::into),
        resumed: info.resumed.as_ref().map(Into::into),
        settings: (&info.settings).into(),
    }
}

/// A server's queue; only the rates of the last whole minute are available.
pub fn queue_info(shown: queue::Queue, now: Timestamp) -> QueueInfo {
    let scope = PauseScope::Queue { queue: shown.name.0.clone(), tenant: None };
    let resumed = shown.resumed.map(|end| Resumption {
        scope: scope.clone(),
        by: end.by,
        at: end.at.0,
        reason: end.reason,
    });
    QueueInfo {
        name: shown.name.0,
        depth: shown.depth.iter().collect(),
        oldest: shown.oldest_age.map(|age| now.minus(age.0)),
        minutes: BTreeMap::from([(minute_of(now) - 1, (&shown.rates.last_minute).into())]),
        paused: shown.paused.map(|pause| pause_record(pause, scope)),
        resumed,
        settings: shown.settings.into(),
    }
}

/// A job type at this time.
pub fn job_type(info: &TypeInfo, known: KnownView, now: Timestamp) -> Type {
    Type {
        r#type: Text(info.name.clone()),
        known,
        depth: counts(&info.depth),
        rates: queue_rates(&info.minutes, minute_of(now)),
        paused: info.paused.as_ref().map(Into::into),
        settings: (&info.settings).into(),
    }
}

/// A tenant at this time.
pub fn tenant(
    tenant: &Tenant,
    known: KnownView,
    stats: &Stats,
    config: &Config,
    now: Timestamp,
) -> TenantView {
    let hold = config.pauses.get(&PauseScope::Tenant(tenant.clone())).filter(|hold| hold.is_active(now));
    // Costs are sorted by tenant, and there may be many.
    let first = JobType::new("A").expect("it is a name, and sorts before all others");
    let costs = stats.costs.range((tenant.clone(), first)..);
    let costs = costs.take_while(|((whose, _), _)| whose == tenant);
    TenantView {
        tenant: Text(tenant.clone()),
        known,
        depth: counts(&stats.tenants.get(tenant).cloned().unwrap_or_default()),
        cost_cents: costs.map(|(_, cents)| cents).sum(),
        paused: hold.map(Into::into),
        settings: (&config.tenants.get(tenant).cloned().unwrap_or_default()).into(),
    }
}
