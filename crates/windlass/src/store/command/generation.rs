//! The store's generation. It is part of every fence and changes when the store may have lost acknowledged
//! commits: after a restore, a failover, or when a node finds commits missing. Leases of an earlier generation are
//! invalid. Their jobs become claimable again, and the interruption counts neither as a failure nor as a crash.

use serde_json::json;

use super::effects::audit::RecordActor;
use crate::audit::AuditEvent;
use crate::error::{ActionError, StoreError};
use crate::job::{JobEvent, JobState, Seq, Tenant};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::engine::ClaimOrder;
use crate::store::engine::SequenceNumbers;
use crate::store::filter::{Filter, Order, Scan};
use crate::store::tx::write_tx::WriteTx;

/// A new generation of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewGeneration {
    /// Its number.
    pub number: u64,
    /// How many running jobs became claimable again.
    pub released: u64,
}

/// How far the running jobs were scanned for leases of an earlier generation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeaseSweep {
    /// The current generation during the scan.
    generation: u64,
    /// The last job scanned.
    after: Option<ClaimOrder>,
    is_done: bool,
}

/// The result of one page of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeaseSweepReport {
    /// Jobs whose lease was of an earlier generation and that are claimable again.
    pub(crate) released: usize,
    /// Whether there are more running jobs to scan.
    pub(crate) has_more: bool,
}

/// Begins a new generation on behalf of an operator; returns its number.
pub(crate) fn begin(tx: &mut WriteTx<'_>, caller: &Caller, reason: &str) -> Result<u64, ActionError> {
    caller.require(Permission::Administer)?;
    Ok(tx.begin_generation(&RecordActor::caller(caller, Some(reason)))?)
}

impl WriteTx<'_> {
    /// The store's generation.
    pub(crate) fn generation(&mut self) -> Result<u64, StoreError> {
        Ok(self.raw(|db| db.numbers())?.generation)
    }

    /// Begins a new generation: from this commit on, earlier fences are refused. One commit begins at most one
    /// generation, for any number of reasons.
    pub(crate) fn begin_generation(&mut self, cause: &RecordActor) -> Result<u64, StoreError> {
        let numbers = self.db()?.numbers()?;
        let previous = self.generation_before.unwrap_or(numbers.generation);
        let generation = (previous + 1).min(limits::GENERATION_MAX);
        self.raw(|db| db.adopt(SequenceNumbers { generation, ..numbers }))?;
        self.generation_before = Some(previous);
        let context = json!({
            "generation": generation,
            "previous_generation": previous,
            "reason": cause.reason,
        });
        self.record_operation(AuditEvent::GenerationChanged, Tenant::default(), cause, &context);
        tracing::warn!(
            generation,
            reason = cause.reason.as_deref().unwrap_or_default(),
            "a new generation of the store begins: earlier leases are refused"
        );
        self.interrupt();
        Ok(generation)
    }

    /// Releases a job whose lease is of an earlier generation.
    pub(crate) fn release_if_older(&mut self, seq: Seq) -> Result<bool, StoreError> {
        let generation = self.generation()?;
        let is_older = self
            .job(seq)?
            .is_some_and(|job| job.state == JobState::Running && job.fence.generation() < generation);
        if is_older {
            let reason = "its lease was issued before the store's generation changed".to_owned();
            let cause = RecordActor { reason: Some(reason), ..RecordActor::system() };
            let _always_allowed = self.apply(seq, &JobEvent::Release, &cause)?;
        }
        Ok(is_older)
    }

    /// Releases jobs whose leases are of an earlier generation: one bounded page of the running jobs, in order of
    /// submission. Reads nothing once all were scanned in this generation.
    pub(crate) fn sweep_leases(&mut self) -> Result<LeaseSweepReport, StoreError> {
        let generation = self.generation()?;
        let mut sweep = self.lease_sweep();
        if sweep.generation != generation {
            sweep = LeaseSweep { generation, after: None, is_done: generation == 1 };
        }
        if sweep.is_done {
            return Ok(LeaseSweepReport::default());
        }
        let filter = Filter { states: vec![JobState::Running], ..Filter::default() };
        let limit = limits::BULK_JOBS_PER_COMMIT;
        let page = self.db()?.scan(&Scan { filter, order: Order::Oldest, after: sweep.after, limit })?;
        sweep.is_done = page.len() < limit;
        sweep.after = page.last().map(ClaimOrder::new).or(sweep.after);
        let mut released = 0;
        for job in page {
            let seq = self.cache_job(job);
            released += usize::from(self.release_if_older(seq)?);
        }
        self.set_lease_sweep(sweep);
        Ok(LeaseSweepReport { released, has_more: !sweep.is_done })
    }
}
