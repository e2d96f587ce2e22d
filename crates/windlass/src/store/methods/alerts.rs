//! Alerts: create, delete, pause, resume, test, read, decide.

use crate::alert::AlertRule;
use crate::error::{AlertError, StoreError};
use crate::job::JobRecord;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::alert;
use crate::store::command::alert::evaluate::{self, AlertReport};
use crate::store::documents::alerts::{Alert, PutAlert};
use crate::store::documents::tenant_object::{AlertRef, PauseOptions};
use crate::store::query::alerts;
use crate::store::tx::request::Kind;

impl Store {
    /// Creates or replaces an alert of the named tenant, or of the caller's; without either it is about all tenants. An
    /// alert that is replaced keeps its state.
    ///
    /// # Errors
    /// [`AlertError`] names field, value and limit; nothing changed.
    pub async fn put_alert(
        &self,
        caller: &Caller,
        which: impl Into<AlertRef>,
        rule: AlertRule,
    ) -> Result<PutAlert, AlertError> {
        let which = which.into();
        self.write_for(caller, "put_alert", Kind::Ordinary, move |tx, caller| {
            alert::put(tx, caller, &which, &rule)
        })
        .await
    }

    /// Deletes an alert. Nothing is sent about it, also if it fires.
    pub async fn delete_alert(&self, caller: &Caller, which: impl Into<AlertRef>) -> Result<(), AlertError> {
        let which = which.into();
        self.write_for(caller, "delete_alert", Kind::Ordinary, move |tx, caller| {
            alert::delete(tx, caller, &which)
        })
        .await
    }

    /// Pauses an alert: its state stays, and it sends nothing. Returns whether it was not paused before.
    pub async fn pause_alert(
        &self,
        caller: &Caller,
        which: impl Into<AlertRef>,
        how: PauseOptions,
    ) -> Result<bool, AlertError> {
        let which = which.into();
        self.write_for(caller, "pause_alert", Kind::Ordinary, move |tx, caller| {
            alert::pause(tx, caller, &which, &how)
        })
        .await
    }

    /// Resumes an alert; returns whether it was paused.
    pub async fn resume_alert(
        &self,
        caller: &Caller,
        which: impl Into<AlertRef>,
    ) -> Result<bool, AlertError> {
        let which = which.into();
        self.write_for(caller, "resume_alert", Kind::Ordinary, move |tx, caller| {
            alert::resume(tx, caller, &which)
        })
        .await
    }

    /// Sends a sample message to an alert's receiver, also if it is paused; returns the job that delivers it.
    pub async fn test_alert(
        &self,
        caller: &Caller,
        which: impl Into<AlertRef>,
    ) -> Result<JobRecord, AlertError> {
        let which = which.into();
        self.write_for(caller, "test_alert", Kind::Submission, move |tx, caller| {
            alert::test(tx, caller, &which)
        })
        .await
    }

    /// An alert, if the caller can see it.
    pub async fn alert(
        &self,
        caller: &Caller,
        which: impl Into<AlertRef>,
    ) -> Result<Option<Alert>, StoreError> {
        let which = which.into();
        self.read_for(caller, "alert", move |tx, caller| alerts::get(tx, caller, &which)).await
    }

    /// All alerts this caller can see: those about all tenants first, then by tenant and name.
    pub async fn alerts(&self, caller: &Caller) -> Result<Vec<Alert>, StoreError> {
        self.read_for(caller, "alerts", alerts::all).await
    }

    /// One bounded round of deciding about alerts: compares their numbers with their thresholds, and submits messages
    /// about those that begin or stop firing. Part of maintenance.
    pub async fn check_alerts(&self) -> Result<AlertReport, StoreError> {
        let found = self.read("check_alerts", evaluate::read_due).await?;
        if found.is_empty() {
            return Ok(AlertReport::default());
        }
        let kind = Kind::Batch(crate::limits::ALERTS_PER_COMMIT);
        self.write("check_alerts", kind, move |tx| evaluate::put(tx, &found)).await
    }
}
