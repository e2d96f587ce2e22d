//! Claiming: the most urgent jobs a worker may run, as many as it asks for. Pauses, limits and promotion are consulted
//! here, inside the commit, so that no claim ever sees an older pause (M57) or exceeds a limit (M110).

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::record::Cause;
use crate::error::{StoreError, WorkError};
use crate::job::{ConcurrencyKey, Event, Job, JobType, Lane, QueueName, Seq, Spec, State, WorkerId};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::config::{Config, Worker};
use crate::store::engine::{FacetKind, FacetQuery, LaneCursor, Part, Place};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::query::side::all_there;
use crate::store::unit::Unit;

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// From which queues; as registered if none.
    pub queues: Option<Vec<QueueName>>,
    /// Which types; as registered if none.
    pub types: Option<Vec<JobType>>,
    /// How many at most.
    pub limit: usize,
}

impl ClaimRequest {
    /// `limit` jobs of whatever the worker registered for.
    pub fn new(worker: WorkerId, limit: usize) -> ClaimRequest {
        ClaimRequest { worker, queues: None, types: None, limit }
    }

    fn wants(&self, lane: &Lane) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.contains(&lane.queue))
            && self.types.as_ref().is_none_or(|types| types.contains(&lane.job_type))
    }
}

/// A saved step (M70, M73).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its name.
    pub step: String,
    /// Its value, JSON.
    pub value: Arc<[u8]>,
}

/// A job that is the worker's to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The job, with its lease.
    pub job: Job,
    /// What was submitted.
    pub spec: Spec,
    /// What earlier attempts saved.
    pub checkpoints: Vec<Checkpoint>,
}

/// What a claim answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClaimAnswer {
    /// The jobs, most urgent first.
    pub jobs: Vec<Claimed>,
    /// Whether the worker is paused.
    pub is_paused: bool,
}

/// Claims jobs.
pub(crate) fn claim(
    unit: &mut Unit<'_>,
    caller: &Caller,
    request: &ClaimRequest,
) -> Result<ClaimAnswer, WorkError> {
    caller.must(Permission::Work)?;
    let worker = unit.worker_looks(caller, request.worker)?;
    if unit.promote(limits::TICK_JOBS_PER_COMMIT)? >= limits::TICK_JOBS_PER_COMMIT {
        // More are due than one commit moves: whoever finds nothing now looks again at once.
        unit.wake();
    }
    let config = unit.config()?;
    if config.hold_on_worker(worker.id, unit.now).is_some() {
        return Ok(ClaimAnswer { jobs: Vec::new(), is_paused: true });
    }
    let limit = request.limit.min(limits::CLAIM_JOBS_MAX);
    let mut search = Search::new(unit, &config, &worker, request)?;
    let cause = Cause { kind: "worker", id: worker.id.to_string(), reason: None, trace_id: None };
    let mut taken = Vec::with_capacity(limit.min(64));
    while taken.len() < limit {
        let Some(seq) = search.next(unit, limit - taken.len())? else { break };
        let event = Event::Claim { worker: worker.id };
        if unit.apply(seq, &event, &cause)?.is_ok() {
            taken.push(seq);
        }
    }
    if !taken.is_empty() {
        // From now on its silence ends leases: it counts from here.
        unit.heard_of(worker, limits::BACKSTOP_EVERY)?;
    }
    Ok(ClaimAnswer { jobs: hand_over(unit, &taken)?, is_paused: false })
}

fn hand_over(unit: &mut Unit<'_>, taken: &[Seq]) -> Result<Vec<Claimed>, StoreError> {
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let specs = unit.db()?.specs(taken)?;
    let mut claimed = Vec::with_capacity(taken.len());
    for (seq, spec) in taken.iter().zip(specs) {
        let spec =
            spec.ok_or_else(|| StoreError::Damaged(format!("job {seq:?} has lost what was submitted")))?;
        let job = unit.job(*seq)?.expect("a claimed job is at hand").clone();
        let checkpoints = if job.has.checkpoints { checkpoints(unit, *seq)? } else { Vec::new() };
        // A step whose checkpoint was lost would be done twice.
        all_there(&job, "checkpoints", checkpoints.len(), job.details.checkpoints)?;
        claimed.push(Claimed { job, spec, checkpoints });
    }
    Ok(claimed)
}

fn checkpoints(unit: &mut Unit<'_>, seq: Seq) -> Result<Vec<Checkpoint>, StoreError> {
    let limit = limits::CHECKPOINTS_MAX;
    let query = FacetQuery { seq, kind: FacetKind::Checkpoint, name: None, above: None, limit };
    let facets = unit.db()?.facets(query)?;
    Ok(facets.into_iter().map(|facet| Checkpoint { step: facet.name, value: facet.body }).collect())
}

/// One lane's jobs, read ahead in order.
struct Ahead {
    lane: Arc<Lane>,
    jobs: std::vec::IntoIter<Job>,
    last: Option<Place>,
    is_drained: bool,
    limits: Vec<usize>,
}

/// A walk over all open lanes in the order of claiming.
struct Search {
    lanes: Vec<Ahead>,
    heads: BinaryHeap<Reverse<(Place, usize)>>,
    room: Vec<u64>,
    running_by_key: HashMap<ConcurrencyKey, u64>,
    config: Arc<Config>,
    set_aside: usize,
}

impl Search {
    fn new(
        unit: &mut Unit<'_>,
        config: &Arc<Config>,
        worker: &Worker,
        request: &ClaimRequest,
    ) -> Result<Search, StoreError> {
        let now = unit.now;
        let counts = unit.db()?.counts()?;
        let open: Vec<Arc<Lane>> = counts
            .lanes
            .iter()
            .filter(|(lane, counts)| {
                counts[State::Scheduled as usize] > 0 && worker.takes(lane) && request.wants(lane)
            })
            .map(|(lane, _)| lane.clone())
            .collect();
        let mut search = Search {
            lanes: Vec::with_capacity(open.len()),
            heads: BinaryHeap::new(),
            room: Vec::new(),
            running_by_key: HashMap::new(),
            config: config.clone(),
            set_aside: 0,
        };
        let mut places: HashMap<Part, usize> = HashMap::new();
        for lane in open {
            if config.holds_on(&lane, now).next().is_some() {
                continue;
            }
            let limits = search.room_for(unit, &lane, &mut places)?;
            if limits.iter().all(|at| search.room[*at] > 0) {
                let jobs = Vec::new().into_iter();
                search.lanes.push(Ahead { lane, jobs, last: None, is_drained: false, limits });
            }
        }
        // Of many lanes only the first jobs are looked at; the few that are taken from are read on.
        let share = 2 * request.limit.div_ceil(search.lanes.len().max(1));
        let each = if search.lanes.len() == 1 { request.limit } else { share.min(READ_AHEAD) };
        let all: Vec<usize> = (0..search.lanes.len()).collect();
        search.read_ahead(unit, &all, each.clamp(1, limits::CLAIM_JOBS_MAX))?;
        Ok(search)
    }

    /// The limits that count for a lane, as places in `room`.
    fn room_for(
        &mut self,
        unit: &mut Unit<'_>,
        lane: &Lane,
        places: &mut HashMap<Part, usize>,
    ) -> Result<Vec<usize>, StoreError> {
        let mut found = Vec::new();
        for (part, limit) in self.config.running_limits(lane) {
            if let Some(at) = places.get(&part) {
                found.push(*at);
                continue;
            }
            let running = unit.db()?.counts()?.running(&part);
            self.room.push(limit.saturating_sub(running));
            let at = self.room.len() - 1;
            places.insert(part, at);
            found.push(at);
        }
        Ok(found)
    }

    fn read_ahead(&mut self, unit: &mut Unit<'_>, which: &[usize], each: usize) -> Result<(), StoreError> {
        if which.is_empty() {
            return Ok(());
        }
        let cursors: Vec<LaneCursor> = which
            .iter()
            .map(|at| LaneCursor { lane: self.lanes[*at].lane.clone(), after: self.lanes[*at].last })
            .collect();
        let found = unit.db()?.ready(&cursors, each)?;
        for (at, jobs) in which.iter().zip(found) {
            let lane = &mut self.lanes[*at];
            lane.is_drained = jobs.len() < each;
            lane.last = jobs.last().map(Place::of).or(lane.last);
            lane.jobs = jobs.into_iter();
            if let Some(first) = lane.jobs.as_slice().first() {
                self.heads.push(Reverse((Place::of(first), *at)));
            }
        }
        Ok(())
    }

    /// The next job that may run now.
    fn next(&mut self, unit: &mut Unit<'_>, wanted: usize) -> Result<Option<Seq>, StoreError> {
        while let Some(Reverse((_, at))) = self.heads.pop() {
            let lane = &mut self.lanes[at];
            let job = lane.jobs.next().expect("a lane in the heap has a job");
            // A lane whose limit is reached is left alone for the rest of this claim.
            if lane.limits.iter().any(|limit| self.room[*limit] == 0) {
                continue;
            }
            match lane.jobs.as_slice().first() {
                Some(head) => self.heads.push(Reverse((Place::of(head), at))),
                None if lane.is_drained => {}
                None => self.read_ahead(unit, &[at], wanted.clamp(READ_AHEAD, limits::CLAIM_JOBS_MAX))?,
            }
            let (key, seq) = (job.concurrency, unit.remember(job));
            if let Some(key) = key
                && !self.has_room_for_key(unit, key, at)?
            {
                unit.set_blocked(seq, true)?;
                self.set_aside += 1;
                if self.set_aside >= limits::TICK_JOBS_PER_COMMIT {
                    unit.wake();
                    return Ok(None);
                }
                continue;
            }
            for limit in &self.lanes[at].limits {
                self.room[*limit] -= 1;
            }
            return Ok(Some(seq));
        }
        Ok(None)
    }

    /// Whether one more job with this key may run; if so, it is counted.
    fn has_room_for_key(
        &mut self,
        unit: &mut Unit<'_>,
        key: ConcurrencyKey,
        at: usize,
    ) -> Result<bool, StoreError> {
        let limit = self.config.running_per_key(&self.lanes[at].lane);
        let running = match self.running_by_key.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let filter =
                    Filter { concurrency: Some(key), states: vec![State::Running], ..Filter::default() };
                // Counted for all lanes at once, and another lane's queue may allow more than this one's.
                let settings = self.config.queues.values();
                let most = settings.filter_map(|settings| settings.max_running_per_key).fold(limit, u64::max);
                let limit = usize::try_from(most).unwrap_or(usize::MAX);
                let holders = unit.db()?.scan(&Scan { filter, order: Order::Oldest, after: None, limit })?;
                unknown.insert(holders.len() as u64)
            }
        };
        let has_room = *running < limit;
        *running += u64::from(has_room);
        Ok(has_room)
    }
}

/// How many jobs of each lane are read at once when there are several lanes.
const READ_AHEAD: usize = 16;
