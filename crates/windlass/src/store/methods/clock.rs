//! Store time, and the generation of the store.

use crate::clock::ClockReport;
use crate::error::{ActionError, StoreError};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::generation::{self, NewGeneration};
use crate::store::command::maintenance::clock;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

impl Store {
    /// How store time relates to the wall clock, as this process sees it.
    pub fn clock(&self) -> ClockReport {
        self.env.clock.report()
    }

    /// Accepts the current wall clock, although it jumped. If it is ahead, store time jumps to it; if it is behind,
    /// store time runs slowly until they meet. Other processes on the store follow within a second or with their next
    /// commit.
    ///
    /// # Errors
    /// [`ActionError::Forbidden`] unless the caller is an admin.
    pub async fn accept_clock(&self, caller: &Caller) -> Result<ClockReport, ActionError> {
        let accepting = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| clock::accept(tx, &accepting);
        let accepted = self.write("accept_clock", Kind::Urgent, work).await?;
        self.env.clock.accept(accepted.number);
        Ok(self.env.clock.report())
    }

    /// Begins a new generation of the store, as after a restore: fences issued before are refused, and the jobs that
    /// were running are claimable again. This does not count as a failure.
    pub async fn begin_generation(
        &self,
        caller: &Caller,
        reason: &str,
    ) -> Result<NewGeneration, ActionError> {
        let (caller, reason) = (caller.clone(), reason.to_owned());
        let begin = move |tx: &mut WriteTx<'_>| generation::begin(tx, &caller, &reason);
        let number = self.write("begin_generation", Kind::Urgent, begin).await?;
        let mut released = 0;
        loop {
            let sweep = |tx: &mut WriteTx<'_>| tx.sweep_leases();
            let swept = self.write::<_, StoreError>("begin_generation", Kind::Ordinary, sweep).await?;
            released += swept.released as u64;
            if !swept.has_more {
                return Ok(NewGeneration { number, released });
            }
        }
    }

    /// The store's generation.
    pub async fn generation(&self) -> Result<u64, StoreError> {
        self.read("generation", |tx| Ok(tx.db.numbers()?.generation)).await
    }
}
