//! Claiming: the most urgent jobs a worker may run, as many as it asks for. Pauses, limits and promotion are consulted
//! here, inside the commit, so that no claim ever sees an older pause (M57) or exceeds a limit (M110).

mod aging;
mod candidates;
mod capacity;
mod concurrency;
mod fairness;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::audit::RecordActor;
use crate::clock::Timestamp;
use crate::error::{StoreError, WorkError};
use crate::job::{Event, JobRecord, JobType, Lane, QueueName, Seq, Spec, WorkerId};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::documents::config::Worker;
use crate::store::engine::{JobDataKind, JobDataQuery};
use crate::store::notify::wakeup::WorkFilter;
use crate::store::query::job_details::all_there;
use crate::store::tx::write_tx::WriteTx;
use crate::ticket::Ticket;
pub(in crate::store) use aging::AgingTurns;
use candidates::Search;

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

    /// What it waits for: as asked for, or else as registered.
    fn interest(&self, worker: &Worker) -> WorkFilter {
        let registered = |any: bool| (!any).then_some(worker);
        WorkFilter {
            queues: self
                .queues
                .clone()
                .or(registered(worker.queues.is_empty()).map(|worker| worker.queues.clone())),
            types: self
                .types
                .clone()
                .or(registered(worker.types.is_empty()).map(|worker| worker.types.clone())),
        }
    }

    fn matches(&self, lane: &Lane) -> bool {
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
    pub job: JobRecord,
    /// What was submitted.
    pub spec: Spec,
    /// What earlier attempts saved.
    pub checkpoints: Vec<Checkpoint>,
}

impl Claimed {
    /// Bytes of its payload and checkpoints.
    fn bytes(&self) -> usize {
        let saved = self.checkpoints.iter().map(|checkpoint| checkpoint.value.len());
        self.spec.payload.bytes.len() + saved.sum::<usize>()
    }

    /// Its ticket, where tickets are on: verified by the store already, and offered to workers that verify it themselves
    /// (M94).
    pub fn ticket(&self) -> Option<&Ticket> {
        self.job.details.ticket.as_deref()
    }
}

/// What a claim answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClaimAnswer {
    /// The jobs, most urgent first.
    pub jobs: Vec<Claimed>,
    /// Whether the worker is paused.
    pub is_paused: bool,
    /// How long until a rate or a budget may let jobs start that it kept back from this claim (M111).
    pub throttled_for: Option<Duration>,
    /// Which jobs this claim is for: news of others are none for it.
    pub interest: WorkFilter,
}

impl ClaimAnswer {
    /// How long to wait for news of work before it is worth looking again anyway, beside so many others who wait and look
    /// every `backstop`.
    pub(crate) fn poll_interval(&self, backstop: Duration, others: usize) -> Duration {
        // Whatever a wake-up missed, one of many finds soon; all of them every second would be the polling they avoid.
        let crowd = u32::try_from(others / limits::POLL_CROWD).unwrap_or(u32::MAX);
        let most = limits::HEARTBEAT_EVERY.max(backstop);
        let every = backstop.saturating_mul(crowd.saturating_add(1)).min(most);
        self.throttled_for.map_or(every, |wait| wait.min(every))
    }

    /// Whether one of its jobs had been claimable for so long that somebody should have been told.
    pub(crate) fn has_waited(&self, now: Timestamp) -> bool {
        let waited = |claimed: &Claimed| {
            claimed.job.scheduled_at.is_some_and(|since| now.since(since) >= limits::NOTICE_MAX)
        };
        self.jobs.iter().any(waited)
    }
}

/// Claims jobs. Those beyond the first `starts` are claimed ahead, if they may be: their worker starts them later, or gives
/// them back.
pub(crate) fn claim(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    request: &ClaimRequest,
    starts: usize,
) -> Result<ClaimAnswer, WorkError> {
    caller.require(Permission::Work)?;
    let worker = tx.touch_worker(caller, request.worker)?;
    let has_more_due = tx.promote(limits::TICK_JOBS_PER_COMMIT)? >= limits::TICK_JOBS_PER_COMMIT;
    if has_more_due {
        // More are due than one commit moves: whoever finds nothing now looks again at once.
        tx.wake();
    }
    tx.wake_throttled(limits::TICK_JOBS_PER_COMMIT)?;
    let config = tx.config()?;
    if config.hold_on_worker(worker.id, tx.now).is_some() {
        return Ok(ClaimAnswer {
            is_paused: true,
            interest: request.interest(&worker),
            ..ClaimAnswer::default()
        });
    }
    let interest = request.interest(&worker);
    let limit = request.limit.min(limits::CLAIM_JOBS_MAX);
    let mut search = Search::new(tx, &config, &worker, request, has_more_due)?;
    let cause = RecordActor::worker(caller, worker.id);
    let (mut jobs, mut bytes) = (Vec::new(), 0);
    if limit > limits::CLAIM_BYTES_MAX / tx.env.options.payload_bytes_max.max(1) {
        // More than are read at once below.
        let front = search.front(limit);
        tx.raw(|db| db.expect_specs(&front))?;
    }
    while jobs.len() < limit && bytes < limits::CLAIM_BYTES_MAX {
        // So many that their payloads fit, however large each of them is.
        let fitting = (limits::CLAIM_BYTES_MAX - bytes) / tx.env.options.payload_bytes_max.max(1);
        let wanted = fitting.clamp(1, limit - jobs.len());
        let left = ByteBudget { jobs: wanted, bytes: limits::CLAIM_BYTES_MAX - bytes };
        let taken = take(tx, &mut search, left, starts.saturating_sub(jobs.len()), &cause, worker.id)?;
        let handed = load_claimed(tx, &taken)?;
        bytes += handed.iter().map(Claimed::bytes).sum::<usize>();
        jobs.extend(handed);
        if taken.len() < wanted {
            break;
        }
    }
    if !jobs.is_empty() {
        // From now on its silence ends leases: it counts from here.
        tx.mark_seen(worker, limits::POLL_INTERVAL)?;
    }
    let throttled_for = search.commit_claims(tx)?.map(|at| at.since(tx.now).max(Duration::from_millis(1)));
    Ok(ClaimAnswer { jobs, is_paused: false, throttled_for, interest })
}

/// What a claim may still take.
#[derive(Clone, Copy)]
struct ByteBudget {
    jobs: usize,
    bytes: usize,
}

/// Takes jobs until so many are taken, or their checkpoints have so many bytes; `starts` of them are started now.
fn take(
    tx: &mut WriteTx<'_>,
    search: &mut Search,
    ByteBudget { jobs: wanted, bytes: capacity }: ByteBudget,
    starts: usize,
    cause: &RecordActor,
    worker: WorkerId,
) -> Result<Vec<Seq>, StoreError> {
    let generation = tx.generation()?;
    let (mut taken, mut bytes) = (Vec::with_capacity(wanted.min(64)), 0);
    while taken.len() < wanted && bytes < capacity as u64 {
        let Some(seq) = search.next(tx, wanted - taken.len())? else { break };
        if !tx.admits(seq)? {
            continue;
        }
        let random = tx.env.entropy.next_u64();
        let event = if taken.len() >= starts && tx.job(seq)?.is_some_and(JobRecord::may_be_claimed_ahead) {
            Event::ClaimAhead { worker, generation, random }
        } else {
            Event::Claim { worker, generation, random }
        };
        if tx.apply(seq, &event, cause)?.is_ok() {
            bytes += tx.job(seq)?.map_or(0, |job| job.details.checkpoint_bytes);
            taken.push(seq);
        }
    }
    Ok(taken)
}

fn load_claimed(tx: &mut WriteTx<'_>, taken: &[Seq]) -> Result<Vec<Claimed>, StoreError> {
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    // The search has written what was decided before; claims change nothing of what was submitted.
    let specs = tx.raw(|db| db.specs(taken))?;
    let mut claimed = Vec::with_capacity(taken.len());
    for (seq, spec) in taken.iter().zip(specs) {
        let spec =
            spec.ok_or_else(|| StoreError::Damaged(format!("job {seq:?} has lost what was submitted")))?;
        let job = tx.job(*seq)?.expect("a claimed job is at hand").clone();
        let checkpoints = if job.has.checkpoints { checkpoints(tx, *seq)? } else { Vec::new() };
        // A step whose checkpoint was lost would be done twice.
        all_there(&job, "checkpoints", checkpoints.len(), job.details.checkpoints)?;
        claimed.push(Claimed { job, spec, checkpoints });
    }
    Ok(claimed)
}

fn checkpoints(tx: &mut WriteTx<'_>, seq: Seq) -> Result<Vec<Checkpoint>, StoreError> {
    let limit = limits::CHECKPOINTS_MAX;
    let query = JobDataQuery { seq, kind: JobDataKind::Checkpoint, name: None, above: None, limit };
    let facets = tx.db()?.facets(query)?;
    tx.learn_steps(seq, &facets);
    Ok(facets.into_iter().map(|facet| Checkpoint { step: facet.name, value: facet.body }).collect())
}
