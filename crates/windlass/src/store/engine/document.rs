//! Small documents such as settings, pauses, workers and keys, by kind and key. Their contents are opaque here.

use serde::{Deserialize, Serialize};

/// Kinds of small documents. All of them are few enough to be held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DocumentKind {
    /// A queue's settings.
    Queue,
    /// A type's settings.
    Type,
    /// A tenant's settings.
    Tenant,
    /// A pause of a scope or of all processing.
    Hold,
    /// The end of a queue's last pause.
    Resumption,
    /// A marker that API keys exist, so that requests need one.
    Closed,
    /// A registered worker.
    Worker,
    /// When a worker last sent a heartbeat.
    Liveness,
    /// Statistics of one minute and lane.
    Rate,
    /// A checkpoint of the audit hash chain.
    Seal,
    /// Costs booked per tenant and type.
    Cost,
    /// A schedule.
    Schedule,
    /// An API key.
    ApiKey,
    /// A webhook signing secret.
    Secret,
    /// Current usage of a rate limit or a budget.
    Bucket,
    /// The wall-clock readings that an operator accepted.
    Clock,
    /// When the store was last served again after a gap, and the periods that store time skipped.
    Grace,
    /// Consequences of a change that did not fit into its commit (see `store/cascade.rs`).
    Cascade,
    /// The default retention of jobs, used if neither their type nor their queue sets one.
    Retention,
    /// The newest checkpoint of the audit chain, stored apart from the checkpoints themselves.
    AuditHead,
    /// The address the store is being moved from or to; the only kind that is not moved with it.
    Transfer,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [DocumentKind; 21] = [
        DocumentKind::Queue,
        DocumentKind::Type,
        DocumentKind::Tenant,
        DocumentKind::Hold,
        DocumentKind::Worker,
        DocumentKind::Liveness,
        DocumentKind::Rate,
        DocumentKind::Seal,
        DocumentKind::Cost,
        DocumentKind::Schedule,
        DocumentKind::ApiKey,
        DocumentKind::Secret,
        DocumentKind::Bucket,
        DocumentKind::Clock,
        DocumentKind::Grace,
        DocumentKind::Cascade,
        DocumentKind::Resumption,
        DocumentKind::Closed,
        DocumentKind::Retention,
        DocumentKind::AuditHead,
        DocumentKind::Transfer,
    ];

    /// Whether documents of this kind belong to the configuration that claims consult.
    pub fn is_configuration(self) -> bool {
        match self {
            DocumentKind::Queue
            | DocumentKind::Type
            | DocumentKind::Tenant
            | DocumentKind::Hold
            | DocumentKind::Resumption
            | DocumentKind::Closed
            | DocumentKind::Grace
            | DocumentKind::Retention
            | DocumentKind::Worker
            | DocumentKind::Schedule
            | DocumentKind::ApiKey
            | DocumentKind::Transfer => true,
            DocumentKind::Liveness
            | DocumentKind::Rate
            | DocumentKind::Seal
            | DocumentKind::Cost
            | DocumentKind::Secret
            | DocumentKind::Bucket
            | DocumentKind::Clock
            | DocumentKind::Cascade
            | DocumentKind::AuditHead => false,
        }
    }
}

/// A small document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its key within its kind.
    pub key: String,
    /// Its content.
    pub body: Vec<u8>,
}
