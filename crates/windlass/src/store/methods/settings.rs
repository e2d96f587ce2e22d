//! Settings of queues, types and tenants, and the store's retention.

use crate::error::{ActionError, StoreError};
use crate::settings::Retention;
use crate::settings::patch::{RetentionPatch, SettingsPatch};
use crate::store::caller::Caller;
use crate::store::command::maintenance::retention::{self, RetentionSet};
use crate::store::command::settings::{self, SettingsReport};
use crate::store::documents::config::{Config, PushTargets};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::{ReadKind, Store};

impl Store {
    /// Changes settings: fields that are not given stay as they are. Whole [`Settings`](settings::Settings) replace
    /// all.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] names the refused field; nothing changed.
    pub async fn configure(
        &self,
        caller: &Caller,
        patch: impl Into<SettingsPatch>,
    ) -> Result<SettingsReport, ActionError> {
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
    /// [`ActionError::Forbidden`] unless the caller is an admin.
    pub async fn set_retention(
        &self,
        caller: &Caller,
        patch: RetentionPatch,
    ) -> Result<RetentionSet, ActionError> {
        self.write_for(caller, "set_retention", Kind::Ordinary, move |tx, caller| {
            retention::set(tx, caller, &patch)
        })
        .await
    }
}
