//! Which lanes a claim compares when it cannot compare all that it does not know yet: those compared longest ago.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::job::Lane;
use crate::limits;

/// When the lower ranks of each lane were last compared, counted in claims that could not compare all of them. Local to
/// each node.
#[derive(Debug, Default)]
pub(in crate::store) struct AgingTurns {
    claims: u64,
    compared: FxHashMap<Arc<Lane>, u64>,
}

impl AgingTurns {
    /// Sorts the lanes compared longest ago first. A new lane is placed behind those already waiting. Lanes that have
    /// waited equally long start at a random offset, so that short-lived processes do not all begin with the same
    /// lanes.
    pub(super) fn sort<T>(&mut self, lanes: &mut [T], lane: impl Fn(&T) -> &Arc<Lane>, anywhere: u64) {
        if self.compared.len() > limits::AGING_LANES_REMEMBERED {
            self.compared.clear();
        }
        let start = anywhere % (lanes.len() as u64).max(1);
        lanes.rotate_left(usize::try_from(start).unwrap_or(0));
        let claims = self.claims;
        lanes.sort_by_cached_key(|item| *self.compared.entry(lane(item).clone()).or_insert(claims));
    }

    /// Marks the lower ranks of these lanes as compared.
    pub(super) fn compared<'a>(&mut self, lanes: impl Iterator<Item = &'a Arc<Lane>>) {
        self.claims += 1;
        let claims = self.claims;
        self.compared.extend(lanes.map(|lane| (lane.clone(), claims)));
    }
}
