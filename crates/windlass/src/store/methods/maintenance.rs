//! What maintenance does in rounds: timers, seals of the audit trail, pruning.

use crate::audit::Seal;
use crate::error::StoreError;
use crate::job::JobState;
use crate::limits;
use crate::store::Store;
use crate::store::command::maintenance::audit_chain::{self, SealReport};
use crate::store::command::maintenance::roll_up::{self, RollUpReport};
use crate::store::command::maintenance::{self, TickReport};
use crate::store::command::schedule::fire;
use crate::store::command::schedule::restore::drop_expired;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

impl Store {
    /// One bounded round of maintenance: promotes due jobs, ends leases, expires jobs and pauses, and submits the jobs
    /// of schedules.
    ///
    /// When the disk is full, schedules wait and the rest continues.
    pub async fn tick(&self) -> Result<TickReport, StoreError> {
        let mut ticked =
            self.write("tick", Kind::Maintenance(limits::TICK_JOBS_PER_COMMIT), maintenance::tick).await?;
        if ticked.has_due_schedules {
            match self.write("fire", Kind::Batch(limits::TICK_SCHEDULES_PER_COMMIT), fire::fire).await {
                Ok(fired) => {
                    ticked.scheduled = fired.jobs;
                    // Timers of the new jobs may be due first.
                    ticked.has_more |= fired.has_more || fired.jobs > 0;
                    ticked.next_at = ticked.next_at.into_iter().chain(fired.next_at).min();
                }
                Err(StoreError::Full) => tracing::warn!("the disk is full: schedules wait"),
                Err(error) => return Err(error),
            }
        }
        Ok(ticked)
    }

    /// One bounded round of sealing the audit trail.
    pub async fn seal(&self) -> Result<SealReport, StoreError> {
        self.seal_unless_moved(None).await
    }

    /// Like [`seal`](Store::seal), but only if the newest seal is still `left`: otherwise another process is
    /// sealing.
    pub(crate) async fn seal_unless_moved(&self, left: Option<Seal>) -> Result<SealReport, StoreError> {
        let found = self.read("seal", move |tx| audit_chain::read_backlog(tx, left.as_ref())).await?;
        match found.nothing() {
            Some(sealed) => Ok(sealed),
            None => self.write("seal", Kind::Ordinary, move |tx| audit_chain::put(tx, &found)).await,
        }
    }

    /// One bounded round of rolling statistics up: samples the current minute, and adds up ten minutes that are over.
    pub async fn roll_up(&self) -> Result<RollUpReport, StoreError> {
        let due = self.read("roll_up", roll_up::read_due).await?;
        if due.is_due() {
            self.write("roll_up", Kind::Ordinary, move |tx| roll_up::put(tx, &due)).await
        } else {
            Ok(due.report())
        }
    }

    /// Removes jobs that exceeded their retention, expired idempotency keys of removed jobs, and deleted schedules that
    /// can no longer be restored; returns how many jobs.
    pub async fn prune(&self) -> Result<usize, StoreError> {
        self.seed_retention().await?;
        let mut removed = 0;
        for state in JobState::FINAL {
            removed += self.prune_state(state).await?.removed;
        }
        let max = limits::BULK_JOBS_PER_COMMIT;
        let work = move |tx: &mut WriteTx<'_>| -> Result<usize, StoreError> {
            let now = tx.now;
            drop_expired(tx)?;
            tx.db()?.remove_expired_keys(now, max)
        };
        while self.write("prune_keys", Kind::Ordinary, work).await? == max {}
        Ok(removed)
    }
}
