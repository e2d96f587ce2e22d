//! Limits on the depth of a queue or tenant, and on the number of queues, types and lanes per tenant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::keys::Duplicate;
use super::{Batch, invalid};
use crate::error::{ActionError, FieldError, FieldProblem, StoreError, SubmitError, TooDeep};
use crate::job::{JobType, Lane, QueueName, Tenant};
use crate::limits;
use crate::store::engine::LimitScope;
use crate::store::tx::write_tx::WriteTx;

/// New names that a submission adds to a tenant.
#[derive(Default)]
struct NewNames<'a> {
    queues: BTreeSet<&'a QueueName>,
    types: BTreeSet<&'a JobType>,
    lanes: BTreeSet<&'a Lane>,
}

impl Batch<'_> {
    /// Refuses a submission that would exceed the tenant's number of queues, types or lanes: all claims and lists
    /// iterate over them.
    pub(super) fn check_names(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let mut unknown = Vec::new();
        tx.raw(|db| {
            let (counts, mut last) = (db.counts()?, None);
            for (index, lane) in self.lanes.iter().enumerate() {
                // Lanes are shared, and most batches have few.
                if last.is_some_and(|last| Arc::ptr_eq(last, lane)) || duplicates.contains_key(&index) {
                    continue;
                }
                last = Some(lane);
                if !counts.lanes.contains_key(lane) && !lane.is_internal() {
                    unknown.push((index, lane));
                }
            }
            Ok(())
        })?;
        if unknown.is_empty() {
            return Ok(());
        }
        let config = tx.config()?;
        let counts = tx.db()?.counts()?;
        let mut new: BTreeMap<&Tenant, NewNames<'_>> = BTreeMap::new();
        for (index, lane) in unknown {
            let (has_queue, has_type) = counts.has_names(lane);
            let names = new.entry(&lane.tenant).or_default();
            names.queues.extend((!has_queue).then_some(&lane.queue));
            names.types.extend((!has_type).then_some(&lane.job_type));
            names.lanes.insert(lane.as_ref());
            let most = config.names_max(&lane.tenant);
            let too_many = |field, name, limit| {
                let value = match field {
                    "type" => lane.job_type.to_string(),
                    "requires_version" => lane.version.as_ref().map_or(String::new(), ToString::to_string),
                    _ => lane.queue.to_string(),
                };
                let tenant = lane.tenant.to_string();
                Err(invalid(index, field, FieldProblem::LimitReached { name, value, limit, tenant }))
            };
            if counts.queues_of(&lane.tenant) + names.queues.len() as u64 > most.queues && !has_queue {
                return too_many("queue", "max_queues", most.queues);
            }
            if counts.types_of(&lane.tenant) + names.types.len() as u64 > most.types && !has_type {
                return too_many("type", "max_types", most.types);
            }
            if counts.lanes_of(&lane.tenant) + names.lanes.len() as u64 > most.lanes {
                return too_many(lane_field(lane), "max_lanes", most.lanes);
            }
        }
        Ok(())
    }

    /// Refuses to append jobs about which the current number of jobs decides: those of a new lane, those of a queue or
    /// tenant with a limited depth, and those of a tenant whose names are limited, because a lane may be empty by now.
    pub(super) fn check_appendable(&self, tx: &mut WriteTx<'_>) -> Result<(), SubmitError> {
        let config = tx.config()?;
        tx.is_lane_unknown = tx.raw(|db| {
            let counts = db.counts()?;
            Ok(self.lanes.iter().any(|lane| !counts.lanes.contains_key(lane)))
        })?;
        let is_limited = |lane: &Arc<Lane>| {
            let has_limited_names = config.tenants.get(&lane.tenant).is_some_and(|tenant| {
                tenant.max_queues.is_some() || tenant.max_types.is_some() || tenant.max_lanes.is_some()
            });
            has_limited_names || !config.depth_limits(lane).is_empty()
        };
        if tx.is_lane_unknown || self.lanes.iter().any(is_limited) {
            return Err(StoreError::Database("how many jobs there are decides about this".to_owned()).into());
        }
        Ok(())
    }

    /// Refuses a submission that would exceed the depth of a queue or tenant.
    pub(super) fn check_backlog(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let config = tx.config()?;
        if config.queues.is_empty() && config.tenants.is_empty() {
            return Ok(());
        }
        let mut new: BTreeMap<Arc<Lane>, u64> = BTreeMap::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            if !duplicates.contains_key(&index) {
                *new.entry(lane.clone()).or_default() += 1;
            }
        }
        let mut ending: BTreeMap<Arc<Lane>, u64> = BTreeMap::new();
        for (seq, _) in self.replaced {
            if let Some(job) = tx.job(*seq)? {
                *ending.entry(job.lane.clone()).or_default() += 1;
            }
        }
        check_depth_without(tx, new, ending)
    }
}

/// The field that makes a lane a new one among those of the same queue and type.
fn lane_field(lane: &Lane) -> &'static str {
    if lane.version.is_some() { "requires_version" } else { "queue" }
}

/// Refuses a lane with another version than that of the job it is for, if its tenant has as many lanes as it may.
pub(crate) fn check_new_lane(tx: &mut WriteTx<'_>, lane: &Lane) -> Result<(), ActionError> {
    let limit = tx.config()?.names_max(&lane.tenant).lanes;
    let counts = tx.db()?.counts()?;
    if counts.lanes.contains_key(lane) || lane.is_internal() || counts.lanes_of(&lane.tenant) < limit {
        return Ok(());
    }
    let (name, tenant) = ("max_lanes", lane.tenant.to_string());
    let value = lane.version.as_ref().map_or_else(|| lane.queue.to_string(), ToString::to_string);
    let problem = FieldProblem::LimitReached { name, value, limit, tenant };
    Err(FieldError::new("requires_version", problem).into())
}

/// Refuses so many more jobs in these lanes if they would exceed the depth of a queue or tenant.
pub(crate) fn check_depth<E: From<TooDeep> + From<StoreError>>(
    tx: &mut WriteTx<'_>,
    new: BTreeMap<Arc<Lane>, u64>,
) -> Result<(), E> {
    check_depth_without(tx, new, BTreeMap::new())
}

/// Like [`check_depth`], if so many jobs of these lanes end in the same commit.
fn check_depth_without<E: From<TooDeep> + From<StoreError>>(
    tx: &mut WriteTx<'_>,
    new: BTreeMap<Arc<Lane>, u64>,
    ending: BTreeMap<Arc<Lane>, u64>,
) -> Result<(), E> {
    let config = tx.config()?;
    let mut leaving: BTreeMap<(LimitScope, u64), u64> = BTreeMap::new();
    for (lane, count) in ending {
        for part_and_limit in config.depth_limits(&lane) {
            *leaving.entry(part_and_limit).or_default() += count;
        }
    }
    let mut added: BTreeMap<(LimitScope, u64), u64> = BTreeMap::new();
    for (lane, count) in new {
        for part_and_limit in config.depth_limits(&lane) {
            *added.entry(part_and_limit).or_default() += count;
        }
    }
    for ((part, limit), added) in added {
        let depth = tx.db()?.counts()?.depth(&part);
        let depth = depth.saturating_sub(leaving.get(&(part.clone(), limit)).copied().unwrap_or(0));
        if depth + added > limit {
            let (scope, retry_after) = (part.to_string(), limits::TOO_DEEP_RETRY_AFTER);
            return Err(TooDeep { scope, depth, limit, retry_after }.into());
        }
    }
    Ok(())
}
