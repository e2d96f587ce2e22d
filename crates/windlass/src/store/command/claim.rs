//! Claiming: the most urgent jobs a worker may run, up to the number it requests. Pauses, limits and promotion are
//! evaluated inside the commit, so that no claim ever uses an outdated pause or exceeds a limit.

mod aging;
mod candidates;
mod capacity;
mod concurrency;
mod fairness;
mod lane_heads;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::effects::audit::RecordActor;
use crate::clock::Timestamp;
use crate::error::{StoreError, WorkError};
use crate::job::{JobEvent, JobRecord, JobState, JobType, Lane, QueueName, Seq, Spec, WorkerId};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::documents::config::Worker;
use crate::store::engine::{JobDataKind, JobDataQuery, is_row_damage};
use crate::store::notify::wakeup::WorkFilter;
use crate::store::query::job_details::{DecidedGroup, all_there};
use crate::store::tx::write_tx::WriteTx;
use crate::ticket::Ticket;
pub(in crate::store) use aging::{AgingHeads, AgingTurns};
use candidates::Search;
pub(in crate::store) use lane_heads::LaneHeads;
#[cfg(feature = "postgres")]
pub(in crate::store) use lane_heads::read_ahead;

/// A worker's claim request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The claiming worker.
    pub worker: WorkerId,
    /// The queues to claim from; those registered if `None`.
    pub queues: Option<Vec<QueueName>>,
    /// The types to claim; those registered if `None`.
    pub types: Option<Vec<JobType>>,
    /// Maximum number of jobs.
    pub limit: usize,
}

impl ClaimRequest {
    /// Claims up to `limit` jobs of any queue and type the worker is registered for.
    pub fn new(worker: WorkerId, limit: usize) -> ClaimRequest {
        ClaimRequest { worker, queues: None, types: None, limit }
    }

    /// The queues and types of the request, or else those registered.
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
            version: worker.version.clone(),
        }
    }

    fn matches(&self, lane: &Lane) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.contains(&lane.queue))
            && self.types.as_ref().is_none_or(|types| types.contains(&lane.job_type))
    }
}

/// A saved step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The step's name.
    pub step: String,
    /// The value, as JSON.
    pub value: Arc<[u8]>,
}

/// A claimed job.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedJob {
    /// The job, with its lease.
    pub job: JobRecord,
    /// The job as submitted.
    pub spec: Spec,
    /// Checkpoints saved by earlier attempts.
    pub checkpoints: Vec<Checkpoint>,
    /// Decided groups of children, if a server sent them with the job.
    pub groups: Vec<DecidedGroup>,
}

impl ClaimedJob {
    /// Size of the payload and checkpoints in bytes.
    fn bytes(&self) -> usize {
        let saved = self.checkpoints.iter().map(|checkpoint| checkpoint.value.len());
        self.spec.payload.bytes.len() + saved.sum::<usize>()
    }

    /// The job's ticket, if tickets are enabled. The store has already verified it; workers can verify it
    /// themselves.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.job.details.ticket.as_deref()
    }
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ClaimAnswer {
    /// The jobs, most urgent first.
    pub jobs: Vec<ClaimedJob>,
    /// Whether the worker is paused.
    pub is_paused: bool,
    /// How long until a rate limit or a budget may admit jobs that it held back from this claim.
    pub throttled_for: Option<Duration>,
    /// Queues and types this claim matches; used to filter wake-ups.
    pub interest: WorkFilter,
}

impl ClaimAnswer {
    /// How long to wait for a wake-up before polling again, given the number of `others` that wait and poll every
    /// `backstop`.
    pub(crate) fn poll_interval(&self, backstop: Duration, others: usize) -> Duration {
        // A missed wake-up is soon found by one of many waiters. Polling by all of them every second would be the load
        // that wake-ups avoid.
        let crowd = u32::try_from(others / limits::POLL_CROWD).unwrap_or(u32::MAX);
        let most = limits::HEARTBEAT_EVERY.max(backstop);
        let every = backstop.saturating_mul(crowd.saturating_add(1)).min(most);
        self.throttled_for.map_or(every, |wait| wait.min(every))
    }

    /// Whether one of its jobs had been claimable for so long that a wake-up should have been sent.
    pub(crate) fn has_waited(&self, now: Timestamp) -> bool {
        let waited = |claimed: &ClaimedJob| {
            claimed.job.scheduled_at.is_some_and(|since| now.since(since) >= limits::NOTICE_MAX)
        };
        self.jobs.iter().any(waited)
    }
}

/// Claims jobs. Those beyond the first `starts` are claimed ahead, if allowed: the worker starts them later or returns
/// them.
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
        // More jobs are due than one commit moves: a claim that finds nothing now retries immediately.
        tx.wake();
    }
    tx.wake_throttled(limits::TICK_JOBS_PER_COMMIT)?;
    let config = tx.config()?;
    if config.worker_pause(worker.id, tx.now).is_some() {
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
    let (mut jobs, mut bytes, mut damaged) = (Vec::new(), 0, 0);
    if limit > limits::CLAIM_BYTES_MAX / tx.env.options.payload_bytes_max.max(1) {
        // More than are read at once below.
        let front = search.front(limit);
        tx.raw(|db| db.prefetch().map_or(Ok(()), |engine| engine.expect_specs(&front)))?;
    }
    while jobs.len() < limit && bytes < limits::CLAIM_BYTES_MAX {
        // So many that their payloads fit at the maximum payload size.
        let fitting = (limits::CLAIM_BYTES_MAX - bytes) / tx.env.options.payload_bytes_max.max(1);
        let wanted = fitting.clamp(1, limit - jobs.len());
        let left = ByteBudget { jobs: wanted, bytes: limits::CLAIM_BYTES_MAX - bytes };
        let taken = take(tx, &mut search, left, starts.saturating_sub(jobs.len()), &cause, worker.id)?;
        let handed = load_claimed(tx, &taken)?;
        damaged += taken.len() - handed.len();
        bytes += handed.iter().map(ClaimedJob::bytes).sum::<usize>();
        jobs.extend(handed);
        if damaged >= limits::CLAIM_JOBS_MAX {
            // The next claim continues behind them.
            tx.wake();
            break;
        }
        if taken.len() < wanted {
            break;
        }
    }
    if !jobs.is_empty() {
        // From now on the worker's silence ends leases; the period starts here.
        tx.mark_seen(worker, limits::POLL_INTERVAL)?;
    }
    let throttled_for = search.commit_claims(tx)?.map(|at| at.since(tx.now).max(Duration::from_millis(1)));
    Ok(ClaimAnswer { jobs, is_paused: false, throttled_for, interest })
}

/// The remaining capacity of a claim.
#[derive(Clone, Copy)]
struct ByteBudget {
    jobs: usize,
    bytes: usize,
}

/// Takes jobs until the number or the size of their checkpoints reaches the limit; the first `starts` of them are
/// started now.
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
        if !tx.check_ticket(seq)? {
            continue;
        }
        let random = tx.env.entropy.next_u64();
        let event = if taken.len() >= starts && tx.job(seq)?.is_some_and(JobRecord::may_be_claimed_ahead) {
            JobEvent::ClaimAhead { worker, generation, random }
        } else {
            JobEvent::Claim { worker, generation, random }
        };
        if tx.apply(seq, &event, cause)?.is_ok() {
            bytes += tx.job(seq)?.map_or(0, |job| job.details.checkpoint_bytes);
            taken.push(seq);
        }
    }
    Ok(taken)
}

/// The taken jobs with what a worker needs. Those whose data is damaged end as failed, and are left out.
fn load_claimed(tx: &mut WriteTx<'_>, taken: &[Seq]) -> Result<Vec<ClaimedJob>, StoreError> {
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    // The search has flushed earlier changes; claims do not change specs.
    let specs = tx.raw(|db| db.specs_or_damage(taken))?;
    let mut claimed = Vec::with_capacity(taken.len());
    let mut has_ended = false;
    for (seq, spec) in taken.iter().zip(specs) {
        let found = match spec {
            Ok(spec) => with_checkpoints(tx, *seq, spec),
            Err(damage) => Err(StoreError::Damaged(damage)),
        };
        // The others are handed out.
        match found {
            Ok(found) => claimed.push(found),
            Err(StoreError::Damaged(damage)) if is_row_damage(&damage) => {
                tx.end_damaged(*seq, damage)?;
                has_ended = true;
            }
            Err(error) => return Err(error),
        }
    }
    if has_ended {
        // The end of a child may have cancelled its siblings in the same claim.
        let mut running = Vec::with_capacity(claimed.len());
        for one in claimed {
            let is_same = |job: &JobRecord| job.state == JobState::Running && job.fence == one.job.fence;
            if tx.job(one.job.seq)?.is_some_and(is_same) {
                running.push(one);
            }
        }
        claimed = running;
    }
    Ok(claimed)
}

fn with_checkpoints(tx: &mut WriteTx<'_>, seq: Seq, spec: Spec) -> Result<ClaimedJob, StoreError> {
    let job = tx.job(seq)?.expect("a claimed job is at hand").clone();
    let checkpoints = if job.has.checkpoints { checkpoints(tx, seq)? } else { Vec::new() };
    // A step whose checkpoint was lost would run twice.
    all_there(&job, "checkpoints", checkpoints.len(), job.details.checkpoints)?;
    Ok(ClaimedJob { job, spec, checkpoints, groups: Vec::new() })
}

fn checkpoints(tx: &mut WriteTx<'_>, seq: Seq) -> Result<Vec<Checkpoint>, StoreError> {
    let limit = limits::CHECKPOINTS_MAX;
    let query = JobDataQuery { seq, kind: JobDataKind::Checkpoint, name: None, above: None, limit };
    let job_data = tx.db()?.job_data(query)?;
    tx.cache_steps(seq, &job_data);
    Ok(job_data.into_iter().map(|data| Checkpoint { step: data.name, value: data.body }).collect())
}
