//! What alerts and schedules have in common: a name within a tenant, and pauses.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{AlertName, ScheduleName, Tenant};
use crate::store::caller::Caller;

/// Identifies an object that has a name within its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef<Name> {
    /// The tenant; the caller's if `None`.
    pub tenant: Option<Tenant>,
    /// The object's name.
    pub name: Name,
}

/// Identifies an alert. For a caller of all tenants, one without a tenant is the alert about all tenants, or the only one
/// of that name.
pub type AlertRef = ObjectRef<AlertName>;

/// Identifies a schedule. For a caller of all tenants, one without a tenant is the default tenant's schedule, or the only
/// one of that name.
pub type ScheduleRef = ObjectRef<ScheduleName>;

impl<Name> From<Name> for ObjectRef<Name> {
    fn from(name: Name) -> ObjectRef<Name> {
        ObjectRef { tenant: None, name }
    }
}

/// A pause of an alert or a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ObjectPause {
    /// Who paused it.
    pub by: String,
    /// When the pause began.
    pub since: Timestamp,
    /// The reason given.
    pub reason: Option<String>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl ObjectPause {
    /// Whether it is in force at this time.
    pub(crate) fn holds_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

/// Options for pausing an alert or a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PauseOptions {
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// How long until it ends by itself.
    pub expires: Option<Duration>,
}

impl PauseOptions {
    /// A pause by this caller that begins now.
    pub(crate) fn begin(&self, caller: &Caller, now: Timestamp) -> ObjectPause {
        let expires_at = self.expires.map(|after| now.plus(after));
        ObjectPause { by: caller.id.clone(), since: now, reason: self.reason.clone(), expires_at }
    }
}
