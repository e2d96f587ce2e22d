//! How many jobs a claim may still start per limit scope: running limits, rate limits and budgets, read once per scope
//! and claim. A lane without capacity is skipped as a whole, however many jobs it holds.

use std::collections::HashMap;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Bucket, Lane, Rate, Tenant};
use crate::store::documents::budget::{self, BudgetUsage};
use crate::store::documents::config::Config;
use crate::store::engine::LimitScope;
use crate::store::tx::write_tx::WriteTx;

/// The remaining capacity of one scope for one limit.
struct Slot {
    left: u64,
    taken: u64,
    /// The token bucket and its document key, if the limit is a rate limit.
    bucket: Option<(String, Bucket)>,
}

#[derive(PartialEq, Eq, Hash)]
enum Reason {
    Running(LimitScope),
    Rate(LimitScope),
}

/// The capacity of every scope this claim has used.
#[derive(Default)]
pub(super) struct Capacity {
    slots: Vec<Slot>,
    places: HashMap<Reason, usize>,
    /// Until when tenants have exceeded their budgets.
    overdrawn: HashMap<Tenant, Option<Timestamp>>,
    throttled_until: Option<Timestamp>,
}

impl Capacity {
    /// The slots that apply to a lane; `None` if one of them has no capacity.
    pub(super) fn open(
        &mut self,
        tx: &mut WriteTx<'_>,
        config: &Config,
        lane: &Lane,
    ) -> Result<Option<Vec<usize>>, StoreError> {
        if let Some(until) = self.overdrawn_until(tx, config, lane)? {
            self.throttle(until);
            return Ok(None);
        }
        let mut found = Vec::new();
        for (part, limit) in config.running_limits(lane) {
            found.push(self.running(tx, &part, limit)?);
        }
        for (part, rate) in config.rates(lane) {
            found.push(self.rate(tx, part, rate)?);
        }
        let is_open = self.has_capacity(&found);
        if !is_open {
            self.wait_for_tokens(&found);
        }
        Ok(is_open.then_some(found))
    }

    fn running(&mut self, tx: &mut WriteTx<'_>, part: &LimitScope, limit: u64) -> Result<usize, StoreError> {
        let reason = Reason::Running(part.clone());
        if let Some(known) = self.places.get(&reason) {
            return Ok(*known);
        }
        let left = limit.saturating_sub(tx.db()?.counts()?.running(part));
        Ok(self.add(reason, Slot { left, taken: 0, bucket: None }))
    }

    fn rate(&mut self, tx: &mut WriteTx<'_>, part: LimitScope, rate: Rate) -> Result<usize, StoreError> {
        let (key, reason) = (part.bucket_key(), Reason::Rate(part));
        if let Some(known) = self.places.get(&reason) {
            return Ok(*known);
        }
        let stored: Option<Bucket> = tx.usage(&key)?;
        let full = || Bucket::full(rate, tx.now);
        let bucket = stored.map_or_else(full, |bucket| bucket.at(tx.now).under(rate));
        Ok(self.add(reason, Slot { left: bucket.tokens(), taken: 0, bucket: Some((key, bucket)) }))
    }

    fn add(&mut self, reason: Reason, slot: Slot) -> usize {
        self.slots.push(slot);
        let at = self.slots.len() - 1;
        self.places.insert(reason, at);
        at
    }

    fn overdrawn_until(
        &mut self,
        tx: &mut WriteTx<'_>,
        config: &Config,
        lane: &Lane,
    ) -> Result<Option<Timestamp>, StoreError> {
        let tenant = &lane.tenant;
        let Some(settings) = config.tenant_settings(lane).filter(|settings| settings.budget_cents.is_some())
        else {
            return Ok(None);
        };
        if let Some(known) = self.overdrawn.get(tenant) {
            return Ok(*known);
        }
        let spent: Option<BudgetUsage> = tx.usage(&budget::spent_key(tenant))?;
        let until = budget::overdrawn(settings, spent.as_ref(), tx.now).map(|over| over.until);
        self.overdrawn.insert(tenant.clone(), until);
        Ok(until)
    }

    /// Whether the slots have capacity for one more job.
    pub(super) fn has_capacity(&self, slots: &[usize]) -> bool {
        slots.iter().all(|at| self.slots[*at].left > 0)
    }

    /// Counts one more job.
    pub(super) fn take(&mut self, slots: &[usize]) {
        for at in slots {
            self.slots[*at].left -= 1;
            self.slots[*at].taken += 1;
        }
    }

    /// Records that jobs were held back until there is a token again.
    fn wait_for_tokens(&mut self, slots: &[usize]) {
        for at in slots {
            if let Slot { left: 0, bucket: Some((_, bucket)), .. } = &self.slots[*at] {
                let next = bucket.next_at();
                self.throttle(next);
            }
        }
    }

    /// Records that jobs were held back until then.
    pub(super) fn throttle(&mut self, until: Timestamp) {
        self.throttled_until = Some(self.throttled_until.map_or(until, |known| known.min(until)));
    }

    /// Consumes the tokens; returns when the first job that was held back may be admitted.
    pub(super) fn write_back(self, tx: &mut WriteTx<'_>) -> Option<Timestamp> {
        for slot in self.slots {
            if let Some((key, bucket)) = slot.bucket.filter(|_| slot.taken > 0) {
                tx.put_usage(key, Some(&bucket.without(slot.taken)));
            }
        }
        self.throttled_until
    }
}
