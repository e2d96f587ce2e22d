//! Statistics per minute and lane, with histograms of waiting and running times. Stored as small documents, one per
//! process, minute and lane, so that no query scans jobs to count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{JobRecord, JobState, Lane, TraceId};

/// Durations, counted in buckets whose upper edges are 1, 2, 5, 10, 20, 50 ms and so on, up to more than a day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LatencyHistogram(Vec<u64>);

/// Decades that the edges of a [`LatencyHistogram`] cover, from 1 ms on.
const DECADES: u32 = 8;

/// The upper edges of the buckets of a [`LatencyHistogram`], in milliseconds; one more bucket takes everything above.
fn edges() -> impl Iterator<Item = u64> {
    let steps = (0..DECADES).flat_map(|decade| [1, 2, 5].map(|step| step * 10_u64.pow(decade)));
    steps.chain(std::iter::once(10_u64.pow(DECADES)))
}

impl LatencyHistogram {
    /// Counts a duration; returns the number of its bucket.
    fn add(&mut self, time: Duration) -> usize {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let bucket = edges().take_while(|edge| *edge < millis).count();
        if self.0.len() <= bucket {
            self.0.resize(bucket + 1, 0);
        }
        self.0[bucket] += 1;
        bucket
    }

    fn merge(&mut self, other: &LatencyHistogram) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// How many durations were not above each edge, the edges in order.
    pub fn up_to(&self) -> Vec<(Duration, u64)> {
        let mut seen = 0;
        let counts = edges().enumerate().map(|(bucket, edge)| {
            seen += self.0.get(bucket).copied().unwrap_or(0);
            (Duration::from_millis(edge), seen)
        });
        counts.collect()
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The upper edge of the bucket that contains the quantile `share` (0 to 1); `None` without durations.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.0.iter().sum();
        if total == 0 {
            return None;
        }
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = ((total as f64 * share).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        edges().nth(bucket).or_else(|| edges().last()).map(Duration::from_millis)
    }
}

/// A run that shows where the durations of a bucket come from, by its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// The trace that the job belongs to.
    pub trace: TraceId,
    /// The measured duration.
    pub duration: Duration,
    /// When it was measured.
    pub at: Timestamp,
}

/// The newest exemplar of each bucket of a [`LatencyHistogram`], the last for durations above all edges. Not stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exemplars(pub Vec<Option<Exemplar>>);

impl Exemplars {
    fn set(&mut self, bucket: usize, exemplar: Exemplar) {
        if self.0.len() <= bucket {
            self.0.resize(bucket + 1, None);
        }
        self.0[bucket] = Some(exemplar);
    }

    fn merge(&mut self, newer: &Exemplars) {
        for (bucket, exemplar) in newer.0.iter().enumerate() {
            if let Some(exemplar) = exemplar {
                self.set(bucket, *exemplar);
            }
        }
    }
}

/// Statistics of one lane in one minute.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Minute {
    /// Jobs submitted.
    pub submitted: u64,
    /// Attempts started.
    pub claimed: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs failed for good.
    pub failed: u64,
    /// Attempts that failed and are retried.
    pub retried: u64,
    /// Jobs whose retries or lifetime were used up.
    pub dead_letter: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Leases that expired or whose worker fell silent.
    pub reaped: u64,
    /// From claimable to claimed.
    pub waited: LatencyHistogram,
    /// From claimed to the end of the attempt.
    pub ran: LatencyHistogram,
    /// Sum of all waiting times, in milliseconds.
    pub waited_ms: u64,
    /// Sum of all running times, in milliseconds.
    pub ran_ms: u64,
    /// Runs of jobs that belong to a trace.
    #[serde(skip)]
    pub ran_exemplars: Exemplars,
}

impl Minute {
    /// Adds other statistics of the same minute.
    pub fn merge(&mut self, other: &Minute) {
        self.submitted += other.submitted;
        self.claimed += other.claimed;
        self.completed += other.completed;
        self.failed += other.failed;
        self.retried += other.retried;
        self.dead_letter += other.dead_letter;
        self.cancelled += other.cancelled;
        self.reaped += other.reaped;
        self.waited.merge(&other.waited);
        self.ran.merge(&other.ran);
        self.waited_ms += other.waited_ms;
        self.ran_ms += other.ran_ms;
        self.ran_exemplars.merge(&other.ran_exemplars);
    }

    /// Counts one change of a job.
    fn count(&mut self, before: Option<&JobRecord>, after: &JobRecord, now: Timestamp) {
        let Some(before) = before else {
            self.submitted += 1;
            return;
        };
        if before.state == after.state {
            return;
        }
        if before.state == JobState::Running {
            let ran = now.since(before.started_at.unwrap_or(now));
            let bucket = self.ran.add(ran);
            if let Some(trace) = before.trace {
                self.ran_exemplars.set(bucket, Exemplar { trace, duration: ran, at: now });
            }
            self.ran_ms += u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
        }
        match after.state {
            JobState::Running => {
                self.claimed += 1;
                let waited = now.since(before.scheduled_at.unwrap_or(now));
                self.waited.add(waited);
                self.waited_ms += u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            }
            JobState::Completed => self.completed += 1,
            JobState::Failed => self.failed += 1,
            JobState::DeadLetter => self.dead_letter += 1,
            JobState::Cancelled => self.cancelled += 1,
            JobState::Retrying if after.failures > before.failures => self.retried += 1,
            _ => {}
        }
        if after.crashes > before.crashes {
            self.reaped += 1;
        }
    }
}

/// The number of the minute that contains a time.
pub fn minute_of(now: Timestamp) -> i64 {
    now.as_millis() / 60_000
}

/// Statistics of the current minute, not all of them written yet.
#[derive(Debug, Default)]
pub struct Rates {
    minute: i64,
    /// Counted since the last write, by pointer of the lane, which is fast; the counts of equal lanes are added when
    /// they are written.
    fresh: FxHashMap<usize, (Arc<Lane>, Minute)>,
    /// The minute up to the last write. Lanes without changes since are not visited again.
    written: BTreeMap<Arc<Lane>, Minute>,
    /// Statistics of past minutes that are not written yet.
    overdue: Vec<DueRate>,
    written_at: Option<Timestamp>,
}

/// Statistics of one lane to write.
#[derive(Debug)]
pub struct DueRate {
    /// The lane.
    pub lane: Arc<Lane>,
    /// The number of the minute.
    pub minute: i64,
    /// The whole minute up to now: the new content of its document.
    pub whole: Minute,
    /// The part counted since the last write.
    pub fresh: Minute,
}

/// How often statistics are written: a crash may lose a second of statistics, never a job.
const WRITE_EVERY: Duration = Duration::from_secs(1);

impl Rates {
    /// Counts one change of a job.
    pub fn count(&mut self, before: Option<&JobRecord>, after: &JobRecord, now: Timestamp) {
        self.fresh_of(&after.lane, now).count(before, after, now);
    }

    /// What was counted in a lane since the last write.
    fn fresh_of(&mut self, lane: &Arc<Lane>, now: Timestamp) -> &mut Minute {
        if minute_of(now) != self.minute {
            self.overdue = self.take_unwritten();
            self.minute = minute_of(now);
            self.written.clear();
        }
        let place = Arc::as_ptr(lane) as usize;
        let (_, minute) = self.fresh.entry(place).or_insert_with(|| (lane.clone(), Minute::default()));
        minute
    }

    /// The statistics to write now: lanes with changes since the last write. Empty unless a second has passed.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<DueRate> {
        if self.written_at.is_some_and(|at| now.since(at) < WRITE_EVERY && at <= now) {
            return Vec::new();
        }
        self.written_at = Some(now);
        self.take_unwritten()
    }

    fn take_unwritten(&mut self) -> Vec<DueRate> {
        let mut changed: BTreeMap<Arc<Lane>, Minute> = BTreeMap::new();
        for (lane, counts) in std::mem::take(&mut self.fresh).into_values() {
            changed.entry(lane).or_default().merge(&counts);
        }
        let mut unwritten = std::mem::take(&mut self.overdue);
        for (lane, fresh) in changed {
            let whole = self.written.entry(lane.clone()).or_default();
            whole.merge(&fresh);
            let whole = whole.clone();
            unwritten.push(DueRate { lane, minute: self.minute, whole, fresh });
        }
        unwritten
    }
}

/// The document key: minute, node, lane.
pub(crate) fn rate_key(minute: i64, node: &str, lane: &Lane) -> String {
    format!("{minute:012} {node} {} {} {}", lane.tenant, lane.queue, lane.job_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobType, QueueName, Tenant};

    fn lane(number: usize) -> Arc<Lane> {
        let (tenant, queue) = (Tenant::new("acme").unwrap(), QueueName::new("mail").unwrap());
        Arc::new(Lane { tenant, queue, job_type: JobType::new(&format!("t{number}")).unwrap() })
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_write_hands_over_the_lanes_that_changed_since_the_last_one() {
        let mut rates = Rates::default();
        let lanes: Vec<Arc<Lane>> = (0..100).map(lane).collect();
        let submit = |rates: &mut Rates, lane: &Arc<Lane>, now: i64| {
            rates.fresh_of(lane, at(now)).submitted += 1;
        };
        for lane in &lanes {
            submit(&mut rates, lane, 60_000);
        }
        assert_eq!(rates.take_due(at(60_000)).len(), 100);
        submit(&mut rates, &lanes[7], 60_500);
        // An equal lane at another address is the same lane.
        submit(&mut rates, &lane(7), 60_600);
        assert!(rates.take_due(at(60_700)).is_empty(), "a second has not passed");
        let due = rates.take_due(at(61_000));
        assert_eq!(due.len(), 1);
        assert_eq!((due[0].minute, due[0].whole.submitted, due[0].fresh.submitted), (1, 3, 2));
        assert!(rates.take_due(at(62_000)).is_empty(), "nothing has happened");
        submit(&mut rates, &lanes[8], 62_500);
        submit(&mut rates, &lanes[9], 120_000);
        let due = rates.take_due(at(120_000));
        let counts = due.iter().map(|due| (due.minute, due.whole.submitted, due.fresh.submitted));
        assert_eq!(counts.collect::<Vec<_>>(), [(1, 2, 1), (2, 1, 1)]);
    }

    #[test]
    fn a_time_on_an_edge_counts_below_it_and_percentiles_are_edges() {
        let mut spread = LatencyHistogram::default();
        for millis in [0, 1, 2, 3, 100, 101, 400_000_000] {
            spread.add(Duration::from_millis(millis));
        }
        let below = |millis| {
            let edge = Duration::from_millis(millis);
            spread.up_to().into_iter().find(|(at, _)| *at == edge).map(|(_, count)| count)
        };
        assert_eq!(
            (below(1), below(2), below(5), below(100), below(200)),
            (Some(2), Some(3), Some(4), Some(5), Some(6))
        );
        assert_eq!(spread.count(), 7);
        assert_eq!(spread.percentile(0.5), Some(Duration::from_millis(5)));
        assert_eq!(
            spread.percentile(1.0),
            Some(Duration::from_secs(100_000)),
            "the last edge stands for all above"
        );
        assert_eq!(LatencyHistogram::default().percentile(0.5), None);
    }
}
