//! Small documents: settings, pauses, workers, keys and the like, by kind and key. What they hold is not known here.

use serde::{Deserialize, Serialize};

/// Kinds of settings and other small documents, all of them few enough to be held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DocumentKind {
    /// A queue's settings.
    Queue,
    /// A type's settings.
    Type,
    /// A tenant's settings.
    Tenant,
    /// A pause or a closed gate.
    Hold,
    /// The end of a queue's last pause.
    Resumption,
    /// That API keys were made.
    Closed,
    /// A registered worker.
    Worker,
    /// When a worker was last heard of.
    Liveness,
    /// Rates of one minute and lane.
    Rate,
    /// A point of the audit chain.
    Seal,
    /// Costs booked per tenant and type.
    Cost,
    /// A schedule.
    Schedule,
    /// Somebody who may call.
    ApiKey,
    /// Something to sign with.
    Secret,
    /// How much of a rate or a budget is used.
    Bucket,
    /// Which readings of the wall clock an operator accepted.
    Clock,
    /// When the store was last served again after a gap, and which moments store time passed over.
    Grace,
    /// Consequences of a change that did not fit into its commit (see `store/cascade.rs`).
    Cascade,
    /// For how long jobs are kept where neither their type nor their queue says so.
    Retention,
    /// The newest point of the audit chain, kept apart from the points themselves.
    AuditHead,
    /// Where the store is being moved from or to; the only kind that is not moved with it.
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

    /// Whether documents of this kind are part of the configuration that claims consult.
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
    /// Its name within its kind.
    pub key: String,
    /// Its content.
    pub body: Vec<u8>,
}
