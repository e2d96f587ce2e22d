//! A claim's walk over all lanes that are open, in the order of claiming (M21): most urgent first, then longest eligible,
//! then first submitted. Aging (M23, `aging.rs`) and turns (M112) only change which head comes next; no row is rewritten for them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::ClaimRequest;
use super::capacity::Capacity;
use super::concurrency::{KeyDecision, Keys};
use super::fairness::FairQueue;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobRecord, JobState, Lane, QueueName, Seq};
use crate::limits;
use crate::store::config::{Config, Worker};
use crate::store::engine::{ClaimOrder, LaneCursor, StateCounts};
use crate::store::write_tx::WriteTx;

/// How many jobs of a lane are read on at once when there are several lanes.
const READ_AHEAD: usize = 16;
/// How many at least: where jobs of many lanes are mixed, some lanes have more than their share, and to read on in each of them
/// is a question each.
const READ_AHEAD_MIN: usize = 4;

/// States in which a job waits for its time.
const TIMED: [JobState; 3] = [JobState::Delayed, JobState::Retrying, JobState::Waiting];

/// One lane's jobs, read ahead in order; where jobs age, those of one rank, since the first of them has aged most.
pub(super) struct LaneScan {
    pub(super) lane: Arc<Lane>,
    /// The rank that its jobs end with; none if it goes on to the end of its lane.
    pub(super) rank: Option<u8>,
    pub(super) aging: Option<Duration>,
    pub(super) jobs: std::vec::IntoIter<JobRecord>,
    /// Its first job, as long as only its place is known.
    pub(super) unread: Option<ClaimOrder>,
    pub(super) last: Option<ClaimOrder>,
    pub(super) is_drained: bool,
    /// The room it needs.
    pub(super) slots: Vec<usize>,
    /// The fair queue it belongs to.
    pub(super) fair: Option<usize>,
}

/// Whose head is next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Candidate {
    Strand(usize),
    Fair(usize),
}

/// The walk.
pub(super) struct Search {
    pub(super) strands: Vec<LaneScan>,
    fair: Vec<FairQueue>,
    heads: BinaryHeap<Reverse<(ClaimOrder, Candidate)>>,
    room: Capacity,
    keys: Keys,
    config: Arc<Config>,
    now: Timestamp,
    set_aside: usize,
}

impl Search {
    pub(super) fn new(
        unit: &mut WriteTx<'_>,
        config: &Arc<Config>,
        worker: &Worker,
        request: &ClaimRequest,
        has_more_due: bool,
    ) -> Result<Search, StoreError> {
        let counts = unit.db()?.counts()?;
        let has_jobs = |counts: &StateCounts| {
            counts[JobState::Scheduled as usize] > 0
                || (has_more_due && TIMED.iter().any(|state| counts[*state as usize] > 0))
        };
        let open: Vec<Arc<Lane>> = counts
            .lanes
            .iter()
            .filter(|(lane, counts)| has_jobs(counts) && worker.takes(lane) && request.matches(lane))
            .map(|(lane, _)| lane.clone())
            .collect();
        let mut search = Search {
            strands: Vec::with_capacity(open.len()),
            fair: Vec::new(),
            heads: BinaryHeap::new(),
            room: Capacity::default(),
            keys: Keys::default(),
            config: config.clone(),
            now: unit.now,
            set_aside: 0,
        };
        search.open(unit, open)?;
        if has_more_due {
            search.promote_most_urgent(unit, request.limit)?;
        }
        // Of many lanes only the first jobs are looked at; the few that are taken from are read on. Of a single one all
        // that are wanted and one more, since a lane is read on as soon as its last job is taken.
        let share = 2 * request.limit.div_ceil(search.strands.len().max(1));
        let each = if search.strands.len() == 1 { request.limit + 1 } else { share.max(READ_AHEAD_MIN) };
        let plain: Vec<usize> =
            (0..search.strands.len()).filter(|at| search.strands[*at].aging.is_none()).collect();
        search.read_ahead(unit, &plain, each.clamp(1, limits::CLAIM_JOBS_MAX + 1))?;
        search.split_aging(unit, request.limit.clamp(1, limits::CLAIM_JOBS_MAX))?;
        for at in 0..search.strands.len() {
            search.seat(at);
        }
        for at in 0..search.fair.len() {
            search.seat_fair(at);
        }
        Ok(search)
    }

    /// Opens the lanes that no pause and no limit closes.
    fn open(&mut self, unit: &mut WriteTx<'_>, lanes: Vec<Arc<Lane>>) -> Result<(), StoreError> {
        let config = self.config.clone();
        let mut fair_queues: HashMap<QueueName, usize> = HashMap::new();
        for lane in lanes {
            if config.holds_on(&lane, self.now).next().is_some() {
                continue;
            }
            let Some(slots) = self.room.open(unit, &config, &lane)? else { continue };
            let mut fair = None;
            if !config.queues.is_empty() && config.is_fair(&lane.queue) {
                let known = fair_queues.get(&lane.queue).copied();
                let at = known.unwrap_or(self.fair.len());
                if known.is_none() {
                    self.fair.push(FairQueue::new(unit, lane.queue.clone())?);
                    fair_queues.insert(lane.queue.clone(), at);
                }
                fair = Some(at);
            }
            let aging = if config.queues.is_empty() { None } else { config.aging(&lane) };
            let jobs = Vec::new().into_iter();
            let is_drained = false;
            let (rank, unread, last) = (None, None, None);
            self.strands.push(LaneScan { lane, rank, aging, jobs, unread, last, is_drained, slots, fair });
        }
        Ok(())
    }

    /// More jobs are due than one commit moves, and those that came first were moved: also moves the most urgent ones of
    /// the open lanes, so that this claim chooses among all that are due (M21).
    fn promote_most_urgent(&self, unit: &mut WriteTx<'_>, wanted: usize) -> Result<(), StoreError> {
        let lanes: Vec<Arc<Lane>> = self.strands.iter().map(|strand| strand.lane.clone()).collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let each = wanted.min(limits::DUE_POSITIONS_MAX / lanes.len()).max(1);
        let due = unit.db()?.due_in(&lanes, self.now, each)?;
        // The first of each lane too: it may be its tenant's turn, or the other lanes may be at their limit.
        let mut places: Vec<ClaimOrder> = due.iter().filter_map(|places| places.first()).copied().collect();
        places.sort_unstable();
        places.truncate(limits::TICK_JOBS_PER_COMMIT);
        let mut others: Vec<ClaimOrder> =
            due.into_iter().flat_map(|places| places.into_iter().skip(1)).collect();
        others.sort_unstable();
        others.truncate(wanted);
        places.append(&mut others);
        let seqs: Vec<Seq> = places.into_iter().map(|place| place.seq).collect();
        unit.load(&seqs)?;
        seqs.into_iter().try_for_each(|seq| unit.apply_due_timers(seq))
    }

    pub(super) fn read_ahead(
        &mut self,
        unit: &mut WriteTx<'_>,
        which: &[usize],
        each: usize,
    ) -> Result<(), StoreError> {
        if which.is_empty() {
            return Ok(());
        }
        let cursors: Vec<LaneCursor> = which
            .iter()
            .map(|at| LaneCursor { lane: self.strands[*at].lane.clone(), after: self.strands[*at].last })
            .collect();
        let found = unit.db()?.ready(&cursors, each)?;
        for (at, mut jobs) in which.iter().zip(found) {
            let strand = &mut self.strands[*at];
            strand.is_drained = jobs.len() < each;
            if let Some(rank) = strand.rank {
                let own = jobs.iter().take_while(|job| ClaimOrder::of(job).rank == rank).count();
                strand.is_drained |= own < jobs.len();
                jobs.truncate(own);
            }
            strand.last = jobs.last().map(ClaimOrder::of).or(strand.last);
            strand.jobs = jobs.into_iter();
            strand.unread = None;
        }
        Ok(())
    }

    /// How many jobs to read of each of so many strands when so many are wanted in all: one more than are taken at least,
    /// since a strand is read on as soon as its last job is taken.
    pub(super) fn share(wanted: usize, strands: usize) -> usize {
        (2 * wanted / strands.max(1)).clamp(2, READ_AHEAD)
    }

    /// The place of a strand's head, as it has aged; none if it has no job left.
    pub(super) fn place(&self, at: usize) -> Option<ClaimOrder> {
        let strand = &self.strands[at];
        let place = strand.jobs.as_slice().first().map(ClaimOrder::of).or(strand.unread)?;
        Some(strand.aging.map_or(place, |every| place.aged(every, self.now)))
    }

    /// The jobs that were read and are probably taken first, up to so many.
    pub(super) fn front(&self, max: usize) -> Vec<Seq> {
        let aged = |strand: &LaneScan, job: &JobRecord| {
            let place = ClaimOrder::of(job);
            strand.aging.map_or(place, |every| place.aged(every, self.now))
        };
        let all = self
            .strands
            .iter()
            .flat_map(|strand| strand.jobs.as_slice().iter().map(move |job| aged(strand, job)));
        let mut places: Vec<ClaimOrder> = all.collect();
        places.sort_unstable();
        places.truncate(max);
        places.into_iter().map(|place| place.seq).collect()
    }

    /// Puts a strand's head where it is found.
    fn seat(&mut self, at: usize) {
        let Some(place) = self.place(at) else { return };
        let strand = &self.strands[at];
        match strand.fair {
            Some(fair) => self.fair[fair].push(&strand.lane.tenant, place, at),
            None => self.heads.push(Reverse((place, Candidate::Strand(at)))),
        }
    }

    fn seat_fair(&mut self, at: usize) {
        if let Some(place) = self.fair[at].place() {
            self.heads.push(Reverse((place, Candidate::Fair(at))));
        }
    }

    /// The next job that may run now.
    pub(super) fn next(&mut self, unit: &mut WriteTx<'_>, wanted: usize) -> Result<Option<Seq>, StoreError> {
        while let Some(Reverse((_, seat))) = self.heads.pop() {
            let config = self.config.clone();
            let (at, turn) = match seat {
                Candidate::Strand(at) => (at, None),
                Candidate::Fair(fair) => match self.fair[fair].pop(&config) {
                    Some((at, rank)) => (at, Some((fair, rank))),
                    None => continue,
                },
            };
            let found = self.next_of(unit, at, wanted)?;
            if let Some((fair, rank)) = turn {
                if found.is_some() {
                    let tenant = self.strands[at].lane.tenant.clone();
                    self.fair[fair].started(&config, rank, &tenant);
                }
                self.seat_fair(fair);
            }
            if found.is_some() {
                return Ok(found);
            }
            if self.set_aside >= limits::TICK_JOBS_PER_COMMIT {
                unit.wake();
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The head of a strand, if it may run now.
    fn next_of(
        &mut self,
        unit: &mut WriteTx<'_>,
        at: usize,
        wanted: usize,
    ) -> Result<Option<Seq>, StoreError> {
        // A lane whose limit is reached is left alone for the rest of this claim.
        if !self.room.has_room(&self.strands[at].slots) {
            return Ok(None);
        }
        if self.strands[at].unread.is_some() {
            self.read_ahead(unit, &[at], Search::share(wanted, 1))?;
        }
        let strand = &mut self.strands[at];
        let job = strand.jobs.next().expect("a strand that is seated has a job");
        if strand.jobs.as_slice().is_empty() && !strand.is_drained {
            // The more lanes, the less of what is wanted will come from this one.
            let share = READ_AHEAD.max(2 * wanted / self.strands.len());
            self.read_ahead(unit, &[at], share.min(limits::CLAIM_JOBS_MAX))?;
        }
        self.seat(at);
        let lane = self.strands[at].lane.clone();
        let (key, seq) = (job.concurrency, unit.cache_job(job));
        if let Some(key) = key
            && self.keys.take(unit, &self.config, &lane, key)? != KeyDecision::Free
        {
            unit.set_blocked(seq, true)?;
            self.set_aside += 1;
            return Ok(None);
        }
        self.room.take(&self.strands[at].slots);
        Ok(Some(seq))
    }

    /// Keeps what was used; says when a job that was kept back by a rate or a budget may be let through.
    pub(super) fn commit_claims(mut self, unit: &mut WriteTx<'_>) -> Result<Option<Timestamp>, StoreError> {
        for fair in self.fair {
            fair.write_back(unit);
        }
        self.keys.write_back(unit)?;
        if self.config.has_rates_per_key()
            && let Some(at) = unit.first_timer()?
        {
            self.room.throttle(at);
        }
        Ok(self.room.write_back(unit))
    }
}
