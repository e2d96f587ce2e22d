//! How deep a queue or a tenant may become (M113).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Batch;
use super::keys::Duplicate;
use crate::error::SubmitError;
use crate::job::{Lane, State};
use crate::limits;
use crate::store::config::Config;
use crate::store::unit::Unit;

impl Batch<'_> {
    /// Refuses what would make a queue or tenant deeper than allowed (M113).
    pub(super) fn check_backlog(
        &self,
        unit: &mut Unit<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let config = unit.config()?;
        let mut new: BTreeMap<Arc<Lane>, u64> = BTreeMap::new();
        if config.queues.is_empty() && config.tenants.is_empty() {
            return Ok(());
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            if !duplicates.contains_key(&index) {
                *new.entry(lane.clone()).or_default() += 1;
            }
        }
        let added = |fits: &dyn Fn(&Lane) -> bool| -> u64 {
            new.iter().filter(|(lane, _)| fits(lane)).map(|(_, count)| count).sum()
        };
        for lane in new.keys() {
            for (scope, limit, fits) in depth_limits(&config, lane) {
                let open = State::ALL.into_iter().filter(|state| !state.is_final());
                let counts = unit.db()?.counts()?;
                let stored: u64 = open.map(|state| counts.sum(state, &*fits)).sum();
                let depth = stored + added(&*fits);
                if depth > limit {
                    let retry_after = limits::BACKSTOP_EVERY;
                    return Err(SubmitError::TooDeep { scope, depth: stored, limit, retry_after });
                }
            }
        }
        Ok(())
    }
}

type Fits = Box<dyn Fn(&Lane) -> bool>;

fn depth_limits(config: &Config, lane: &Lane) -> Vec<(String, u64, Fits)> {
    let mut found: Vec<(String, u64, Fits)> = Vec::new();
    for ((queue, tenant), settings) in &config.queues {
        let counts_here = *queue == lane.queue && tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant);
        if let Some(limit) = settings.max_depth.filter(|_| counts_here) {
            let (queue, tenant) = (queue.clone(), tenant.clone());
            let fits: Fits = Box::new(move |lane| {
                lane.queue == queue && tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant)
            });
            found.push((format!("queue {}", lane.queue), limit, fits));
        }
    }
    if let Some(limit) = config.tenants.get(&lane.tenant).and_then(|settings| settings.max_depth) {
        let tenant = lane.tenant.clone();
        found.push((format!("tenant {tenant}"), limit, Box::new(move |lane: &Lane| lane.tenant == tenant)));
    }
    found
}
