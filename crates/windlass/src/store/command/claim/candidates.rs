//! A claim's walk over all open lanes in claim order: most urgent first, then longest eligible, then first
//! submitted. Aging (`aging.rs`) and fairness only change which head comes next; they rewrite no row.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::ClaimRequest;
use super::aging::AgingLane;
use super::capacity::Capacity;
use super::concurrency::{KeyDecision, Keys};
use super::fairness::FairQueue;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobRecord, JobState, Lane, QueueName, Seq};
use crate::limits;
use crate::store::documents::config::{Config, Worker};
use crate::store::engine::{ClaimOrder, LaneCursor, StateCounts};
use crate::store::tx::write_tx::WriteTx;

/// How many jobs of a lane are read at once when there are several lanes.
const READ_AHEAD: usize = 16;
/// Lower bound for this: where jobs of many lanes are mixed, some lanes have more than their share, and each further
/// read is a query per lane.
const READ_AHEAD_MIN: usize = 4;

/// States in which a job waits for a time.
const TIMED: [JobState; 3] = [JobState::Delayed, JobState::Retrying, JobState::Waiting];

/// One lane's jobs, read ahead in order. Where jobs age, the jobs of one rank, because the first of them has aged most.
pub(super) struct LaneScan {
    pub(super) lane: Arc<Lane>,
    /// The last rank it covers; `None` if it extends to the end of its lane.
    pub(super) rank: Option<u8>,
    pub(super) aging: Option<Duration>,
    pub(super) jobs: std::vec::IntoIter<JobRecord>,
    pub(super) last: Option<ClaimOrder>,
    pub(super) is_drained: bool,
    /// A position at or before its first job, if nothing of it was read yet.
    pub(super) unread: Option<ClaimOrder>,
    /// The capacity slots it needs.
    pub(super) slots: Vec<usize>,
    /// The fair queue it belongs to.
    pub(super) fair: Option<usize>,
}

/// Where a head comes from: a scan, or the ranks of an aging lane that are not read yet. The position of the latter is a
/// lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Scan(usize),
    Lane(usize),
}

/// The source of the next head.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Candidate {
    Own(Source),
    Fair(usize),
}

/// The state of the walk.
pub(super) struct Search {
    pub(super) scans: Vec<LaneScan>,
    pub(super) aging: Vec<AgingLane>,
    pub(super) fair: Vec<FairQueue>,
    heads: BinaryHeap<Reverse<(ClaimOrder, Candidate)>>,
    capacity: Capacity,
    keys: Keys,
    config: Arc<Config>,
    pub(super) now: Timestamp,
    set_aside: usize,
    /// Jobs and positions that the engine returned.
    #[cfg(test)]
    pub(super) reads: usize,
}

impl Search {
    pub(super) fn new(
        tx: &mut WriteTx<'_>,
        config: &Arc<Config>,
        worker: &Worker,
        request: &ClaimRequest,
        has_more_due: bool,
    ) -> Result<Search, StoreError> {
        let counts = tx.db()?.counts()?;
        let has_jobs = |counts: &StateCounts| {
            counts[JobState::Scheduled as usize] > 0
                || (has_more_due && TIMED.iter().any(|state| counts[*state as usize] > 0))
        };
        let open: Vec<Arc<Lane>> = counts
            .lanes
            .iter()
            .filter(|(lane, counts)| has_jobs(counts) && worker.accepts(lane) && request.matches(lane))
            .map(|(lane, _)| lane.clone())
            .collect();
        let mut search = Search {
            scans: Vec::with_capacity(open.len()),
            aging: Vec::new(),
            fair: Vec::new(),
            heads: BinaryHeap::new(),
            capacity: Capacity::default(),
            keys: Keys::default(),
            config: config.clone(),
            now: tx.now,
            set_aside: 0,
            #[cfg(test)]
            reads: 0,
        };
        search.open(tx, open)?;
        if has_more_due {
            search.promote_most_urgent(tx, request.limit)?;
        }
        // Of many lanes only the first jobs are read, and more only where jobs are taken. Of a single lane, all wanted
        // jobs and one more are read, because a lane is read further as soon as its last job is taken.
        let lanes = search.scans.len() + search.aging.len();
        let share = 2 * request.limit.div_ceil(lanes.max(1));
        let each = if lanes == 1 { request.limit + 1 } else { share.max(READ_AHEAD_MIN) };
        let wanted = request.limit.clamp(1, limits::CLAIM_JOBS_MAX);
        search.read_plain(tx, wanted, each.clamp(1, limits::CLAIM_JOBS_MAX + 1))?;
        search.compare_aging(tx, wanted)?;
        let scans = (0..search.scans.len()).map(Source::Scan);
        for source in scans.chain((0..search.aging.len()).map(Source::Lane)) {
            search.push_head(source);
        }
        for at in 0..search.fair.len() {
            search.push_fair_head(at);
        }
        Ok(search)
    }

    /// Opens the lanes that are neither paused nor at a limit.
    fn open(&mut self, tx: &mut WriteTx<'_>, lanes: Vec<Arc<Lane>>) -> Result<(), StoreError> {
        let config = self.config.clone();
        let mut fair_queues: HashMap<QueueName, usize> = HashMap::new();
        for lane in lanes {
            if config.pauses_on(&lane, self.now).next().is_some() {
                continue;
            }
            let Some(slots) = self.capacity.open(tx, &config, &lane)? else { continue };
            let mut fair = None;
            if !config.queues.is_empty() && config.is_fair(&lane.queue) {
                let known = fair_queues.get(&lane.queue).copied();
                let at = known.unwrap_or(self.fair.len());
                if known.is_none() {
                    self.fair.push(FairQueue::new(tx, lane.queue.clone())?);
                    fair_queues.insert(lane.queue.clone(), at);
                }
                fair = Some(at);
            }
            let aging = if config.queues.is_empty() { None } else { config.aging(&lane) };
            if let Some(every) = aging {
                self.aging.push(AgingLane::new(lane, every, slots, fair));
                continue;
            }
            let jobs = Vec::new().into_iter();
            let (rank, last, is_drained, unread) = (None, None, false, None);
            self.scans.push(LaneScan { lane, rank, aging, jobs, last, is_drained, unread, slots, fair });
        }
        Ok(())
    }

    /// Called when more jobs are due than one commit moves, after the earliest were moved: also moves the most urgent
    /// ones of the open lanes, so that this claim chooses among all due jobs.
    fn promote_most_urgent(&self, tx: &mut WriteTx<'_>, wanted: usize) -> Result<(), StoreError> {
        let plain = self.scans.iter().map(|scan| &scan.lane);
        let lanes: Vec<Arc<Lane>> = plain.chain(self.aging.iter().map(|lane| &lane.lane)).cloned().collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let each = wanted.min(limits::DUE_POSITIONS_MAX / lanes.len()).max(1);
        let due = tx.db()?.due_in(&lanes, self.now, each)?;
        // Include the first job of each lane: it may be its tenant's turn, or the other lanes may be at their limit.
        let mut places: Vec<ClaimOrder> = due.iter().filter_map(|places| places.first()).copied().collect();
        places.sort_unstable();
        places.truncate(limits::TICK_JOBS_PER_COMMIT);
        let mut others: Vec<ClaimOrder> =
            due.into_iter().flat_map(|places| places.into_iter().skip(1)).collect();
        others.sort_unstable();
        others.truncate(wanted);
        places.append(&mut others);
        let seqs: Vec<Seq> = places.into_iter().map(|place| place.seq).collect();
        tx.load(&seqs)?;
        seqs.into_iter().try_for_each(|seq| tx.apply_due_timers(seq))
    }

    pub(super) fn read_ahead(
        &mut self,
        tx: &mut WriteTx<'_>,
        which: &[usize],
        each: usize,
    ) -> Result<(), StoreError> {
        if which.is_empty() {
            return Ok(());
        }
        let cursors: Vec<LaneCursor> = which
            .iter()
            .map(|at| LaneCursor { lane: self.scans[*at].lane.clone(), after: self.scans[*at].last })
            .collect();
        let found = tx.db()?.ready(&cursors, each)?;
        self.count_reads(found.iter().map(Vec::len).sum());
        for (at, mut jobs) in which.iter().zip(found) {
            let scan = &mut self.scans[*at];
            scan.is_drained = jobs.len() < each;
            if let Some(rank) = scan.rank {
                let own = jobs.iter().take_while(|job| ClaimOrder::new(job).rank == rank).count();
                scan.is_drained |= own < jobs.len();
                jobs.truncate(own);
            }
            scan.last = jobs.last().map(ClaimOrder::new).or(scan.last);
            scan.jobs = jobs.into_iter();
        }
        Ok(())
    }

    /// Counts jobs and positions that the engine returned; only tests ask for the number.
    #[cfg_attr(not(test), allow(unused_variables, clippy::unused_self, clippy::needless_pass_by_ref_mut))]
    pub(super) fn count_reads(&mut self, found: usize) {
        #[cfg(test)]
        {
            self.reads += found;
        }
    }

    /// How many jobs to read of each lane scan when `wanted` are needed in all: at least one more than will be taken,
    /// because a scan is read further as soon as its last job is taken.
    pub(super) fn jobs_per_scan(wanted: usize, scans: usize) -> usize {
        (2 * wanted / scans.max(1)).clamp(2, READ_AHEAD)
    }

    /// The position of a scan's head, with aging applied, or its lower bound; `None` if it has no job left.
    pub(super) fn place(&self, at: usize) -> Option<ClaimOrder> {
        let scan = &self.scans[at];
        let place = scan.unread.or_else(|| scan.jobs.as_slice().first().map(ClaimOrder::new))?;
        Some(scan.aging.map_or(place, |every| place.aged(every, self.now)))
    }

    /// Up to `max` jobs that were read and will probably be taken first.
    pub(super) fn front(&self, max: usize) -> Vec<Seq> {
        let aged = |scan: &LaneScan, job: &JobRecord| {
            let place = ClaimOrder::new(job);
            scan.aging.map_or(place, |every| place.aged(every, self.now))
        };
        let all =
            self.scans.iter().flat_map(|scan| scan.jobs.as_slice().iter().map(move |job| aged(scan, job)));
        let mut places: Vec<ClaimOrder> = all.collect();
        places.sort_unstable();
        places.truncate(max);
        places.into_iter().map(|place| place.seq).collect()
    }

    /// Whether the position of a source is only a lower bound.
    pub(super) fn is_bound(&self, source: Source) -> bool {
        match source {
            Source::Scan(at) => self.scans[at].unread.is_some(),
            Source::Lane(_) => true,
        }
    }

    fn lane(&self, source: Source) -> &Arc<Lane> {
        match source {
            Source::Scan(at) => &self.scans[at].lane,
            Source::Lane(at) => &self.aging[at].lane,
        }
    }

    /// Inserts the head of a source into the order.
    pub(super) fn push_head(&mut self, source: Source) {
        let (place, fair) = match source {
            Source::Scan(at) => (self.place(at), self.scans[at].fair),
            Source::Lane(at) => (self.aging[at].place(), self.aging[at].fair),
        };
        let Some(place) = place else { return };
        match fair {
            Some(fair) => {
                let tenant = self.lane(source).tenant.clone();
                self.fair[fair].push(&tenant, place, source);
            }
            None => self.heads.push(Reverse((place, Candidate::Own(source)))),
        }
    }

    fn push_fair_head(&mut self, at: usize) {
        if let Some(place) = self.fair[at].place() {
            self.heads.push(Reverse((place, Candidate::Fair(at))));
        }
    }

    /// The next job that may run now.
    pub(super) fn next(&mut self, tx: &mut WriteTx<'_>, wanted: usize) -> Result<Option<Seq>, StoreError> {
        while let Some(Reverse((_, candidate))) = self.heads.pop() {
            let config = self.config.clone();
            let (source, turn) = match candidate {
                Candidate::Own(source) => (source, None),
                Candidate::Fair(fair) => match self.pop_fair(fair, &config) {
                    Some((source, rank)) => (source, Some((fair, rank))),
                    None => continue,
                },
            };
            let found = match source {
                Source::Scan(at) if self.is_bound(source) => {
                    if self.capacity.has_capacity(&self.scans[at].slots) {
                        self.read_next_lanes(tx, at, wanted)?;
                    }
                    None
                }
                Source::Scan(at) => self.next_of(tx, at, wanted)?,
                Source::Lane(at) => {
                    // Its first job may be behind the bound, or gone: it takes its place once it is read.
                    if self.capacity.has_capacity(&self.aging[at].slots) {
                        self.read_next_rank(tx, at, wanted)?;
                    }
                    None
                }
            };
            if let Some((fair, rank)) = turn {
                if let (Some(_), Source::Scan(at)) = (found, source) {
                    let tenant = self.scans[at].lane.tenant.clone();
                    self.fair[fair].started(&config, rank, &tenant);
                }
                self.push_fair_head(fair);
            }
            if found.is_some() {
                return Ok(found);
            }
            if self.set_aside >= limits::TICK_JOBS_PER_COMMIT {
                tx.wake();
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Removes the lanes that come next, up to `max`, as long as they are not read yet.
    pub(super) fn pop_unread(&mut self, max: usize) -> Vec<usize> {
        let mut lanes = Vec::new();
        while lanes.len() < max
            && let Some(Reverse((_, Candidate::Own(Source::Scan(at))))) = self.heads.peek()
            && self.is_bound(Source::Scan(*at))
        {
            lanes.push(*at);
            self.heads.pop();
        }
        lanes
    }

    /// Removes the head of a fair queue whose turn it is; or its first one, if that is only a lower bound, because the
    /// queue's position among others follows from it.
    fn pop_fair(&mut self, fair: usize, config: &Config) -> Option<(Source, u8)> {
        match self.fair[fair].first() {
            Some((place, source)) if self.is_bound(source) => {
                let tenant = self.lane(source).tenant.clone();
                self.fair[fair].remove(&tenant, place, source);
                Some((source, place.rank))
            }
            _ => self.fair[fair].pop(config),
        }
    }

    /// The head of a scan, if it may run now.
    fn next_of(&mut self, tx: &mut WriteTx<'_>, at: usize, wanted: usize) -> Result<Option<Seq>, StoreError> {
        // A lane at its limit is skipped for the rest of this claim.
        if !self.capacity.has_capacity(&self.scans[at].slots) {
            return Ok(None);
        }
        let scan = &mut self.scans[at];
        let job = scan.jobs.next().expect("a queued scan has a job");
        if scan.jobs.as_slice().is_empty() && !scan.is_drained {
            // The more lanes there are, the fewer jobs will come from this one.
            let share = READ_AHEAD.max(2 * wanted / self.scans.len());
            self.read_ahead(tx, &[at], share.min(limits::CLAIM_JOBS_MAX))?;
        }
        self.push_head(Source::Scan(at));
        let lane = self.scans[at].lane.clone();
        let (key, seq) = (job.concurrency, tx.cache_job(job));
        if let Some(key) = key
            && self.keys.take(tx, &self.config, &lane, key)? != KeyDecision::Free
        {
            tx.set_blocked(seq, true)?;
            self.set_aside += 1;
            return Ok(None);
        }
        self.capacity.take(&self.scans[at].slots);
        Ok(Some(seq))
    }

    /// Stores what was used; returns when a job held back by a rate limit or a budget may be admitted.
    pub(super) fn commit_claims(mut self, tx: &mut WriteTx<'_>) -> Result<Option<Timestamp>, StoreError> {
        for fair in self.fair {
            fair.write_back(tx);
        }
        self.keys.write_back(tx)?;
        if self.config.has_rates_per_key()
            && let Some(at) = tx.first_timer()?
        {
            self.capacity.throttle(at);
        }
        Ok(self.capacity.write_back(tx))
    }
}
