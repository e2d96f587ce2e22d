//! What a running attempt writes besides its outcome: checkpoints, progress, log lines and partial output. Every write
//! names job and fence; a stale write changes nothing.

mod stream;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use self::stream::StreamBlock;
use super::heartbeat::check_progress;
use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem, WorkError};
use crate::job::{Fence, JobId, JobRecord, Progress, WorkerId, check_text, cut, start as start_job};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::caller::{Caller, Permission};
use crate::store::documents::config::encode;
use crate::store::engine::{JobData, JobDataKind, JobDataWrite};
use crate::store::tx::write_tx::WriteTx;

/// Identifies the claim on whose behalf a worker writes: job, fence and worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRef {
    /// The claimed job.
    pub job: JobId,
    /// The fence it was claimed with.
    pub fence: Fence,
    /// The worker that claimed it. `None` only for HTTP calls that name no worker; the fence alone identifies the claim
    /// then.
    pub worker: Option<WorkerId>,
}

impl LeaseRef {
    /// The claim of this worker.
    pub fn new(job: JobId, fence: Fence, worker: WorkerId) -> LeaseRef {
        LeaseRef { job, fence, worker: Some(worker) }
    }
}

/// When a step was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTime {
    /// The time of the commit.
    pub at: Timestamp,
    /// The attempt that saved it.
    pub attempt: u32,
    /// How many steps the job had with it: the order of steps that were saved in one commit.
    #[serde(default)]
    pub place: u64,
}

/// A line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When it was written.
    pub at: Timestamp,
    /// The attempt that wrote it.
    pub attempt: u32,
    /// The text of the line.
    pub text: String,
}

/// A write for a running job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AttemptWrite {
    /// A step's result, or a checkpoint of progress.
    Checkpoint {
        /// The step's name.
        step: String,
        /// The value, as JSON.
        value: Vec<u8>,
    },
    /// The progress of the job.
    Progress(Progress),
    /// Lines for the job's log.
    Logs(Vec<String>),
    /// Chunks of partial output.
    Stream {
        /// How many chunks this attempt has sent before them; chunks that are stored already are left out, so that the
        /// write can be repeated. If `None`, all are appended.
        offset: Option<u64>,
        /// The chunks, each any JSON.
        chunks: Vec<Vec<u8>>,
    },
}

/// The writes of one job among those of several.
#[derive(Debug, Clone, PartialEq)]
pub struct JobWrites {
    /// The job.
    pub job: JobId,
    /// The fence it was claimed with.
    pub fence: Fence,
    /// All are written, or none.
    pub writes: Vec<AttemptWrite>,
}

/// The result of the writes of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWritesResult {
    /// They are written.
    Saved,
    /// The lease was lost: nothing was written.
    Stale,
    /// They are invalid: nothing was written, and the lease continues.
    Rejected(FieldError),
}

/// Applies writes for several jobs of a worker in one commit: for each job all or none, independently of the others.
pub(crate) fn record_each(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    worker: WorkerId,
    jobs: &[JobWrites],
) -> Result<Vec<JobWritesResult>, WorkError> {
    caller.require(Permission::Work)?;
    if jobs.len() > limits::OUTCOMES_PER_CALL_MAX {
        let problem = FieldProblem::TooLong { length: jobs.len(), limit: limits::OUTCOMES_PER_CALL_MAX };
        return Err(FieldError::new("jobs", problem).into());
    }
    tx.worker_calls(caller, worker)?;
    let each = jobs.iter().map(|JobWrites { job, fence, writes }| {
        match record(tx, caller, LeaseRef::new(*job, *fence, worker), writes) {
            Ok(()) => Ok(JobWritesResult::Saved),
            // Everything that can be refused is checked before the first write of a job.
            Err(WorkError::Invalid(invalid)) => Ok(JobWritesResult::Rejected(invalid)),
            Err(WorkError::Stale(_) | WorkError::NoSuchJob(_)) => Ok(JobWritesResult::Stale),
            Err(other) => Err(other),
        }
    });
    each.collect()
}

/// Applies writes for a running job, all or none.
pub(crate) fn record(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    lease: LeaseRef,
    writes: &[AttemptWrite],
) -> Result<(), WorkError> {
    caller.require(Permission::Work)?;
    check_all(writes, tx.env.options.payload_bytes_max)?;
    let job = tx.in_hand(caller, lease)?;
    let job = tx.started(job);
    check_room(tx, &job, writes)?;
    apply(tx, job, writes)?;
    Ok(())
}

/// Writes for a job that is held, after [`check_all`] and [`check_room`]. Returns the job.
pub(super) fn apply(
    tx: &mut WriteTx<'_>,
    mut job: JobRecord,
    writes: &[AttemptWrite],
) -> Result<JobRecord, WorkError> {
    for write in writes {
        match write {
            AttemptWrite::Checkpoint { step, value } => tx.save_checkpoint(&mut job, step, value)?,
            AttemptWrite::Progress(progress) => job.details_mut().progress = Some(progress.clone()),
            AttemptWrite::Logs(lines) => tx.append_logs(&mut job, lines),
            AttemptWrite::Stream { offset, chunks } => tx.append_stream(&mut job, *offset, chunks)?,
        }
    }
    tx.put(job.clone());
    Ok(job)
}

/// Marks jobs that were claimed ahead as started; jobs that are no longer held are skipped.
pub(crate) fn start(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    worker: WorkerId,
    started: &[(JobId, Fence)],
) -> Result<(), WorkError> {
    caller.require(Permission::Work)?;
    let ids: Vec<JobId> = started.iter().map(|(job, _)| *job).collect();
    let found = tx.find(&ids)?;
    for ((_, fence), seq) in started.iter().zip(found) {
        let Some(seq) = seq else { continue };
        if let Some(job) = tx.held_job(seq, worker, *fence)? {
            tx.started(job);
        }
    }
    Ok(())
}

/// Checks what can be checked without the store.
pub(super) fn check_all(writes: &[AttemptWrite], payload_bytes_max: usize) -> Result<(), FieldError> {
    writes.iter().try_for_each(|write| check(write, payload_bytes_max))
}

fn check(write: &AttemptWrite, payload_bytes_max: usize) -> Result<(), FieldError> {
    match write {
        AttemptWrite::Checkpoint { step, value } => {
            check_step("step", step)?;
            if value.len() > payload_bytes_max {
                let problem = FieldProblem::TooLong { length: value.len(), limit: payload_bytes_max };
                return Err(FieldError::new("value", problem));
            }
            Ok(())
        }
        AttemptWrite::Progress(progress) => check_progress("progress", progress),
        AttemptWrite::Logs(lines) if lines.len() > limits::LOG_LINES_PER_CALL_MAX => {
            let problem =
                FieldProblem::TooLong { length: lines.len(), limit: limits::LOG_LINES_PER_CALL_MAX };
            Err(FieldError::new("logs", problem))
        }
        AttemptWrite::Logs(_) => Ok(()),
        AttemptWrite::Stream { chunks, .. } => stream::check(chunks),
    }
}

/// Refuses checkpoints beyond the allowed number or size, and output after a gap, before anything is written: a single
/// write could not be undone.
pub(super) fn check_room(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    writes: &[AttemptWrite],
) -> Result<(), WorkError> {
    for write in writes {
        if let AttemptWrite::Stream { offset, chunks } = write {
            job.details.stream.unwrap_or_default().known(job.attempt, *offset, chunks.len())?;
        }
    }
    let named: BTreeMap<&str, usize> = writes
        .iter()
        .filter_map(|write| match write {
            AttemptWrite::Checkpoint { step, value } => Some((step.as_str(), value.len())),
            AttemptWrite::Progress(_) | AttemptWrite::Logs(_) | AttemptWrite::Stream { .. } => None,
        })
        .collect_ordered();
    let kept = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let (mut count, mut bytes) = (kept(job.details.checkpoints), kept(job.details.checkpoint_bytes));
    let (count_max, bytes_max) = (limits::CHECKPOINTS_MAX, limits::CHECKPOINTS_BYTES_MAX);
    let added: usize = named.values().sum();
    if count.saturating_add(named.len()) <= count_max && bytes.saturating_add(added) <= bytes_max {
        return Ok(());
    }
    for (step, size) in named {
        let before = tx.checkpoint_bytes(job, step)?;
        count += usize::from(before.is_none());
        bytes = bytes.saturating_add(size).saturating_sub(before.map_or(0, kept));
    }
    if count > count_max {
        return Err(FieldError::new("step", FieldProblem::TooLong { length: count, limit: count_max }).into());
    }
    if bytes > bytes_max {
        return Err(
            FieldError::new("value", FieldProblem::TooManyBytes { length: bytes, limit: bytes_max }).into()
        );
    }
    Ok(())
}

/// Checks that the name of a step or signal is within its limits.
pub(crate) fn check_step(field: &str, name: &str) -> Result<(), FieldError> {
    if name.is_empty() {
        return Err(FieldError::new(field, FieldProblem::Missing));
    }
    check_text(field, Some(name), limits::STEP_NAME_CHARS_MAX)
}

impl WriteTx<'_> {
    /// The job that this claim currently holds.
    pub(crate) fn in_hand(&mut self, caller: &Caller, lease: LeaseRef) -> Result<JobRecord, WorkError> {
        let Some(seq) = self.find_readable(lease.job)? else { return Err(WorkError::NoSuchJob(lease.job)) };
        self.apply_due_timers(seq)?;
        let job = self.job(seq)?.filter(|job| caller.can_see(&job.lane.tenant));
        let Some(job) = job.cloned() else { return Err(WorkError::NoSuchJob(lease.job)) };
        if let Some(worker) = lease.worker {
            // Checked before the fence: a caller that may not act for this worker learns nothing about its fences.
            self.known_worker(caller, worker)?;
        }
        let stale = WorkError::Stale(lease.job);
        let holder = job.lease.map(|lease| lease.worker).filter(|_| job.is_held_with(lease.fence));
        let Some(worker) = holder else { return Err(stale) };
        match self.worker_calls(caller, lease.worker.unwrap_or(worker)) {
            // The lease belongs to a worker that this caller may not act for.
            Err(WorkError::NoSuchWorker(_)) if lease.worker.is_none() => return Err(stale),
            answer => answer?,
        };
        self.held_job(seq, lease.worker.unwrap_or(worker), lease.fence)?.ok_or(stale)
    }

    /// Starts the job if it was only claimed ahead: its worker is working on it.
    pub(crate) fn started(&mut self, mut job: JobRecord) -> JobRecord {
        if job.has.claim_ahead {
            start_job(&mut job, self.now);
            self.put(job.clone());
        }
        job
    }

    /// Saves a checkpoint; the caller puts the job.
    pub(crate) fn save_checkpoint(
        &mut self,
        job: &mut JobRecord,
        step: &str,
        value: &[u8],
    ) -> Result<(), WorkError> {
        let before = self.checkpoint_bytes(job, step)?;
        let (limit, bytes_max) = (limits::CHECKPOINTS_MAX, limits::CHECKPOINTS_BYTES_MAX as u64);
        let kept = &job.details;
        if before.is_none() && kept.checkpoints >= limit as u64 {
            return Err(FieldError::new("step", FieldProblem::TooLong { length: limit + 1, limit }).into());
        }
        let bytes = (kept.checkpoint_bytes + value.len() as u64).saturating_sub(before.unwrap_or(0));
        if bytes > bytes_max {
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            let problem = FieldProblem::TooManyBytes { length, limit: limits::CHECKPOINTS_BYTES_MAX };
            return Err(FieldError::new("value", problem).into());
        }
        if before.is_none() || bytes != kept.checkpoint_bytes {
            let details = job.details_mut();
            details.checkpoints += u64::from(before.is_none());
            details.checkpoint_bytes = bytes;
            job.has.checkpoints = true;
        }
        self.write_job_data(JobDataWrite::Put(JobData {
            seq: job.seq,
            kind: JobDataKind::Checkpoint,
            name: step.to_owned(),
            number: 0,
            body: value.into(),
        }));
        self.write_job_data(JobDataWrite::Put(JobData {
            seq: job.seq,
            kind: JobDataKind::StepTime,
            name: step.to_owned(),
            number: 0,
            body: encode(&StepTime { at: self.now, attempt: job.attempt, place: job.details.checkpoints })
                .into(),
        }));
        Ok(())
    }

    /// Appends lines to a job's log and drops the oldest lines beyond the limit; the caller puts the job.
    pub(crate) fn append_logs(&mut self, job: &mut JobRecord, lines: &[String]) {
        for line in lines {
            let mut text = line.clone();
            cut(&mut text, limits::LOG_LINE_BYTES_MAX);
            let body = encode(&LogLine { at: self.now, attempt: job.attempt, text }).into();
            let (seq, kind, name) = (job.seq, JobDataKind::Log, String::new());
            let details = job.details_mut();
            details.log_lines += 1;
            let number = details.log_lines;
            self.write_job_data(JobDataWrite::Put(JobData { seq, kind, name: name.clone(), number, body }));
            if let Some(oldest) = number.checked_sub(limits::LOG_LINES_MAX).filter(|oldest| *oldest > 0) {
                self.write_job_data(JobDataWrite::Drop { seq, kind, name, number: oldest });
            }
        }
    }
}
