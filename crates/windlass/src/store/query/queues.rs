//! Queues as people look at them: how deep, how old, how fast, paused or not, and with which settings. Counts come from the
//! counters that every commit keeps; no question here walks over jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::payload::seen_settings;
use super::stats::{ByState, minutes_by_lane, oldest_ready};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{QueueName, State};
use crate::store::caller::Caller;
use crate::store::config::{Config, Hold, QueueSettings, Resumption, Scope};
use crate::store::engine::Part;
use crate::store::rates::Minute;
use crate::store::view::View;

/// All about one queue, as far as a caller may see.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueLook {
    /// Its name.
    pub name: QueueName,
    /// How many jobs are in which state, all states named.
    pub depth: ByState,
    /// Since when its longest waiting job could have been claimed.
    pub oldest: Option<Timestamp>,
    /// Minute by minute for the last hour, by the minute's number since 1970.
    pub minutes: BTreeMap<i64, Minute>,
    /// Its pause: everybody's, or the caller's tenant's own.
    pub paused: Option<Hold>,
    /// The end of its last pause: everybody's or the caller's tenant's own, whichever was later.
    pub resumed: Option<Resumption>,
    /// The settings that count for the caller: its own tenant's, then everybody's.
    pub settings: QueueSettings,
}

/// All about one queue.
pub(crate) fn queue(
    view: &mut View<'_>,
    caller: &Caller,
    queue: &QueueName,
) -> Result<QueueLook, StoreError> {
    let minutes = minutes_by_lane(view, |lane| lane.queue == *queue && caller.sees(&lane.tenant))?;
    let mut own = BTreeMap::new();
    for one in minutes {
        own.entry(one.minute).or_insert_with(Minute::default).merge(&one.counts);
    }
    look(view, caller, queue, own)
}

/// The same about every queue that has jobs, settings or a pause, or had work within the hour.
pub(crate) fn queues(view: &mut View<'_>, caller: &Caller) -> Result<Vec<QueueLook>, StoreError> {
    let config = view.config()?.seen_by(caller);
    let counts = view.db.counts()?;
    let with_jobs = counts.lanes.keys().filter(|lane| caller.sees(&lane.tenant));
    let mut names: BTreeSet<QueueName> = with_jobs.map(|lane| lane.queue.clone()).collect();
    names.extend(config.queues.keys().map(|(queue, _)| queue.clone()));
    names.extend(config.holds.keys().filter_map(|scope| match scope {
        Scope::Queue { queue, .. } => Some(queue.clone()),
        Scope::Gate | Scope::Tenant(_) | Scope::Type { .. } | Scope::Worker(_) => None,
    }));
    let mut by_queue: BTreeMap<QueueName, BTreeMap<i64, Minute>> = BTreeMap::new();
    for one in minutes_by_lane(view, |lane| caller.sees(&lane.tenant))? {
        let minutes = by_queue.entry(one.lane.queue.clone()).or_default();
        minutes.entry(one.minute).or_default().merge(&one.counts);
    }
    // Also where jobs are gone as soon as they are done.
    names.extend(by_queue.keys().cloned());
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let minutes = by_queue.remove(&name).unwrap_or_default();
        found.push(look(view, caller, &name, minutes)?);
    }
    Ok(found)
}

fn look(
    view: &mut View<'_>,
    caller: &Caller,
    queue: &QueueName,
    minutes: BTreeMap<i64, Minute>,
) -> Result<QueueLook, StoreError> {
    let config = view.config()?;
    let states = view.db.counts()?.states(&Part::Queue(queue.clone(), caller.tenant.clone()));
    Ok(QueueLook {
        name: queue.clone(),
        depth: State::ALL.into_iter().map(|state| (state, states[state as usize])).collect(),
        oldest: oldest_ready(view, caller, queue)?,
        minutes,
        paused: pause_of(&config, caller, queue, view.now),
        resumed: resumption_of(&config, caller, queue),
        settings: seen_settings(caller, config.queue_in_force(queue, caller.tenant.as_ref())),
    })
}

fn resumption_of(config: &Config, caller: &Caller, queue: &QueueName) -> Option<Resumption> {
    let tenants = [None, caller.tenant.clone()];
    let scopes = tenants.map(|tenant| Scope::Queue { queue: queue.clone(), tenant });
    let ends = scopes.iter().filter_map(|scope| config.resumed.get(scope));
    ends.max_by_key(|end| end.at).cloned()
}

/// The pause that holds a queue for this caller; everybody's before its own, since lifting the own one would not help.
fn pause_of(config: &Config, caller: &Caller, queue: &QueueName, now: Timestamp) -> Option<Hold> {
    let tenants = [None, caller.tenant.clone()];
    let scopes = tenants.map(|tenant| Scope::Queue { queue: queue.clone(), tenant });
    let holds = scopes.into_iter().filter_map(|scope| config.holds.get(&scope));
    holds.into_iter().find(|hold| hold.is_active(now)).cloned()
}
