//! Stored alerts. `windlass_core::alert` decides when they fire; `command/alert` stores the decision and submits the
//! message.

use serde::{Deserialize, Serialize};

use crate::alert::message::AlertMessage;
use crate::alert::{AlertNotice, AlertRule, AlertState};
use crate::clock::Timestamp;
use crate::job::{AlertName, JobId, Lane, Tenant};
use crate::store::documents::tenant_object::ObjectPause;

/// A stored alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Alert {
    /// The tenant it belongs to and whose jobs it watches; `None` for all tenants.
    pub tenant: Option<Tenant>,
    /// Its name within its tenant.
    pub name: AlertName,
    /// What it watches, and where its messages go.
    pub rule: AlertRule,
    /// Whether it fires, and since when.
    pub state: AlertState,
    /// Its pause, if it has one; it may have expired. While it lasts, nothing is decided and the state stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<ObjectPause>,
    /// The job that delivers its latest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_delivery: Option<JobId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When a caller last changed it.
    pub updated_at: Timestamp,
    /// Who changed it last.
    pub updated_by: String,
    /// Whether path and query of the URL were removed because the caller may not read them.
    #[serde(skip)]
    pub is_redacted: bool,
}

impl Alert {
    /// Its pause, if it is in force now.
    pub fn pause_now(&self, now: Timestamp) -> Option<&ObjectPause> {
        self.paused.as_ref().filter(|pause| pause.holds_at(now))
    }

    /// Whether it watches jobs of this lane. Deliveries of alerts are watched by none: a receiver that fails would
    /// otherwise cause messages about itself.
    pub(crate) fn watches(&self, lane: &Lane) -> bool {
        let is_all = |own: Option<bool>| own.unwrap_or(true);
        lane.job_type.as_str() != crate::alert::TYPE
            && is_all(self.tenant.as_ref().map(|tenant| *tenant == lane.tenant))
            && is_all(self.rule.queue.as_ref().map(|queue| *queue == lane.queue))
            && is_all(self.rule.job_type.as_ref().map(|job_type| *job_type == lane.job_type))
    }

    /// A message about its state.
    pub(crate) fn message(&self, notice: AlertNotice, at: Timestamp) -> AlertMessage {
        AlertMessage {
            alert: self.name.clone(),
            tenant: self.tenant.clone(),
            notice,
            at,
            status: self.state.status,
            since: self.state.since,
            value: self.state.value,
            condition: self.rule.condition,
            queue: self.rule.queue.clone(),
            job_type: self.rule.job_type.clone(),
        }
    }

    /// The document key.
    pub(crate) fn key(&self) -> String {
        key(self.tenant.as_ref(), &self.name)
    }
}

/// The document key of an alert. No tenant is called `*`.
pub(crate) fn key(tenant: Option<&Tenant>, name: &AlertName) -> String {
    format!("{} {name}", tenant.map_or("*", Tenant::as_str))
}

/// The result of creating or replacing an alert.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PutAlert {
    /// The current alert.
    pub alert: Alert,
    /// Whether there was none of that name before.
    pub is_new: bool,
    /// Whether it differs from the previous one.
    pub is_changed: bool,
}
