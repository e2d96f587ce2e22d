//! How deep a queue or a tenant may become (M113).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Batch;
use super::keys::Duplicate;
use crate::error::{StoreError, SubmitError};
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
        match too_deep(unit, new)? {
            Some(TooDeep { scope, depth, limit, retry_after }) => {
                Err(SubmitError::TooDeep { scope, depth, limit, retry_after })
            }
            None => Ok(()),
        }
    }
}

/// A queue or tenant that would become too deep.
pub(crate) struct TooDeep {
    pub(crate) scope: String,
    pub(crate) depth: u64,
    pub(crate) limit: u64,
    pub(crate) retry_after: Duration,
}

/// Whether so many more jobs in these lanes would make a queue or tenant deeper than allowed.
pub(crate) fn too_deep(
    unit: &mut Unit<'_>,
    new: BTreeMap<Arc<Lane>, u64>,
) -> Result<Option<TooDeep>, StoreError> {
    let config = unit.config()?;
    let mut added: BTreeMap<(Part, u64), u64> = BTreeMap::new();
    for (lane, count) in new {
        for part_and_limit in config.depth_limits(&lane) {
            *added.entry(part_and_limit).or_default() += count;
        }
    }
    for ((part, limit), added) in added {
        let depth = unit.db()?.counts()?.depth(&part);
        if depth + added > limit {
            let (scope, retry_after) = (part.to_string(), limits::TOO_DEEP_RETRY_AFTER);
            return Ok(Some(TooDeep { scope, depth, limit, retry_after }));
        }
    }
    Ok(None)
}
