//! What a process measures of its own store: how many requests share a commit, how long commits take, and what happened
//! to jobs since the start. Nothing here is stored, and no rule uses it.

pub(crate) mod deliveries;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::Words;

use self::deliveries::Deliveries;
use super::documents::minute_stats::Minute;
use super::documents::shares::has_room;
use crate::job::{JobType, Lane, QueueName, Tenant};
use crate::limits;

/// Upper edges of the buckets for the number of requests in one commit.
const REQUESTS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Upper edges of the buckets for the time of one commit, in microseconds.
const MICROS: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// A histogram; counting takes no lock.
#[derive(Debug)]
pub struct Histogram {
    edges: &'static [u64],
    /// One per edge, and one for values above the last.
    buckets: Vec<AtomicU64>,
    sum: AtomicU64,
}

/// The values of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramReading {
    /// For each edge, how many values were not above it.
    pub up_to: Vec<(u64, u64)>,
    /// Number of values.
    pub count: u64,
    /// Sum of all values.
    pub sum: u64,
}

impl Histogram {
    fn new(edges: &'static [u64]) -> Histogram {
        let buckets = (0..=edges.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { edges, buckets, sum: AtomicU64::new(0) }
    }

    fn add(&self, number: u64) {
        let bucket = self.edges.partition_point(|edge| *edge < number);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(number, Ordering::Relaxed);
    }

    /// Reads the current values.
    pub fn read(&self) -> HistogramReading {
        let mut count = 0;
        let mut so_far: Vec<u64> = Vec::with_capacity(self.buckets.len());
        for bucket in &self.buckets {
            count += bucket.load(Ordering::Relaxed);
            so_far.push(count);
        }
        let up_to = self.edges.iter().copied().zip(so_far).collect();
        HistogramReading { up_to, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// What happened to the jobs of queues or types since the start, by tenant and name, up to a maximum number of names.
#[derive(Debug)]
struct CountsByName<Name> {
    by_name: BTreeMap<(Tenant, Name), Minute>,
    /// How many of the names are of each tenant.
    tenants: BTreeMap<Tenant, usize>,
}

type Totals<Name> = Mutex<CountsByName<Name>>;

impl<Name> Default for CountsByName<Name> {
    fn default() -> CountsByName<Name> {
        CountsByName { by_name: BTreeMap::new(), tenants: BTreeMap::new() }
    }
}

fn locked<Name>(totals: &Totals<Name>) -> MutexGuard<'_, CountsByName<Name>> {
    // Every step leaves the value consistent.
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds statistics of lanes to the totals by name; names beyond `most` are not counted.
fn add<Name: Ord + Clone>(
    totals: &Totals<Name>,
    rates: &[(Arc<Lane>, Minute)],
    name: impl Fn(&Lane) -> &Name,
    most: usize,
) {
    let mut totals = locked(totals);
    let CountsByName { by_name, tenants } = &mut *totals;
    for (lane, counts) in rates {
        let key = (lane.tenant.clone(), name(lane).clone());
        if let Some(total) = by_name.get_mut(&key) {
            total.merge(counts);
            continue;
        }
        let own = tenants.get(&key.0).copied().unwrap_or_default();
        if has_room(by_name.len(), own, most) {
            tenants.insert(key.0.clone(), own + 1);
            by_name.insert(key, counts.clone());
        }
    }
}

/// Changes found by polling although a notification should have announced them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
#[non_exhaustive]
pub enum Fallback {
    /// A commit of another node, found by PostgreSQL's change listener.
    Node,
    /// A commit of another process, found by SQLite's change listener: the log's size and time did not show it.
    Process,
    /// Claimable jobs, found by a waiting claim.
    Claim,
    /// The end of a job, found by a caller waiting for it.
    End,
    /// An interruption of running jobs, found by a worker's regular heartbeat.
    Interrupt,
}

/// What a process measures of its own store.
#[derive(Debug)]
pub struct Metrics {
    /// Number of requests per commit.
    pub group_requests: Histogram,
    /// Duration of commits in microseconds: mostly the wait for the disk.
    pub commit_micros: Histogram,
    /// How long writes wait for their commit to begin, in microseconds: behind other commits, and for the store's lock,
    /// which other processes and nodes take in turn.
    pub write_wait_micros: Histogram,
    /// Calls of callbacks and push targets.
    pub deliveries: Deliveries,
    fallbacks: [AtomicU64; Fallback::ALL.len()],
    queues: Totals<QueueName>,
    types: Totals<JobType>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            group_requests: Histogram::new(&REQUESTS),
            commit_micros: Histogram::new(&MICROS),
            write_wait_micros: Histogram::new(&MICROS),
            deliveries: Deliveries::default(),
            fallbacks: Default::default(),
            queues: Mutex::default(),
            types: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Counts one commit of this many requests and this duration.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        allow(dead_code, reason = "memory commits at once")
    )]
    pub(crate) fn committed(&self, requests: usize, took: Duration) {
        self.group_requests.add(u64::try_from(requests).unwrap_or(u64::MAX));
        self.commit_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a write whose commit begins after this wait.
    pub(crate) fn waited(&self, wait: Duration) {
        self.write_wait_micros.add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a change that polling found although a notification should have announced it.
    pub(crate) fn fell_back(&self, what: Fallback) {
        tracing::debug!(what = what.as_str(), "found by polling without a notification");
        self.fallbacks[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often polling found what a notification should have announced, since the start; 0 while notifications work.
    pub fn fallbacks(&self, what: Fallback) -> u64 {
        self.fallbacks[what as usize].load(Ordering::Relaxed)
    }

    /// Adds statistics of lanes since the last call. Called once for each commit that wrote statistics, after it is on
    /// disk; the cost is proportional to the number of lanes.
    pub(crate) fn counted(&self, rates: &[(Arc<Lane>, Minute)]) {
        if !rates.is_empty() {
            add(&self.queues, rates, |lane| &lane.queue, limits::METRIC_QUEUES_MAX);
            add(&self.types, rates, |lane| &lane.job_type, limits::METERED_TYPE_TOTALS_MAX);
        }
    }

    /// What happened to jobs since the start, by tenant and queue; at most a second old.
    pub fn totals_by_queue(&self) -> BTreeMap<(Tenant, QueueName), Minute> {
        locked(&self.queues).by_name.clone()
    }

    /// The same by tenant and type, for the first [`limits::METERED_TYPE_TOTALS_MAX`] of them.
    pub fn totals_by_type(&self) -> BTreeMap<(Tenant, JobType), Minute> {
        locked(&self.types).by_name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submitted(job_type: &str, count: u64) -> (Arc<Lane>, Minute) {
        let (tenant, queue) = (Tenant::new("acme").unwrap(), QueueName::new("mail").unwrap());
        let lane = Lane::new(tenant, queue, JobType::new(job_type).unwrap());
        (Arc::new(lane), Minute { submitted: count, ..Minute::default() })
    }

    #[test]
    fn a_number_on_an_edge_counts_below_it() {
        let metrics = Metrics::default();
        for requests in [1, 2, 3, 5000] {
            metrics.committed(requests, Duration::from_micros(100));
        }
        let read = metrics.group_requests.read();
        assert_eq!((read.count, read.sum), (4, 5006));
        assert_eq!(read.up_to[..3], [(1, 1), (2, 2), (4, 3)]);
        assert_eq!(metrics.commit_micros.read().up_to[0], (100, 4));
    }

    #[test]
    fn types_are_counted_by_themselves_up_to_a_bound() {
        let metrics = Metrics::default();
        // More lanes of one queue than are counted separately: the queue counts all of them.
        let rates: Vec<_> = (0..5_000).map(|number| submitted(&format!("t{number}"), 1)).collect();
        metrics.counted(&rates);
        assert_eq!(metrics.totals_by_type().len(), limits::METERED_TYPE_TOTALS_MAX);
        let total: u64 = metrics.totals_by_queue().values().map(|total| total.submitted).sum();
        assert_eq!(total, 5_000);
    }

    #[test]
    fn a_tenant_with_many_names_leaves_others_theirs() {
        let metrics = Metrics::default();
        let rates: Vec<_> = (0..1_000).map(|number| submitted(&format!("t{number}"), 1)).collect();
        metrics.counted(&rates);
        let other = Lane { tenant: Tenant::new("other").unwrap(), ..(*submitted("x", 1).0).clone() };
        metrics.counted(&[(Arc::new(other), Minute::default())]);
        assert_eq!(metrics.totals_by_type().len(), limits::METERED_TYPE_TOTALS_MAX + 1);
        metrics.counted(&[submitted("late", 1)]);
        assert_eq!(metrics.totals_by_type().len(), limits::METERED_TYPE_TOTALS_MAX + 1);
    }

    #[test]
    fn totals_are_the_sum_of_what_was_counted() {
        let metrics = Metrics::default();
        metrics.counted(&[submitted("a", 2), submitted("b", 10)]);
        metrics.counted(&[submitted("a", 3)]);
        metrics.counted(&[]);
        let by_queue: Vec<u64> = metrics.totals_by_queue().values().map(|total| total.submitted).collect();
        assert_eq!(by_queue, [15]);
        let by_type: Vec<u64> = metrics.totals_by_type().values().map(|total| total.submitted).collect();
        assert_eq!(by_type, [5, 10]);
    }
}
