//! What a process measures of its own store while it runs, for those who watch it: how many requests share a commit, how long
//! commits take, and what happened to jobs since the start. Nothing here is stored, and no rule looks at it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::rates::Minute;
use crate::job::{JobType, Lane, QueueName, Tenant};
use crate::limits;

/// Upper edges of the buckets for the number of requests in one commit.
const REQUESTS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Upper edges of the buckets for the time of one commit, in microseconds.
const MICROS: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// Numbers counted in buckets; counting takes no lock.
#[derive(Debug)]
pub struct Histogram {
    edges: &'static [u64],
    /// One per edge, and one for what is above the last.
    buckets: Vec<AtomicU64>,
    sum: AtomicU64,
}

/// A histogram as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramReading {
    /// For each edge, how many numbers were not above it.
    pub up_to: Vec<(u64, u64)>,
    /// How many numbers there were.
    pub count: u64,
    /// All of them together.
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

    /// What was counted so far.
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

/// What happened to the jobs of one queue or type of a tenant.
#[derive(Debug)]
struct Total<Part> {
    /// In minutes that are over.
    over: Minute,
    /// In the minute that is going on, by the queue's types or the type's queues.
    going_on: BTreeMap<Part, (i64, Minute)>,
}

impl<Part> Default for Total<Part> {
    fn default() -> Total<Part> {
        Total { over: Minute::default(), going_on: BTreeMap::new() }
    }
}

impl<Part: Ord + Clone> Total<Part> {
    /// Takes in what has happened in a part of it in a minute, up to now.
    fn count(&mut self, part: &Part, minute: i64, counts: &Minute) {
        let Total { over, going_on } = self;
        if going_on.len() >= limits::METERED_TYPES_MAX && !going_on.contains_key(part) {
            // Nothing more is heard of minutes before the last one.
            let (done, others): (BTreeMap<Part, _>, _) =
                std::mem::take(going_on).into_iter().partition(|(_, (at, _))| at + 1 < minute);
            for (_, counts) in done.values() {
                over.merge(counts);
            }
            *going_on = others;
            if going_on.len() >= limits::METERED_TYPES_MAX {
                return;
            }
        }
        let (known, last) = going_on.entry(part.clone()).or_default();
        // Counts of one minute only grow, unless what was remembered had to be dropped: then they began again.
        if *known != minute || counts.submitted < last.submitted || counts.claimed < last.claimed {
            over.merge(last);
        }
        (*known, *last) = (minute, counts.clone());
    }

    fn sum(&self) -> Minute {
        let mut sum = self.over.clone();
        self.going_on.values().for_each(|(_, counts)| sum.merge(counts));
        sum
    }
}

/// Totals by tenant and a name, as many as there is room for.
type Totals<Name, Part> = Mutex<BTreeMap<(Tenant, Name), Total<Part>>>;

fn locked<Name, Part>(totals: &Totals<Name, Part>) -> MutexGuard<'_, BTreeMap<(Tenant, Name), Total<Part>>> {
    // Every step leaves them whole.
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

fn summed<Name: Ord + Clone, Part: Ord + Clone>(
    totals: &Totals<Name, Part>,
) -> BTreeMap<(Tenant, Name), Minute> {
    locked(totals).iter().map(|(key, total)| (key.clone(), total.sum())).collect()
}

/// What was found by polling although a notification should have told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// A commit of another node, by PostgreSQL's look-out.
    Node,
    /// A commit of another process, by SQLite's look-out: the log's size and time did not show it.
    Process,
    /// Claimable jobs, by a waiting claim.
    Claim,
    /// The end of a job, by somebody waiting for it.
    End,
    /// An interruption of running jobs, by a worker's regular heartbeat.
    Interrupt,
}

impl Fallback {
    /// All of them.
    pub const ALL: [Fallback; 5] =
        [Fallback::Node, Fallback::Process, Fallback::Claim, Fallback::End, Fallback::Interrupt];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Fallback::Node => "node",
            Fallback::Process => "process",
            Fallback::Claim => "claim",
            Fallback::End => "end",
            Fallback::Interrupt => "interrupt",
        }
    }
}

/// What a process measures of its own store.
#[derive(Debug)]
pub struct Meters {
    /// Requests that shared a commit.
    pub group_requests: Histogram,
    /// How long commits took, in microseconds: mostly the wait for the disk.
    pub commit_micros: Histogram,
    fallbacks: [AtomicU64; Fallback::ALL.len()],
    queues: Totals<QueueName, JobType>,
    types: Totals<JobType, QueueName>,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters {
            group_requests: Histogram::new(&REQUESTS),
            commit_micros: Histogram::new(&MICROS),
            fallbacks: Default::default(),
            queues: Mutex::default(),
            types: Mutex::default(),
        }
    }
}

impl Meters {
    /// One commit of this many requests that took so long.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        allow(dead_code, reason = "memory commits at once")
    )]
    pub(crate) fn committed(&self, requests: usize, took: Duration) {
        self.group_requests.add(u64::try_from(requests).unwrap_or(u64::MAX));
        self.commit_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Polling found what a notification should have told of.
    pub(crate) fn fell_back(&self, what: Fallback) {
        tracing::debug!(what = what.as_str(), "found by polling without a notification");
        self.fallbacks[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often polling found what a notification should have told of, since the start; 0 while notifications work.
    pub fn fallbacks(&self, what: Fallback) -> u64 {
        self.fallbacks[what as usize].load(Ordering::Relaxed)
    }

    /// What has happened in a lane in a minute, up to now.
    pub(crate) fn counted(&self, lane: &Lane, minute: i64, counts: &Minute) {
        let mut queues = locked(&self.queues);
        let key = (lane.tenant.clone(), lane.queue.clone());
        if queues.contains_key(&key) || queues.len() < limits::METERED_QUEUES_MAX {
            queues.entry(key).or_default().count(&lane.job_type, minute, counts);
        }
        drop(queues);
        let mut types = locked(&self.types);
        let key = (lane.tenant.clone(), lane.job_type.clone());
        if types.contains_key(&key) || types.len() < limits::METERED_TYPE_TOTALS_MAX {
            types.entry(key).or_default().count(&lane.queue, minute, counts);
        }
    }

    /// What happened to jobs since the start, by tenant and queue; at most a second behind.
    pub fn totals_by_queue(&self) -> BTreeMap<(Tenant, QueueName), Minute> {
        summed(&self.queues)
    }

    /// The same by tenant and type, for the first [`limits::METERED_TYPE_TOTALS_MAX`] of them.
    pub fn totals_by_type(&self) -> BTreeMap<(Tenant, JobType), Minute> {
        summed(&self.types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(job_type: &str) -> Lane {
        let (tenant, queue) = (Tenant::new("acme").unwrap(), QueueName::new("mail").unwrap());
        Lane { tenant, queue, job_type: JobType::new(job_type).unwrap() }
    }

    fn submitted(count: u64) -> Minute {
        Minute { submitted: count, ..Minute::default() }
    }

    #[test]
    fn a_number_on_an_edge_counts_below_it() {
        let meters = Meters::default();
        for requests in [1, 2, 3, 5000] {
            meters.committed(requests, Duration::from_micros(100));
        }
        let read = meters.group_requests.read();
        assert_eq!((read.count, read.sum), (4, 5006));
        assert_eq!(read.up_to[..3], [(1, 1), (2, 2), (4, 3)]);
        assert_eq!(meters.commit_micros.read().up_to[0], (100, 4));
    }

    #[test]
    fn types_are_counted_by_themselves_up_to_a_bound() {
        let meters = Meters::default();
        for number in 0..=limits::METERED_TYPE_TOTALS_MAX {
            meters.counted(&lane(&format!("t{number}")), 1, &submitted(1));
        }
        assert_eq!(meters.totals_by_type().len(), limits::METERED_TYPE_TOTALS_MAX);
        let total: u64 = meters.totals_by_queue().values().map(|total| total.submitted).sum();
        assert_eq!(total, limits::METERED_TYPE_TOTALS_MAX as u64 + 1, "the queue counts all of them");
    }

    #[test]
    fn totals_only_grow_whatever_minute_it_is() {
        let meters = Meters::default();
        let total = || meters.totals_by_queue().values().map(|total| total.submitted).sum::<u64>();
        meters.counted(&lane("a"), 1, &submitted(2));
        meters.counted(&lane("b"), 1, &submitted(10));
        assert_eq!(total(), 12);
        meters.counted(&lane("a"), 1, &submitted(5));
        assert_eq!(total(), 15);
        // The next minute begins at nothing.
        meters.counted(&lane("a"), 2, &submitted(1));
        assert_eq!(total(), 16);
        // And so does what was forgotten.
        meters.counted(&lane("b"), 1, &submitted(3));
        assert_eq!(total(), 19);
        assert_eq!(meters.totals_by_queue().len(), 1);
        let by_type: Vec<u64> = meters.totals_by_type().values().map(|total| total.submitted).collect();
        assert_eq!(by_type, [6, 13]);
    }
}
