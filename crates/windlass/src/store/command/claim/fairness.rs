//! Fairness: within one priority of a fair queue tenants take turns. Only the tenant of the last turn is stored,
//! one per priority, so that nothing grows with the number of tenants.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::candidates::Source;
use crate::error::StoreError;
use crate::job::{QueueName, Tenant};
use crate::ordered::CollectOrdered;
use crate::store::documents::config::Config;
use crate::store::engine::ClaimOrder;
use crate::store::tx::write_tx::WriteTx;

/// The tenant of the last turn, and how many jobs it has started in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    tenant: Tenant,
    started: u32,
}

/// The last turn of each priority, by rank.
type Turns = BTreeMap<u8, Turn>;

/// The jobs of one tenant that could be next, by position, and where each comes from.
type LaneHeads = BTreeSet<(ClaimOrder, Source)>;

/// A queue in which tenants take turns.
pub(super) struct FairQueue {
    queue: QueueName,
    turns: Turns,
    is_changed: bool,
    /// By rank and tenant.
    heads: BTreeMap<u8, BTreeMap<Tenant, LaneHeads>>,
    all: LaneHeads,
}

fn turns_key(queue: &QueueName) -> String {
    format!("turns {queue}")
}

impl FairQueue {
    pub(super) fn new(tx: &mut WriteTx<'_>, queue: QueueName) -> Result<FairQueue, StoreError> {
        let turns = tx.usage(&turns_key(&queue))?.unwrap_or_default();
        Ok(FairQueue { queue, turns, is_changed: false, heads: BTreeMap::new(), all: LaneHeads::new() })
    }

    /// Adds a head.
    pub(super) fn push(&mut self, tenant: &Tenant, place: ClaimOrder, source: Source) {
        let tenants = self.heads.entry(place.rank).or_default();
        tenants.entry(tenant.clone()).or_default().insert((place, source));
        self.all.insert((place, source));
    }

    /// The head that would be next without fairness.
    pub(super) fn first(&self) -> Option<(ClaimOrder, Source)> {
        self.all.first().copied()
    }

    /// Removes a head.
    pub(super) fn remove(&mut self, tenant: &Tenant, place: ClaimOrder, source: Source) {
        self.all.remove(&(place, source));
        let Some(tenants) = self.heads.get_mut(&place.rank) else { return };
        if let Some(heads) = tenants.get_mut(tenant) {
            heads.remove(&(place, source));
            if heads.is_empty() {
                tenants.remove(tenant);
            }
        }
        if tenants.is_empty() {
            self.heads.remove(&place.rank);
        }
    }

    /// The queue's position among others: that of the job that would be next without fairness.
    pub(super) fn place(&self) -> Option<ClaimOrder> {
        self.first().map(|(place, _)| place)
    }

    /// The heads that will probably be next: those of up to `max` tenants in turn, and as many in their order.
    pub(super) fn upcoming(&self, max: usize) -> LaneHeads {
        let Some((rank, tenants)) = self.heads.iter().next() else { return LaneHeads::new() };
        let turn = self.turns.get(rank).map(|turn| &turn.tenant);
        let from = turn.map_or(Bound::Unbounded, Bound::Included);
        let later = tenants.range::<Tenant, _>((from, Bound::Unbounded));
        let earlier = turn.map(|turn| tenants.range::<Tenant, _>((Bound::Unbounded, Bound::Excluded(turn))));
        let in_turn = later.chain(earlier.into_iter().flatten()).filter_map(|(_, heads)| heads.first());
        in_turn.take(max).chain(self.all.iter().take(max)).copied().collect_ordered()
    }

    /// Removes the head whose turn it is; returns its source and the rank.
    pub(super) fn pop(&mut self, config: &Config) -> Option<(Source, u8)> {
        let (rank, tenants) = self.heads.iter().next()?;
        let rank = *rank;
        let last = self.turns.get(&rank);
        let continues = last
            .filter(|turn| turn.started < config.weight(&turn.tenant) && tenants.contains_key(&turn.tenant));
        let tenant = match (continues, last) {
            (Some(turn), _) => turn.tenant.clone(),
            (None, Some(turn)) => {
                let after = (Bound::Excluded(&turn.tenant), Bound::Unbounded);
                let next = tenants.range::<Tenant, _>(after).next();
                next.or_else(|| tenants.iter().next()).map(|(tenant, _)| tenant.clone())?
            }
            (None, None) => tenants.keys().next()?.clone(),
        };
        let (place, source) = tenants.get(&tenant)?.first().copied()?;
        self.remove(&tenant, place, source);
        Some((source, rank))
    }

    /// Records that a job of this tenant and rank was started.
    pub(super) fn started(&mut self, config: &Config, rank: u8, tenant: &Tenant) {
        let continues = self
            .turns
            .get(&rank)
            .filter(|turn| turn.tenant == *tenant && turn.started < config.weight(tenant));
        let started = continues.map_or(1, |turn| turn.started + 1);
        self.turns.insert(rank, Turn { tenant: tenant.clone(), started });
        self.is_changed = true;
    }

    /// Stores the last turns.
    pub(super) fn write_back(self, tx: &mut WriteTx<'_>) {
        if self.is_changed {
            tx.put_usage(turns_key(&self.queue), Some(&self.turns));
        }
    }
}
