//! A registered worker, and when it counts as lost.

use serde::{Deserialize, Serialize};

use crate::clock::{Grace, Timestamp};
use crate::job::{JobType, Lane, QueueName, Tenant, WorkerId};
use crate::key::KeyId;
use crate::limits;

/// A registered worker. It gets a new id at every start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// The worker's id.
    pub id: WorkerId,
    /// A label for people; need not be unique.
    pub name: String,
    /// The tenant whose jobs it may take; all tenants if `None`.
    pub tenant: Option<Tenant>,
    /// The queues it takes jobs from; all if empty.
    pub queues: Vec<QueueName>,
    /// The types it can run; all if empty.
    pub types: Vec<JobType>,
    /// How many jobs it runs at once.
    pub concurrency: u32,
    /// The version of its program.
    pub version: Option<String>,
    /// Whether it sends heartbeats, and so is considered lost when silent.
    pub heartbeats: bool,
    /// When it registered.
    pub registered_at: Timestamp,
    /// When it was last seen. The stored value is not newer than when it registered, came back or was paused:
    /// heartbeats are stored separately (`liveness.rs`), and [`Store::config`](crate::store::Store::config) combines
    /// both.
    pub seen_at: Timestamp,
    /// Whether its leases were ended because it fell silent.
    pub is_lost: bool,
    /// Whether its own program has paused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// The API key it registered with; only this key may claim and report for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
}

impl Worker {
    /// Whether it has been silent for so long that it counts as lost.
    pub fn is_silent(&self, now: Timestamp) -> bool {
        self.heartbeats && self.silent_at() <= now
    }

    /// Like [`is_silent`](Worker::is_silent), considering times when the store was not served.
    pub(crate) fn is_silent_after(&self, now: Timestamp, grace: &Grace) -> bool {
        self.heartbeats && self.silent_after(grace) <= now
    }

    /// When it counts as lost unless it is seen.
    pub fn silent_at(&self) -> Timestamp {
        self.silent_after(&Grace::default())
    }

    /// Like [`silent_at`](Worker::silent_at), considering times when the store was not served and no heartbeat could
    /// arrive.
    pub(crate) fn silent_after(&self, grace: &Grace) -> Timestamp {
        Worker::silent_when(self.seen_at, grace)
    }

    /// When a worker last seen at `seen_at` counts as lost unless it is seen.
    pub(crate) fn silent_when(seen_at: Timestamp, grace: &Grace) -> Timestamp {
        grace.silent_from(seen_at).plus(limits::WORKER_SILENCE_MAX)
    }

    /// Whether it takes jobs of this lane; internal jobs only if it names their queue or type, and jobs that require a
    /// version only if it registered with that version.
    pub fn accepts(&self, lane: &Lane) -> bool {
        self.takes_any_version(lane) && lane.is_for_version(self.version.as_deref())
    }

    /// Like [`takes`](Worker::takes), whatever version the jobs require.
    pub(crate) fn takes_any_version(&self, lane: &Lane) -> bool {
        let is_named = self.queues.contains(&lane.queue) || self.types.contains(&lane.job_type);
        (is_named || !lane.is_internal())
            && self.tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant)
            && (self.queues.is_empty() || self.queues.contains(&lane.queue))
            && (self.types.is_empty() || self.types.contains(&lane.job_type))
    }
}
