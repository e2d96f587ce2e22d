//! How deep a queue or a tenant may become (M113).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Batch;
use super::keys::Duplicate;
use crate::error::SubmitError;
use crate::job::Lane;
use crate::limits;
use crate::store::engine::Part;
use crate::store::unit::Unit;

impl Batch<'_> {
    /// Refuses what would make a queue or tenant deeper than allowed (M113).
    pub(super) fn check_backlog(
        &self,
        unit: &mut Unit<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let config = unit.config()?;
        if config.queues.is_empty() && config.tenants.is_empty() {
            return Ok(());
        }
        let mut new: BTreeMap<Arc<Lane>, u64> = BTreeMap::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            if !duplicates.contains_key(&index) {
                *new.entry(lane.clone()).or_default() += 1;
            }
        }
        let mut added: BTreeMap<(Part, u64), u64> = BTreeMap::new();
        for (lane, count) in new {
            for part_and_limit in config.depth_limits(&lane) {
                *added.entry(part_and_limit).or_default() += count;
            }
        }
        for ((part, limit), added) in added {
            let depth = unit.db()?.counts()?.depth(&part);
            if depth + added > limit {
                let (scope, retry_after) = (part.to_string(), limits::BACKSTOP_EVERY);
                return Err(SubmitError::TooDeep { scope, depth, limit, retry_after });
            }
        }
        Ok(())
    }
}
