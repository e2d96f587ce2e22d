//! Operations for operators: pauses, settings, retention, the clock and the generation.

use crate::clock::ClockReport;
use crate::error::{ActError, StoreError};
use crate::job::QueueName;
use crate::settings::Retention;
use crate::settings::patch::{RetentionPatch, SettingsPatch};
use crate::store::caller::Caller;
use crate::store::command::bulk::BulkReport;
use crate::store::command::generation::{self, NewGeneration};
use crate::store::command::maintenance::clock;
use crate::store::command::maintenance::retention::{self, RetentionSet};
use crate::store::command::pause::{self, Pause, PauseTarget};
use crate::store::command::settings::{self, Configured};
use crate::store::documents::config::{Config, PushTargets};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;
use crate::store::{ReadKind, Store};

impl Store {
    /// Pauses a scope; returns whether it was not paused before.
    pub async fn pause(&self, caller: &Caller, target: PauseTarget, pause: Pause) -> Result<bool, ActError> {
        self.write_for(caller, "pause", Kind::Urgent, move |tx, caller| {
            pause::pause(tx, caller, &target, &pause)
        })
        .await
    }

    /// Like [`pause`](Store::pause), but it is an error if the scope is already paused.
    ///
    /// # Errors
    /// [`ActError::AlreadyPaused`] if it is; the existing pause does not change.
    pub async fn pause_strictly(
        &self,
        caller: &Caller,
        target: PauseTarget,
        how: Pause,
    ) -> Result<(), ActError> {
        let changed = self.pause(caller, target.clone(), how).await;
        pause::changed_or(ActError::AlreadyPaused, &target, changed)
    }

    /// Ends a pause; returns whether there was one.
    pub async fn resume(
        &self,
        caller: &Caller,
        target: PauseTarget,
        reason: Option<String>,
    ) -> Result<bool, ActError> {
        self.write_for(caller, "resume", Kind::Urgent, move |tx, caller| {
            pause::resume(tx, caller, &target, reason.as_deref())
        })
        .await
    }

    /// Like [`resume`](Store::resume), but it is an error if the scope is not paused.
    ///
    /// # Errors
    /// [`ActError::NotPaused`] if it is not.
    pub async fn resume_strictly(
        &self,
        caller: &Caller,
        target: PauseTarget,
        reason: Option<String>,
    ) -> Result<(), ActError> {
        let changed = self.resume(caller, target.clone(), reason).await;
        pause::changed_or(ActError::NotPaused, &target, changed)
    }

    /// Resumes the jobs that aggressive pauses of a queue have suspended, in bounded commits, whether or not the queue
    /// is still paused. Jobs that were suspended individually stay suspended.
    pub async fn resume_paused_jobs(
        &self,
        caller: &Caller,
        queue: QueueName,
        reason: Option<String>,
    ) -> Result<BulkReport, ActError> {
        let (filter, action) = pause::resume_suspended(queue, reason);
        self.bulk(caller, &filter, action).await
    }

    /// Changes settings: fields that are not given stay as they are. Whole [`Settings`](settings::Settings) replace
    /// all.
    ///
    /// # Errors
    /// [`ActError::Invalid`] names the refused field; nothing changed.
    pub async fn configure(
        &self,
        caller: &Caller,
        patch: impl Into<SettingsPatch>,
    ) -> Result<Configured, ActError> {
        let patch = patch.into();
        self.compile_schemas(caller, &patch).await?;
        self.write_for(caller, "configure", Kind::Ordinary, move |tx, caller| {
            settings::configure(tx, caller, &patch)
        })
        .await
    }

    /// The current settings, pauses and workers that this caller can see.
    pub async fn config(&self, caller: &Caller) -> Result<Config, StoreError> {
        let caller = caller.clone();
        let work = move |tx: &mut ReadTx<'_>| Ok(tx.config_with_liveness()?.seen_by(&caller));
        self.read_as(ReadKind::Urgent, "config", work).await
    }

    /// Push targets: by queue, and by tenant where a tenant has its own target and none is set for all. Cheap enough to
    /// be called every second.
    pub async fn push_targets(&self) -> Result<PushTargets, StoreError> {
        self.read("push_targets", |tx: &mut ReadTx<'_>| tx.config().map(|config| config.push_targets())).await
    }

    /// The store's retention, used if neither type nor queue sets one: one setting for all processes on the
    /// store.
    pub async fn retention(&self, _caller: &Caller) -> Result<Retention, StoreError> {
        let own = self.env.options.retention();
        self.read("retention", move |tx: &mut ReadTx<'_>| Ok(tx.config()?.retention.or(own))).await
    }

    /// Changes the retention. Cleared values revert to those this process was started with. It applies immediately,
    /// also to jobs that ended before.
    ///
    /// # Errors
    /// [`ActError::Forbidden`] unless the caller is an admin.
    pub async fn set_retention(
        &self,
        caller: &Caller,
        patch: RetentionPatch,
    ) -> Result<RetentionSet, ActError> {
        self.write_for(caller, "set_retention", Kind::Ordinary, move |tx, caller| {
            retention::set(tx, caller, &patch)
        })
        .await
    }

    /// How store time relates to the wall clock, as this process sees it.
    pub fn clock(&self) -> ClockReport {
        self.env.clock.report()
    }

    /// Accepts the current wall clock, although it jumped. If it is ahead, store time jumps to it; if it is behind,
    /// store time runs slowly until they meet. Other processes on the store follow within a second or with their next
    /// commit.
    ///
    /// # Errors
    /// [`ActError::Forbidden`] unless the caller is an admin.
    pub async fn accept_clock(&self, caller: &Caller) -> Result<ClockReport, ActError> {
        let accepting = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| clock::accept(tx, &accepting);
        let accepted = self.write("accept_clock", Kind::Urgent, work).await?;
        self.env.clock.accept(accepted.number);
        Ok(self.env.clock.report())
    }

    /// Begins a new generation of the store, as after a restore: fences issued before are refused, and the jobs that
    /// were running are claimable again. This does not count as a failure.
    pub async fn begin_generation(&self, caller: &Caller, reason: &str) -> Result<NewGeneration, ActError> {
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
