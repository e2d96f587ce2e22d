//! Registered workers in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::job::{JobType, QueueName, Tenant, WorkerId};

use crate::pause::Pause;
use crate::text::Text;
use crate::time::Moment;

/// A registered worker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Id.
    pub id: Text<WorkerId>,
    /// Display name.
    pub name: String,
    /// The tenant whose jobs it takes; null for all tenants.
    pub tenant: Option<Text<Tenant>>,
    /// Queues it takes jobs from; all if empty.
    pub queues: Vec<Text<QueueName>>,
    /// Job types it can run; all if empty.
    pub types: Vec<Text<JobType>>,
    /// How many jobs it runs at once.
    pub concurrency: u32,
    /// Version of its program.
    pub version: Option<String>,
    /// Whether it sends heartbeats, and so is considered lost without them.
    pub heartbeats: bool,
    /// When it registered.
    pub registered_at: Moment,
    /// When it was last seen.
    pub seen_at: Moment,
    /// Whether its heartbeats arrive.
    pub alive: bool,
    /// Its pause; null if it is not paused.
    pub paused: Option<Pause>,
}

/// Registered workers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkerList")]
pub struct Workers {
    /// The workers.
    pub workers: Vec<Worker>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}
