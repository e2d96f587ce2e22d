//! Alerts that were deleted recently, so that a deletion can be undone. They are kept in this process alone: their URLs may
//! contain secrets, and a deleted one should not stay in the store.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass::clock::Timestamp;
use windlass::store::{Alert, AlertRef};

use crate::dashboard::pages::limits;

/// The latest deleted alerts, each with the time of its deletion.
#[derive(Default)]
pub(in crate::dashboard) struct DeletedAlerts(Mutex<VecDeque<(Timestamp, Alert)>>);

impl DeletedAlerts {
    fn kept(&self, now: Timestamp) -> MutexGuard<'_, VecDeque<(Timestamp, Alert)>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(at, _)| now.since(*at) < limits::DELETED_ALERTS_FOR);
        kept
    }

    /// Keeps a deleted alert for a time.
    pub(super) fn keep(&self, alert: Alert, now: Timestamp) {
        let mut kept = self.kept(now);
        kept.retain(|(_, other)| (&other.tenant, &other.name) != (&alert.tenant, &alert.name));
        if kept.len() >= limits::DELETED_ALERTS_KEPT {
            kept.pop_front();
        }
        kept.push_back((now, alert));
    }

    /// Takes out the alert that was deleted, if it is still kept.
    pub(super) fn take(&self, which: &AlertRef, now: Timestamp) -> Option<Alert> {
        let mut kept = self.kept(now);
        let place =
            kept.iter().position(|(_, alert)| alert.tenant == which.tenant && alert.name == which.name)?;
        kept.remove(place).map(|(_, alert)| alert)
    }
}
