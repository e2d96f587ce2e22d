//! Types as people look at them: how many jobs, how fast, how long, paused or not, and with which settings. Counts come from
//! the counters that every commit keeps; no question here walks over jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::stats::{ByState, minutes_by_lane};
use crate::error::StoreError;
use crate::job::{JobState, JobType};
use crate::store::caller::Caller;
use crate::store::documents::config::{PauseRecord, Scope, TypeSettings};
use crate::store::documents::minute_stats::Minute;
use crate::store::tx::read_tx::ReadTx;

/// All about one type, as far as a caller may see.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeInfo {
    /// Its name.
    pub name: JobType,
    /// How many jobs are in which state, all states named.
    pub depth: ByState,
    /// Minute by minute for the last hour, by the minute's number since 1970.
    pub minutes: BTreeMap<i64, Minute>,
    /// Its pause: everybody's, or the caller's tenant's own.
    pub paused: Option<PauseRecord>,
    /// Its settings.
    pub settings: TypeSettings,
}

impl TypeInfo {
    /// A type that nobody has used yet.
    pub fn unused(name: JobType) -> TypeInfo {
        TypeInfo {
            name,
            depth: no_jobs(),
            minutes: BTreeMap::new(),
            paused: None,
            settings: TypeSettings::default(),
        }
    }
}

/// All states named, with no jobs in any.
fn no_jobs() -> ByState {
    JobState::ALL.into_iter().map(|state| (state, 0)).collect()
}

/// All about every type that has jobs, settings or a pause, by name.
pub(crate) fn job_types(view: &mut ReadTx<'_>, caller: &Caller) -> Result<Vec<TypeInfo>, StoreError> {
    let config = view.config()?.seen_by(caller);
    let mut depths: BTreeMap<JobType, ByState> = BTreeMap::new();
    for (lane, counts) in &view.db.counts()?.lanes {
        if caller.can_see(&lane.tenant) {
            let depth = depths.entry(lane.job_type.clone()).or_default();
            for state in JobState::ALL {
                *depth.entry(state).or_default() += counts[state as usize];
            }
        }
    }
    let mut names: BTreeSet<JobType> = depths.keys().chain(config.types.keys()).cloned().collect();
    names.extend(config.holds.keys().filter_map(|scope| match scope {
        Scope::Type { job_type, .. } => Some(job_type.clone()),
        Scope::Gate | Scope::Tenant(_) | Scope::Queue { .. } | Scope::Worker(_) => None,
    }));
    let mut minutes: BTreeMap<JobType, BTreeMap<i64, Minute>> = BTreeMap::new();
    for one in minutes_by_lane(view, |lane| caller.can_see(&lane.tenant))? {
        let minutes = minutes.entry(one.lane.job_type.clone()).or_default();
        minutes.entry(one.minute).or_default().merge(&one.counts);
    }
    let look = |name: JobType| {
        // Everybody's pause first: lifting the own one would not help.
        let scopes =
            [None, caller.tenant.clone()].map(|tenant| Scope::Type { job_type: name.clone(), tenant });
        let mut holds = scopes.into_iter().filter_map(|scope| config.holds.get(&scope));
        TypeInfo {
            depth: depths.remove(&name).unwrap_or_else(no_jobs),
            minutes: minutes.remove(&name).unwrap_or_default(),
            paused: holds.find(|hold| hold.is_active(view.now)).cloned(),
            settings: config.types.get(&name).cloned().unwrap_or_default(),
            name,
        }
    };
    Ok(names.into_iter().map(look).collect())
}
