//! Types with job counts, rates, durations, pause and settings. Counts come from counters that every commit updates; no
//! query here scans jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::stats::{ByState, minutes_by_lane};
use crate::error::StoreError;
use crate::job::{JobState, JobType};
use crate::ordered::CollectOrdered;
use crate::settings::TypeSettings;
use crate::store::caller::Caller;
use crate::store::documents::config::{PauseRecord, PauseScope};
use crate::store::documents::minute_stats::Minute;
use crate::store::tx::read_tx::ReadTx;

/// Information about one type, as far as the caller can see it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TypeInfo {
    /// Its name.
    pub name: JobType,
    /// Number of jobs per state; includes all states.
    pub depth: ByState,
    /// Statistics per minute for the last hour, by minutes since 1970.
    pub minutes: BTreeMap<i64, Minute>,
    /// Its pause: that of all tenants, or of the caller's tenant.
    pub paused: Option<PauseRecord>,
    /// Its settings.
    pub settings: TypeSettings,
}

impl TypeInfo {
    /// A type without jobs or settings.
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

/// All states with zero jobs.
fn no_jobs() -> ByState {
    JobState::ALL.into_iter().map(|state| (state, 0)).collect_ordered()
}

/// Information about every type that has jobs, settings or a pause, by name.
pub(crate) fn job_types(tx: &mut ReadTx<'_>, caller: &Caller) -> Result<Vec<TypeInfo>, StoreError> {
    let config = tx.config()?.seen_by(caller);
    let mut depths: BTreeMap<JobType, ByState> = BTreeMap::new();
    for (lane, counts) in &tx.db.counts()?.lanes {
        if caller.can_see(&lane.tenant) {
            let depth = depths.entry(lane.job_type.clone()).or_default();
            for state in JobState::ALL {
                *depth.entry(state).or_default() += counts[state as usize];
            }
        }
    }
    let mut names: BTreeSet<JobType> = depths.keys().chain(config.types.keys()).cloned().collect_ordered();
    names.extend(config.pauses.keys().filter_map(|scope| match scope {
        PauseScope::Type { job_type, .. } => Some(job_type.clone()),
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Queue { .. } | PauseScope::Worker(_) => None,
    }));
    let mut minutes: BTreeMap<JobType, BTreeMap<i64, Minute>> = BTreeMap::new();
    for one in minutes_by_lane(tx, |lane| caller.can_see(&lane.tenant))? {
        let minutes = minutes.entry(one.lane.job_type.clone()).or_default();
        minutes.entry(one.minute).or_default().merge(&one.counts);
    }
    let info = |name: JobType| {
        // The pause of all tenants comes first: resuming only the caller's own would not help.
        let scopes =
            [None, caller.tenant.clone()].map(|tenant| PauseScope::Type { job_type: name.clone(), tenant });
        let mut holds = scopes.into_iter().filter_map(|scope| config.pauses.get(&scope));
        TypeInfo {
            depth: depths.remove(&name).unwrap_or_else(no_jobs),
            minutes: minutes.remove(&name).unwrap_or_default(),
            paused: holds.find(|hold| hold.is_active(tx.now)).cloned(),
            settings: config.types.get(&name).cloned().unwrap_or_default(),
            name,
        }
    };
    Ok(names.into_iter().map(info).collect())
}
