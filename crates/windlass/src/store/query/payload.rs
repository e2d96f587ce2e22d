//! The permission to read payloads (`payload:read`): one rule for every surface. Data the caller may not read is
//! removed here, before it leaves the store.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Payload, Spec};
use crate::settings::QueueSettings;
use crate::store::caller::{Caller, KeyBinding, Permission};
use crate::store::documents::config::Config;
use crate::store::documents::schedules::Schedule;
use crate::store::tx::read_tx::ReadTx;

/// Decides which jobs' payloads a caller may read: those of jobs it owns or works on, and those of their children,
/// whose results the parent's worker and owner need.
pub(crate) struct PayloadReader<'a> {
    caller: &'a Caller,
    /// Cached decisions about parents: a list often has many children of one parent.
    parents: FxHashMap<JobId, bool>,
}

impl<'a> PayloadReader<'a> {
    /// A reader for this caller.
    pub(crate) fn new(caller: &'a Caller) -> PayloadReader<'a> {
        PayloadReader { caller, parents: FxHashMap::default() }
    }

    /// Whether the caller may read this job's payload; `spec` is read if it is needed and not given.
    pub(crate) fn reads(
        &mut self,
        tx: &mut ReadTx<'_>,
        job: &JobRecord,
        spec: Option<&Spec>,
    ) -> Result<bool, StoreError> {
        if self.caller.reads_settings_payload() {
            return Ok(true);
        }
        if self.caller.require(Permission::ReadPayload).is_err() {
            return Ok(false);
        }
        if self.reads_own(tx, job, spec)? {
            return Ok(true);
        }
        let Some(parent) = job.parent else { return Ok(false) };
        if let Some(known) = self.parents.get(&parent.id) {
            return Ok(*known);
        }
        let found = tx.db.find(&[parent.id])?.pop().flatten();
        let is_read = match found {
            Some(parent) => self.reads_own(tx, &parent, None)?,
            None => false,
        };
        self.parents.insert(parent.id, is_read);
        Ok(is_read)
    }

    /// Returns an error if the caller may not read this job's payload.
    pub(crate) fn must_read(&mut self, tx: &mut ReadTx<'_>, job: &JobRecord) -> Result<(), StoreError> {
        if self.reads(tx, job, None)? {
            return Ok(());
        }
        Err(StoreError::Forbidden(self.caller.denied(Permission::ReadPayload)))
    }

    fn reads_own(
        &self,
        tx: &mut ReadTx<'_>,
        job: &JobRecord,
        spec: Option<&Spec>,
    ) -> Result<bool, StoreError> {
        let config = tx.config()?;
        let worker = job.lease.and_then(|lease| config.workers.get(&lease.worker));
        let leased = KeyBinding {
            holds_lease: worker.is_some_and(|worker| worker.key == self.caller.key),
            is_owner: false,
        };
        let either = KeyBinding { is_owner: true, ..leased };
        // Read the spec only if ownership decides.
        if self.caller.reads_payload(leased) || !self.caller.reads_payload(either) {
            return Ok(self.caller.reads_payload(leased));
        }
        if let Some(spec) = spec {
            return Ok(self.caller.owns(job, spec));
        }
        let found = tx.db.specs(&[job.seq])?.pop().flatten();
        Ok(found.is_some_and(|spec| self.caller.owns(job, &spec)))
    }
}

/// Removes from a spec what requires `payload:read`.
pub(crate) fn redact(spec: &mut Spec) {
    spec.baggage = None;
    spec.payload = Payload { bytes: Arc::from(&b"null"[..]), ..spec.payload.clone() };
    if let Some(url) = &mut spec.metadata.callback_url {
        *url = without_query(url);
    }
}

/// A URL without query and fragment, which often contain secrets.
pub(crate) fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Queue settings as this caller sees them.
pub(crate) fn seen_settings(caller: &Caller, mut settings: QueueSettings) -> QueueSettings {
    if let Some(push) = settings.push.as_mut().filter(|_| !caller.reads_settings_payload()) {
        push.url = without_query(&push.url);
    }
    settings
}

/// A schedule as this caller sees it.
pub(crate) fn seen_schedule(caller: &Caller, schedule: &Arc<Schedule>) -> Arc<Schedule> {
    if caller.reads_settings_payload() {
        return schedule.clone();
    }
    let mut seen = Schedule::clone(schedule);
    seen.job.payload = Payload { bytes: Arc::from(&b"null"[..]), ..seen.job.payload };
    seen.job.baggage = None;
    seen.job.metadata.callback_url = seen.job.metadata.callback_url.as_deref().map(without_query);
    seen.is_redacted = true;
    Arc::new(seen)
}

/// Removes from a configuration what this caller may not read.
pub(crate) fn redact_config(caller: &Caller, config: &mut Config) {
    if caller.reads_settings_payload() {
        return;
    }
    for settings in config.queues.values_mut() {
        *settings = seen_settings(caller, settings.clone());
    }
    for schedule in config.schedules.values_mut() {
        *schedule = seen_schedule(caller, schedule);
    }
}
