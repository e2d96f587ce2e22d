//! Queues with depth, age, rates, pause and settings. Counts come from counters that every commit updates; no query
//! here scans jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::payload::seen_settings;
use super::stats::{ByState, minutes_by_lane, oldest_by_queue};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobState, QueueName, Tenant};
use crate::ordered::CollectOrdered;
use crate::settings::QueueSettings;
use crate::store::caller::Caller;
use crate::store::documents::config::{Config, PauseRecord, PauseScope, Resumption};
use crate::store::documents::minute_stats::Minute;
use crate::store::engine::LimitScope;
use crate::store::tx::read_tx::ReadTx;

/// Information about one queue, as far as the caller can see it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its name.
    pub name: QueueName,
    /// Number of jobs per state; includes all states.
    pub depth: ByState,
    /// When its longest waiting job became claimable.
    pub oldest: Option<Timestamp>,
    /// Statistics per minute for the last hour, by minutes since 1970.
    pub minutes: BTreeMap<i64, Minute>,
    /// Its pause: that of all tenants, or of the caller's tenant.
    pub paused: Option<PauseRecord>,
    /// The end of its last pause: that of all tenants or of the caller's tenant, whichever was later.
    pub resumed: Option<Resumption>,
    /// The effective settings for the caller: those of its tenant, then those of all tenants.
    pub settings: QueueSettings,
}

/// Information about one queue.
pub(crate) fn queue(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    queue: &QueueName,
) -> Result<QueueInfo, StoreError> {
    let mut found = infos(tx, caller, BTreeSet::from([queue.clone()]))?;
    Ok(found.pop().expect("one name has one entry"))
}

/// Information about queues that have jobs, settings, a pause, or work within the last hour: the first `limit` by name
/// after `after`.
pub(crate) fn queues(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    after: Option<&QueueName>,
    limit: usize,
) -> Result<Vec<QueueInfo>, StoreError> {
    let config = tx.config()?;
    let is_seen = |tenant: &Option<Tenant>| tenant.as_ref().is_none_or(|tenant| caller.can_see(tenant));
    let counts = tx.db.counts()?;
    let with_jobs = counts.lanes.keys().filter(|lane| caller.can_see(&lane.tenant)).map(|lane| &lane.queue);
    let with_settings = config.queues.keys().filter(|(_, tenant)| is_seen(tenant)).map(|(queue, _)| queue);
    let with_pause = config.pauses.keys().filter_map(|scope| match scope {
        PauseScope::Queue { queue, tenant } => is_seen(tenant).then_some(queue),
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Type { .. } | PauseScope::Worker(_) => None,
    });
    let all = with_jobs.chain(with_settings).chain(with_pause);
    let is_later = |queue: &&QueueName| after.is_none_or(|after| *queue > after);
    let mut names: BTreeSet<QueueName> = all.filter(is_later).cloned().collect_ordered();
    // Includes queues whose jobs are removed as soon as they finish.
    let recent = minutes_by_lane(tx, |lane| caller.can_see(&lane.tenant) && is_later(&&lane.queue))?;
    names.extend(recent.iter().map(|one| one.lane.queue.clone()));
    infos(tx, caller, names.into_iter().take(limit).collect())
}

/// Information about these queues, by name. Lanes, minutes and jobs are iterated once for all of them.
fn infos(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    names: BTreeSet<QueueName>,
) -> Result<Vec<QueueInfo>, StoreError> {
    let mut minutes: BTreeMap<QueueName, BTreeMap<i64, Minute>> = BTreeMap::new();
    for one in minutes_by_lane(tx, |lane| names.contains(&lane.queue) && caller.can_see(&lane.tenant))? {
        let own = minutes.entry(one.lane.queue.clone()).or_default();
        own.entry(one.minute).or_default().merge(&one.counts);
    }
    let mut oldest = oldest_by_queue(tx, caller, |lane| names.contains(&lane.queue))?;
    let config = tx.config()?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let states = tx.db.counts()?.states(&LimitScope::Queue(name.clone(), caller.tenant.clone()));
        found.push(QueueInfo {
            depth: JobState::ALL.into_iter().map(|state| (state, states[state as usize])).collect_ordered(),
            oldest: oldest.remove(&name),
            minutes: minutes.remove(&name).unwrap_or_default(),
            paused: pause_of(&config, caller, &name, tx.now),
            resumed: resumption_of(&config, caller, &name),
            settings: seen_settings(caller, config.queue_in_force(&name, caller.tenant.as_ref())),
            name,
        });
    }
    Ok(found)
}

fn resumption_of(config: &Config, caller: &Caller, queue: &QueueName) -> Option<Resumption> {
    let tenants = [None, caller.tenant.clone()];
    let scopes = tenants.map(|tenant| PauseScope::Queue { queue: queue.clone(), tenant });
    let ends = scopes.iter().filter_map(|scope| config.resumed.get(scope));
    ends.max_by_key(|end| end.at).cloned()
}

/// The pause that applies to a queue for this caller. That of all tenants comes first, because resuming only the
/// caller's own would not help.
fn pause_of(config: &Config, caller: &Caller, queue: &QueueName, now: Timestamp) -> Option<PauseRecord> {
    let tenants = [None, caller.tenant.clone()];
    let scopes = tenants.map(|tenant| PauseScope::Queue { queue: queue.clone(), tenant });
    let holds = scopes.into_iter().filter_map(|scope| config.pauses.get(&scope));
    holds.into_iter().find(|hold| hold.is_active(now)).cloned()
}
