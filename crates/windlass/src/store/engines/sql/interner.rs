//! A connection's cache of lanes and policies, which many jobs share: stored once, referred to by a number, returned as
//! one shared value. Rows are only ever added, so the cache stays valid whatever other processes do; only a rollback
//! invalidates it. The engines read and add the rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::checksum::checksum_of_texts;
use super::columns::damaged;
use crate::job::{JobType, Lane, Policy, QueueName, RareFields, Tenant, WorkerVersion};
use crate::store::documents::config::{encode, parse};
use crate::store::engine::EngineResult;

/// Maximum number of cached policies; the cache is cleared when there are more, because most of them are then no longer
/// in use.
const POLICIES_REMEMBERED_MAX: usize = 10_000;
/// Maximum number of damaged rows of which it is remembered that they were logged.
const LEFT_OUT_REMEMBERED_MAX: usize = 1_000;
/// Lanes in one generation; at most twice as many are cached, about 10 MB.
const LANES_PER_GENERATION: usize = 32_768;

/// Lanes and their numbers.
#[derive(Default)]
struct Lanes {
    by_id: HashMap<i64, Arc<Lane>>,
    ids: HashMap<Arc<Lane>, i64>,
}

/// The cache.
#[derive(Default)]
pub(crate) struct Interner {
    /// Lanes that were used since the previous generation was full.
    young: Lanes,
    /// The previous generation: a lane that is used again moves to `young`; the rest is dropped when `young` is full.
    old: Lanes,
    recent_lane: Option<(Arc<Lane>, i64)>,
    policies: HashMap<i64, Arc<Policy>>,
    policy_ids: HashMap<Vec<u8>, i64>,
    /// By the address of a value in `policies`, which stays alive there: avoids serializing a policy to compare it.
    policy_places: HashMap<usize, i64>,
    recent_policy: Option<(Arc<Policy>, i64)>,
    /// Damaged rows that were logged.
    left_out: HashSet<i64>,
    /// The shared empty details of most jobs.
    pub(crate) no_details: Arc<RareFields>,
}

impl Interner {
    /// Clears the cache.
    pub(crate) fn clear(&mut self) {
        let (left_out, no_details) = (std::mem::take(&mut self.left_out), self.no_details.clone());
        *self = Interner { left_out, no_details, ..Interner::default() };
    }

    /// Logs a row of a claimable job that cannot be read and is left out of claims; once, because claims meet it again.
    pub(crate) fn left_out(&mut self, seq: i64, damage: &str) {
        if self.left_out.len() >= LEFT_OUT_REMEMBERED_MAX {
            self.left_out.clear();
        }
        if self.left_out.insert(seq) {
            tracing::error!(row = seq, damage, "a job cannot be read and is not run: see `windlass verify`");
        }
    }

    /// The lane with this number, if it is cached.
    pub(crate) fn known_lane(&self, id: i64) -> Option<&Arc<Lane>> {
        self.young.by_id.get(&id).or_else(|| self.old.by_id.get(&id))
    }

    /// The number of a lane, if it is cached.
    pub(crate) fn known_lane_id(&mut self, lane: &Arc<Lane>) -> Option<i64> {
        if let Some((known, id)) = &self.recent_lane
            && (Arc::ptr_eq(known, lane) || known == lane)
        {
            return Some(*id);
        }
        if let Some(id) = self.young.ids.get(lane).copied() {
            self.recent_lane = Some((lane.clone(), id));
            return Some(id);
        }
        let (lane, id) = self.old.ids.remove_entry(lane)?;
        self.remember_lane(&lane, id);
        Some(id)
    }

    /// Caches a lane.
    pub(crate) fn remember_lane(&mut self, lane: &Arc<Lane>, id: i64) {
        if self.young.by_id.len() >= LANES_PER_GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.by_id.insert(id, lane.clone());
        self.young.ids.insert(lane.clone(), id);
        self.recent_lane = Some((lane.clone(), id));
    }

    /// The policy with this number, if it is cached.
    pub(crate) fn known_policy(&self, id: i64) -> Option<&Arc<Policy>> {
        self.policies.get(&id)
    }

    /// The number of a policy or, if it is not cached, the serialized policy.
    pub(crate) fn known_policy_id(&mut self, policy: &Arc<Policy>) -> Result<i64, Vec<u8>> {
        if let Some((known, id)) = &self.recent_policy
            && (Arc::ptr_eq(known, policy) || known == policy)
        {
            return Ok(*id);
        }
        if let Some(id) = self.policy_places.get(&Arc::as_ptr(policy).addr()) {
            return Ok(*id);
        }
        let body = encode(&**policy);
        let Some(id) = self.policy_ids.get(&body).copied() else { return Err(body) };
        self.recent_policy = Some((policy.clone(), id));
        Ok(id)
    }

    /// Caches a policy serialized as `body`.
    pub(crate) fn remember_policy(&mut self, policy: &Arc<Policy>, body: Vec<u8>, id: i64) {
        if self.policies.len() >= POLICIES_REMEMBERED_MAX {
            self.policies.clear();
            self.policy_ids.clear();
            self.policy_places.clear();
        }
        if let Some(replaced) = self.policies.insert(id, policy.clone()) {
            self.policy_places.remove(&Arc::as_ptr(&replaced).addr());
        }
        self.policy_places.insert(Arc::as_ptr(policy).addr(), id);
        self.policy_ids.insert(body, id);
        self.recent_policy = Some((policy.clone(), id));
    }
}

/// The names of a lane in the order of their columns; the last is empty if the lane requires no version.
pub(crate) fn lane_names(lane: &Lane) -> [&str; 4] {
    let version = lane.version.as_ref().map_or("", WorkerVersion::as_str);
    [lane.tenant.as_str(), lane.queue.as_str(), lane.job_type.as_str(), version]
}

/// The checksum of a lane's names. A version counts only if there is one: older rows have none.
pub(crate) fn lane_check(names: [&str; 4]) -> u32 {
    let length = if names[3].is_empty() { 3 } else { 4 };
    checksum_of_texts(&names[..length])
}

/// The lane with these names, after verifying the checksum.
pub(crate) fn read_lane(id: i64, names: [&str; 4], check: u32) -> EngineResult<Arc<Lane>> {
    if lane_check(names) != check {
        return Err(damaged("lanes", id, "does not match its checksum"));
    }
    let [tenant, queue, job_type, version] = names;
    let bad = |problem: crate::error::FieldProblem| damaged("lanes", id, &problem.to_string());
    let (tenant, queue) = (Tenant::new(tenant).map_err(bad)?, QueueName::new(queue).map_err(bad)?);
    let version = (!version.is_empty()).then(|| WorkerVersion::new(version)).transpose().map_err(bad)?;
    Ok(Arc::new(Lane::new(tenant, queue, JobType::new(job_type).map_err(bad)?).requiring(version)))
}

/// The policy serialized as `body`, after verifying the checksum.
pub(crate) fn read_policy(id: i64, body: &str, check: u32) -> EngineResult<Arc<Policy>> {
    if checksum_of_texts(&[body]) != check {
        return Err(damaged("policies", id, "does not match its checksum"));
    }
    Ok(Arc::new(parse(body.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(number: usize) -> Arc<Lane> {
        Arc::new(Lane {
            tenant: Tenant::new(&format!("t{number}")).unwrap(),
            queue: QueueName::new("q").unwrap(),
            job_type: JobType::new("t").unwrap(),
            version: None,
        })
    }

    #[test]
    fn lanes_in_use_are_kept_when_others_are_forgotten() {
        let mut interned = Interner::default();
        let used = lane(0);
        interned.remember_lane(&used, 0);
        for number in 1..4 * LANES_PER_GENERATION {
            interned.remember_lane(&lane(number), number.try_into().unwrap());
            assert_eq!(interned.known_lane_id(&used), Some(0), "after {number} others");
        }
        assert_eq!(interned.known_lane_id(&lane(1)), None);
        let kept = interned.young.by_id.len() + interned.old.by_id.len();
        assert!(kept <= 2 * LANES_PER_GENERATION, "{kept}");
    }
}
