//! Statistics: job counts, rates and costs. Counts come from counters that every commit updates; no query here scans
//! jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobState, JobType, Lane, QueueName, Seq, Tenant};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::caller::Caller;
use crate::store::documents::budget::{self, BudgetUsage, Period};
use crate::store::documents::cascade::KEYS_END;
use crate::store::documents::config::parse;
use crate::store::documents::counters::StateCounts;
use crate::store::documents::minute_stats::Minute;
use crate::store::documents::stats_cache::LaneMinute;
use crate::store::engine::{ClaimOrder, DocumentKind, DocumentRange, LaneCursor};
use crate::store::tx::read_tx::ReadTx;

/// Counts by state; includes all states.
pub type ByState = BTreeMap<JobState, u64>;

/// Job counts and rates, as far as the caller can see them.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Total counts.
    pub states: ByState,
    /// By queue.
    pub queues: BTreeMap<QueueName, ByState>,
    /// By type.
    pub types: BTreeMap<JobType, ByState>,
    /// By tenant.
    pub tenants: BTreeMap<Tenant, ByState>,
    /// Scheduled jobs that are held by a pause. Always 0 through a server.
    pub paused: u64,
    /// Statistics per minute for the last hour, by minutes since 1970.
    pub minutes: BTreeMap<i64, Minute>,
    /// Costs in cents, by tenant and type.
    pub costs: BTreeMap<(Tenant, JobType), i64>,
    /// What each tenant with a budget has spent in the current period, in cents. Empty through a server.
    pub spent: BTreeMap<Tenant, i64>,
    /// How many queues, types, tenants and costs were left out.
    pub left_out: OmittedCounts,
    /// Changes whose consequences are not applied to all jobs yet, counted up to [`limits::CASCADES_COUNTED_MAX`], and
    /// only for callers that see all tenants.
    pub cascades: u64,
}

/// The number of names left out because there are more than [`limits::STATS_NAMES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmittedCounts {
    /// Number of queues left out.
    pub queues: u64,
    /// Number of types left out.
    pub types: u64,
    /// Number of tenants left out.
    pub tenants: u64,
    /// Number of costs left out, each of a tenant and a type.
    pub costs: u64,
}

/// Statistics of everything this caller can see; the first [`limits::STATS_NAMES_MAX`] queues, types, tenants and costs
/// each.
pub(crate) fn stats(tx: &mut ReadTx<'_>, caller: &Caller) -> Result<Stats, StoreError> {
    let minutes = minutes(tx, |lane| caller.can_see(&lane.tenant))?;
    Ok(Stats { minutes, ..counted(tx, caller, limits::STATS_NAMES_MAX)? })
}

/// The first `most` entries of a map, and how many more there were.
fn first<K: Ord, V>(mut all: BTreeMap<K, V>, most: usize) -> (BTreeMap<K, V>, u64) {
    let left_out = all.len().saturating_sub(most);
    while all.len() > most {
        all.pop_last();
    }
    (all, left_out as u64)
}

/// Like [`stats`], but without the last hour, which is the most expensive part, and with all names.
pub(crate) fn totals(tx: &mut ReadTx<'_>, caller: &Caller) -> Result<Stats, StoreError> {
    counted(tx, caller, usize::MAX)
}

/// Counts by one kind of name.
type ByName<'a, N> = BTreeMap<&'a N, StateCounts>;

/// Adds the counts of a lane to those of a name.
fn add<'a, N: Ord>(sums: &mut ByName<'a, N>, name: &'a N, counts: &StateCounts) {
    let sum = sums.entry(name).or_default();
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn by_state(counts: &StateCounts) -> ByState {
    JobState::ALL.into_iter().map(|state| (state, counts[state as usize])).collect_ordered()
}

/// The first `most` names with their counts, and how many more there were.
fn named<N: Ord + Clone>(sums: ByName<'_, N>, most: usize) -> (BTreeMap<N, ByState>, u64) {
    let left_out = sums.len().saturating_sub(most) as u64;
    let named = sums.into_iter().take(most).map(|(name, counts)| (name.clone(), by_state(&counts)));
    (named.collect_ordered(), left_out)
}

/// Statistics with at most `most` names of each kind.
fn counted(tx: &mut ReadTx<'_>, caller: &Caller, most: usize) -> Result<Stats, StoreError> {
    let mut stats = Stats::default();
    let config = tx.config()?;
    let (mut all, mut queues, mut types, mut tenants) =
        (StateCounts::default(), ByName::new(), ByName::new(), ByName::new());
    for (lane, counts) in &tx.db.counts()?.lanes {
        if !caller.can_see(&lane.tenant) {
            continue;
        }
        let ready = counts[JobState::Scheduled as usize];
        if ready > 0 && config.pauses_on(lane, tx.now).next().is_some() {
            stats.paused += ready;
        }
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        add(&mut queues, &lane.queue, counts);
        add(&mut types, &lane.job_type, counts);
        add(&mut tenants, &lane.tenant, counts);
    }
    if !tenants.is_empty() {
        stats.states = by_state(&all);
    }
    (stats.queues, stats.left_out.queues) = named(queues, most);
    (stats.types, stats.left_out.types) = named(types, most);
    (stats.tenants, stats.left_out.tenants) = named(tenants, most);
    for document in tx.db.documents(DocumentKind::Cost)? {
        if let Some((tenant, job_type)) = document.key.split_once(' ')
            && let (Ok(tenant), Ok(job_type)) = (Tenant::new(tenant), JobType::new(job_type))
            && caller.can_see(&tenant)
        {
            stats.costs.insert((tenant, job_type), parse(&document.body)?);
        }
    }
    (stats.costs, stats.left_out.costs) = first(stats.costs, most);
    stats.cascades = cascades(tx, caller)?;
    let config = config.seen_by(caller);
    for (tenant, settings) in config.tenants.iter().filter(|(_, settings)| settings.budget_cents.is_some()) {
        let document = tx.db.document(DocumentKind::Bucket, &budget::spent_key(tenant))?;
        let spent =
            document.map(|document| parse::<BudgetUsage>(&document.body)).transpose()?.unwrap_or_default();
        let kind = settings.budget_period.unwrap_or_default();
        stats.spent.insert(tenant.clone(), spent.in_period(kind, &Period::containing(kind, tx.now)));
    }
    Ok(stats)
}

/// Changes whose consequences are not applied to all jobs yet; see [`Stats::cascades`].
pub(crate) fn cascades(tx: &mut ReadTx<'_>, caller: &Caller) -> Result<u64, StoreError> {
    if caller.tenant.is_some() {
        return Ok(0);
    }
    let max = limits::CASCADES_COUNTED_MAX;
    Ok(tx.db.documents_in(DocumentKind::Cascade, DocumentRange::before(KEYS_END, max))?.len() as u64)
}

/// Statistics of the last hour over the matching lanes.
pub(crate) fn minutes(
    tx: &mut ReadTx<'_>,
    fits: impl Fn(&Lane) -> bool,
) -> Result<BTreeMap<i64, Minute>, StoreError> {
    let mut found: BTreeMap<i64, Minute> = BTreeMap::new();
    for one in minutes_by_lane(tx, fits)? {
        found.entry(one.minute).or_default().merge(&one.counts);
    }
    Ok(found)
}

/// Statistics of the last hour of each matching lane, as counted by each node.
pub(crate) fn minutes_by_lane(
    tx: &mut ReadTx<'_>,
    fits: impl Fn(&Lane) -> bool,
) -> Result<Vec<Arc<LaneMinute>>, StoreError> {
    let mut found = tx.env.minutes.read(tx.db, tx.now)?;
    found.retain(|one| fits(&one.lane));
    Ok(found)
}

/// When the longest waiting job of a queue became claimable.
pub(crate) fn oldest_ready(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    queue: &QueueName,
) -> Result<Option<Timestamp>, StoreError> {
    let mut found = oldest_by_queue(tx, caller, |lane| lane.queue == *queue)?;
    Ok(found.remove(queue))
}

/// The same for every queue with matching lanes: one pass over the lanes, and one query for all of them.
pub(crate) fn oldest_by_queue(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    fits: impl Fn(&Lane) -> bool,
) -> Result<BTreeMap<QueueName, Timestamp>, StoreError> {
    let mut oldest: BTreeMap<QueueName, Timestamp> = BTreeMap::new();
    for (lane, at) in oldest_by_lane(tx, |lane| caller.can_see(&lane.tenant) && fits(lane))? {
        let known = oldest.entry(lane.queue.clone()).or_insert(at);
        *known = (*known).min(at);
    }
    Ok(oldest)
}

/// The same for every matching lane with ready jobs.
pub(crate) fn oldest_by_lane(
    tx: &mut ReadTx<'_>,
    fits: impl Fn(&Lane) -> bool,
) -> Result<BTreeMap<Arc<Lane>, Timestamp>, StoreError> {
    let lanes = tx.db.counts()?.lanes.iter();
    let lanes = lanes.filter(|(lane, counts)| counts[JobState::Scheduled as usize] > 0 && fits(lane));
    let mut lanes: Vec<LaneCursor> =
        lanes.map(|(lane, _)| LaneCursor { lane: lane.clone(), after: None }).collect();
    let mut oldest: BTreeMap<Arc<Lane>, Timestamp> = BTreeMap::new();
    // The first job of each priority is the oldest of that priority; there are at most 101 of them.
    while !lanes.is_empty() {
        let mut next = Vec::new();
        for some in lanes.chunks(limits::LANES_ASKED_AT_ONCE) {
            tx.is_wanted()?;
            for (cursor, head) in some.iter().zip(tx.db.ready(some, 1)?) {
                let Some(head) = head.first() else { continue };
                let place = ClaimOrder::new(head);
                let known = oldest.entry(cursor.lane.clone()).or_insert(place.eligible_at);
                *known = (*known).min(place.eligible_at);
                let end = ClaimOrder { rank: place.rank, eligible_at: Timestamp::MAX, seq: Seq(i64::MAX) };
                next.push(LaneCursor { lane: cursor.lane.clone(), after: Some(end) });
            }
        }
        lanes = next;
    }
    Ok(oldest)
}
