//! Statistics per minute and lane, with histograms of waiting and running times. Stored as small documents, one per
//! process, minute and lane, so that no query scans jobs to count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::error_stats::ErrorCounts;
use super::latency::{Exemplar, Exemplars, LatencyHistogram};
use crate::clock::Timestamp;
use crate::job::{ErrorRecord, JobRecord, JobState, Lane};

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
    /// Jobs failed permanently.
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
    #[serde(rename = "waits")]
    pub waited: LatencyHistogram,
    /// From claimed to the end of the attempt.
    #[serde(rename = "runs")]
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
            self.ran.add(ran);
            if let Some(trace) = before.trace {
                self.ran_exemplars.set(Exemplar { trace, duration: ran, at: now });
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

/// Statistics of the current minute, not all of them written yet. What a transaction counts is added once it is
/// committed: a commit that fails, and what follows it, neither loses nor repeats anything.
#[derive(Debug, Default)]
pub struct Rates {
    /// Counted by the current transaction, by minute, oldest first: it may take in what was submitted in an earlier one.
    counted: Vec<MinuteCounts>,
    /// When the current transaction wrote statistics, if it did.
    is_written_at: Option<Timestamp>,
    minute: i64,
    /// Committed since the last write.
    fresh: Lanes,
    /// The minute up to the last write. Lanes without changes since are not visited again.
    written: BTreeMap<Arc<Lane>, LaneCounts>,
    /// Statistics of past minutes that are not written yet.
    overdue: Vec<DueRate>,
    written_at: Option<Timestamp>,
}

/// What one transaction counts in one minute. By pointer of the lane, which is fast; the counts of equal
/// lanes are added when they are written.
#[derive(Debug, Default)]
struct MinuteCounts {
    minute: i64,
    lanes: Lanes,
}

/// Counts by pointer of the lane.
type Lanes = FxHashMap<usize, (Arc<Lane>, LaneCounts)>;

/// What is counted of one lane in one minute.
#[derive(Debug, Clone, Default)]
struct LaneCounts {
    minute: Minute,
    errors: ErrorCounts,
}

impl LaneCounts {
    fn merge(&mut self, other: &LaneCounts) {
        self.minute.merge(&other.minute);
        self.errors.merge(&other.errors);
    }
}

/// Statistics of one lane to write.
#[derive(Debug, Clone)]
pub struct DueRate {
    /// The lane.
    pub lane: Arc<Lane>,
    /// The number of the minute.
    pub minute: i64,
    /// The whole minute up to now: the new content of its document.
    pub whole: Minute,
    /// The part counted since the last write.
    pub fresh: Minute,
    /// The errors of the whole minute, if there are new ones.
    pub(crate) errors: Option<ErrorCounts>,
}

impl DueRate {
    fn new(lane: Arc<Lane>, minute: i64, whole: LaneCounts, fresh: LaneCounts) -> DueRate {
        let errors = (!fresh.errors.is_empty()).then_some(whole.errors);
        DueRate { lane, minute, whole: whole.minute, fresh: fresh.minute, errors }
    }
}

/// How often statistics are written: a crash may lose a second of statistics, never a job.
const WRITE_EVERY: Duration = Duration::from_secs(1);

impl Rates {
    /// Begins a transaction: what the last one counted is dropped unless it was committed.
    pub fn begin(&mut self) {
        self.counted.clear();
        self.is_written_at = None;
    }

    /// Counts one change of a job.
    pub fn count(&mut self, before: Option<&JobRecord>, after: &JobRecord, now: Timestamp) {
        self.counted_of(&after.lane, now).minute.count(before, after, now);
    }

    /// Counts the error of a job, by a worker of this version.
    pub(crate) fn count_error(
        &mut self,
        job: &JobRecord,
        error: &ErrorRecord,
        version: Option<String>,
        now: Timestamp,
    ) {
        self.counted_of(&job.lane, now).errors.count(job, error, version);
    }

    /// What the transaction has counted in a lane.
    fn counted_of(&mut self, lane: &Arc<Lane>, now: Timestamp) -> &mut LaneCounts {
        let minute = minute_of(now);
        if self.counted.last().is_none_or(|counted| counted.minute != minute) {
            self.counted.push(MinuteCounts { minute, lanes: FxHashMap::default() });
        }
        let lanes = &mut self.counted.last_mut().expect("it was added").lanes;
        let place = Arc::as_ptr(lane) as usize;
        &mut lanes.entry(place).or_insert_with(|| (lane.clone(), LaneCounts::default())).1
    }

    /// The statistics that the transaction is to write: lanes with changes since the last write. Empty unless a second
    /// has passed.
    pub fn due(&mut self, now: Timestamp) -> Vec<DueRate> {
        if self.written_at.is_some_and(|at| now.since(at) < WRITE_EVERY && at <= now) {
            return Vec::new();
        }
        self.is_written_at = Some(now);
        let mut due = self.overdue.clone();
        let mut add = |minute: i64,
                       fresh: BTreeMap<Arc<Lane>, LaneCounts>,
                       written: &BTreeMap<Arc<Lane>, LaneCounts>| {
            due.extend(fresh.into_iter().map(|(lane, fresh)| {
                let mut whole = written.get(&lane).cloned().unwrap_or_default();
                whole.merge(&fresh);
                DueRate::new(lane, minute, whole, fresh)
            }));
        };
        let (same, later) =
            self.counted.split_at(self.counted.partition_point(|it| it.minute == self.minute));
        let same = same.iter().map(|counted| &counted.lanes);
        add(self.minute, by_lane(std::iter::once(&self.fresh).chain(same)), &self.written);
        for counted in later {
            add(counted.minute, by_lane([&counted.lanes]), &BTreeMap::new());
        }
        due
    }

    /// The transaction is committed.
    pub fn commit(&mut self) {
        for counted in std::mem::take(&mut self.counted) {
            if counted.minute != self.minute {
                self.overdue = self.take_unwritten();
                self.minute = counted.minute;
                self.written.clear();
            }
            for (place, (lane, counts)) in counted.lanes {
                self.fresh.entry(place).or_insert_with(|| (lane, LaneCounts::default())).1.merge(&counts);
            }
        }
        if let Some(at) = self.is_written_at.take() {
            self.written_at = Some(at);
            self.take_unwritten();
        }
    }

    fn take_unwritten(&mut self) -> Vec<DueRate> {
        let mut unwritten = std::mem::take(&mut self.overdue);
        for (lane, fresh) in by_lane([&std::mem::take(&mut self.fresh)]) {
            let whole = self.written.entry(lane.clone()).or_default();
            whole.merge(&fresh);
            let whole = whole.clone();
            unwritten.push(DueRate::new(lane, self.minute, whole, fresh));
        }
        unwritten
    }
}

/// The sum of what was counted in each lane, whatever version its jobs require: it is stored by names.
fn by_lane<'c>(counted: impl IntoIterator<Item = &'c Lanes>) -> BTreeMap<Arc<Lane>, LaneCounts> {
    let mut sum: BTreeMap<Arc<Lane>, LaneCounts> = BTreeMap::new();
    for (lane, counts) in counted.into_iter().flat_map(FxHashMap::values) {
        let lane = match lane.version {
            Some(_) => Arc::new(Lane::clone(lane).requiring(None)),
            None => lane.clone(),
        };
        sum.entry(lane).or_default().merge(counts);
    }
    sum
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
        Arc::new(Lane::new(tenant, queue, JobType::new(&format!("t{number}")).unwrap()))
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// One transaction that submits a job to each of these lanes.
    fn submit(rates: &mut Rates, lanes: &[Arc<Lane>], now: i64) -> Vec<DueRate> {
        rates.begin();
        for lane in lanes {
            rates.counted_of(lane, at(now)).minute.submitted += 1;
        }
        rates.due(at(now))
    }

    fn commit(rates: &mut Rates, lanes: &[Arc<Lane>], now: i64) -> Vec<DueRate> {
        let due = submit(rates, lanes, now);
        rates.commit();
        due
    }

    fn counts(due: &[DueRate]) -> Vec<(i64, u64, u64)> {
        due.iter().map(|due| (due.minute, due.whole.submitted, due.fresh.submitted)).collect()
    }

    #[test]
    fn a_write_hands_over_the_lanes_that_changed_since_the_last_one() {
        let mut rates = Rates::default();
        let lanes: Vec<Arc<Lane>> = (0..100).map(lane).collect();
        assert_eq!(commit(&mut rates, &lanes, 60_000).len(), 100);
        // An equal lane at another address is the same lane.
        let late = commit(&mut rates, &[lanes[7].clone(), lane(7)], 60_600);
        assert!(late.is_empty(), "a second has not passed");
        assert_eq!(counts(&commit(&mut rates, &[], 61_000)), [(1, 3, 2)]);
        assert!(commit(&mut rates, &[], 62_000).is_empty(), "nothing has happened");
        commit(&mut rates, &lanes[8..9], 62_500);
        assert_eq!(counts(&commit(&mut rates, &lanes[9..10], 120_000)), [(1, 2, 1), (2, 1, 1)]);
        assert_eq!(counts(&commit(&mut rates, &lanes[9..10], 121_000)), [(2, 2, 1)]);
    }

    #[test]
    fn a_transaction_that_fails_neither_loses_nor_repeats_what_was_counted() {
        let mut rates = Rates::default();
        let lane = [lane(7)];
        commit(&mut rates, &lane, 60_000);
        commit(&mut rates, &lane, 60_500);
        for _ in 0..3 {
            assert_eq!(counts(&submit(&mut rates, &lane, 61_000)), [(1, 3, 2)]);
            assert_eq!(counts(&submit(&mut rates, &lane, 120_000)), [(1, 2, 1), (2, 1, 1)]);
        }
        assert_eq!(counts(&commit(&mut rates, &[], 61_000)), [(1, 2, 1)]);
        assert_eq!(counts(&commit(&mut rates, &lane, 120_000)), [(2, 1, 1)]);
    }
}
