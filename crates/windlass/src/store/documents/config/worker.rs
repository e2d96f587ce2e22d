//! A worker as it is registered, and when it counts as dead.

use serde::{Deserialize, Serialize};

use crate::clock::{Grace, Timestamp};
use crate::job::{JobType, Lane, QueueName, Tenant, WorkerId};
use crate::key::KeyId;
use crate::limits;

/// A worker as registered. Its id is new at every start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Identity.
    pub id: WorkerId,
    /// A label for people.
    pub name: String,
    /// Whose jobs it may take; everybody's if none.
    pub tenant: Option<Tenant>,
    /// Which queues it takes from.
    pub queues: Vec<QueueName>,
    /// Which types it can run; any if empty.
    pub types: Vec<JobType>,
    /// How many jobs it runs at once.
    pub concurrency: u32,
    /// The version of its program.
    pub version: Option<String>,
    /// Whether it beats, and so is dead when silent (M31).
    pub heartbeats: bool,
    /// When it registered.
    pub registered_at: Timestamp,
    /// When it was last heard of. As stored here it is not newer than when it registered, came back or was paused: heartbeats
    /// are kept apart (`liveness.rs`), and [`Store::config`](crate::store::Store::config) puts both together.
    pub seen_at: Timestamp,
    /// Whether its leases were ended because it fell silent.
    pub is_lost: bool,
    /// Whether its own program has paused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// The API key it registered with, which alone may claim and report for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
}

impl Worker {
    /// Whether it has been silent for so long that it counts as dead (M31).
    pub fn is_silent(&self, now: Timestamp) -> bool {
        self.heartbeats && self.silent_at() <= now
    }

    /// The same if the store was not served for a while.
    pub(crate) fn is_silent_after(&self, now: Timestamp, grace: &Grace) -> bool {
        self.heartbeats && self.silent_after(grace) <= now
    }

    /// When it counts as dead unless it is heard of.
    pub fn silent_at(&self) -> Timestamp {
        self.silent_after(&Grace::default())
    }

    /// The same if the store was not served for a while: nobody could report then.
    pub(crate) fn silent_after(&self, grace: &Grace) -> Timestamp {
        Worker::silent_when(self.seen_at, grace)
    }

    /// When a worker that was last heard of at `seen_at` counts as dead unless it is heard of.
    pub(crate) fn silent_when(seen_at: Timestamp, grace: &Grace) -> Timestamp {
        grace.heard_at(seen_at).plus(limits::WORKER_SILENCE_MAX)
    }

    /// Whether it takes jobs of this lane; the system's own only if it names their queue or type.
    pub fn takes(&self, lane: &Lane) -> bool {
        let is_named = self.queues.contains(&lane.queue) || self.types.contains(&lane.job_type);
        (is_named || !lane.is_internal())
            && self.tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant)
            && (self.queues.is_empty() || self.queues.contains(&lane.queue))
            && (self.types.is_empty() || self.types.contains(&lane.job_type))
    }
}
