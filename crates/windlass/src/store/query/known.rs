//! Whether a name has ever been used. Queues, types and tenants are created by their first job, so a mistyped name is
//! accepted; this detects it.

use std::collections::BTreeSet;

use crate::error::StoreError;
use crate::job::{JobType, Lane, QueueName, Tenant};
use crate::ordered::CollectOrdered;
use crate::similar::similar;
use crate::store::caller::Caller;
use crate::store::documents::config::{Config, PauseScope};
use crate::store::tx::read_tx::ReadTx;

/// A name that is created by use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectName {
    /// A queue.
    Queue(QueueName),
    /// A type.
    Type(JobType),
    /// A tenant.
    Tenant(Tenant),
}

/// Whether a name is known, and similar known names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownNames {
    /// Whether a job, setting, pause, schedule, worker or key visible to this caller uses it.
    pub is_known: bool,
    /// Similar known names, the closest first; empty if the name itself is known.
    pub similar: Vec<String>,
}

/// The default name of queue and tenant.
const DEFAULT: &str = "default";

/// Whether a name is known.
pub(crate) fn known(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    what: &ObjectName,
) -> Result<KnownNames, StoreError> {
    let config = tx.config()?.seen_by(caller);
    let keys = tx.config()?;
    let tenants_of_keys = keys.keys.values().filter_map(|key| key.tenant.clone());
    let tenants_of_keys: BTreeSet<Tenant> =
        tenants_of_keys.filter(|tenant| caller.can_see(tenant)).collect_ordered();
    let lanes = tx.db.counts()?.lanes.keys().filter(|lane| caller.can_see(&lane.tenant));
    let (name, names): (&str, BTreeSet<&str>) = match what {
        ObjectName::Queue(queue) => (queue.as_str(), queues(&config, lanes.map(|lane| &**lane))),
        ObjectName::Type(job_type) => (job_type.as_str(), types(&config, lanes.map(|lane| &**lane))),
        ObjectName::Tenant(tenant) => {
            let mut names = tenants(&config, lanes.map(|lane| &**lane));
            names.extend(tenants_of_keys.iter().map(Tenant::as_str));
            (tenant.as_str(), names)
        }
    };
    let is_known = names.contains(name);
    let similar = if is_known { Vec::new() } else { similar(name, names) };
    Ok(KnownNames { is_known, similar: similar.into_iter().map(str::to_owned).collect() })
}

fn queues<'a>(config: &'a Config, lanes: impl Iterator<Item = &'a Lane>) -> BTreeSet<&'a str> {
    let mut names: BTreeSet<&str> = lanes.map(|lane| lane.queue.as_str()).collect_ordered();
    names.extend(config.queues.keys().map(|(queue, _)| queue.as_str()));
    names.extend(config.workers.values().flat_map(|worker| &worker.queues).map(QueueName::as_str));
    names.extend(config.schedules.values().map(|schedule| schedule.job.queue.as_str()));
    names.extend(config.pauses.keys().chain(config.resumed.keys()).filter_map(|scope| match scope {
        PauseScope::Queue { queue, .. } => Some(queue.as_str()),
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Type { .. } | PauseScope::Worker(_) => None,
    }));
    // The queue of every job that names none.
    names.insert(DEFAULT);
    names
}

fn types<'a>(config: &'a Config, lanes: impl Iterator<Item = &'a Lane>) -> BTreeSet<&'a str> {
    let mut names: BTreeSet<&str> = lanes.map(|lane| lane.job_type.as_str()).collect_ordered();
    names.extend(config.types.keys().map(JobType::as_str));
    names.extend(config.workers.values().flat_map(|worker| &worker.types).map(JobType::as_str));
    names.extend(config.schedules.values().map(|schedule| schedule.job.job_type.as_str()));
    names.extend(config.pauses.keys().filter_map(|scope| match scope {
        PauseScope::Type { job_type, .. } => Some(job_type.as_str()),
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Queue { .. } | PauseScope::Worker(_) => None,
    }));
    names
}

fn tenants<'a>(config: &'a Config, lanes: impl Iterator<Item = &'a Lane>) -> BTreeSet<&'a str> {
    let mut names: BTreeSet<&str> = lanes.map(|lane| lane.tenant.as_str()).collect_ordered();
    names.extend(config.tenants.keys().map(Tenant::as_str));
    names.extend(config.workers.values().filter_map(|worker| worker.tenant.as_ref()).map(Tenant::as_str));
    names.extend(config.schedules.keys().map(|(tenant, _)| tenant.as_str()));
    names.extend(config.pauses.keys().filter_map(|scope| match scope {
        PauseScope::Tenant(tenant) => Some(tenant.as_str()),
        PauseScope::Type { tenant, .. } | PauseScope::Queue { tenant, .. } => {
            tenant.as_ref().map(Tenant::as_str)
        }
        PauseScope::Gate | PauseScope::Worker(_) => None,
    }));
    // The tenant of every job whose submitter names none.
    names.insert(DEFAULT);
    names
}
