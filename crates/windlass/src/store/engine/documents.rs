//! Small documents such as settings, pauses, workers and API keys, by kind and key. Their contents are opaque here.

use std::borrow::Cow;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::store::engine::EngineResult;

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
    /// Statistics of longer periods, samples of queue depths, and how far statistics are rolled up.
    History,
    /// A seal of the audit trail.
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
    /// The newest seal of the audit trail, stored apart from the seals themselves.
    AuditHead,
    /// A deleted schedule, which can be restored for a time.
    DeletedSchedule,
    /// An alert with its state.
    Alert,
    /// The address the store is being moved from or to; the only kind that is not moved with it.
    Transfer,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [DocumentKind; 24] = [
        DocumentKind::Queue,
        DocumentKind::Type,
        DocumentKind::Tenant,
        DocumentKind::Hold,
        DocumentKind::Worker,
        DocumentKind::Liveness,
        DocumentKind::Rate,
        DocumentKind::History,
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
        DocumentKind::DeletedSchedule,
        DocumentKind::Alert,
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
            | DocumentKind::History
            | DocumentKind::Seal
            | DocumentKind::Cost
            | DocumentKind::Secret
            | DocumentKind::Bucket
            | DocumentKind::Clock
            | DocumentKind::Cascade
            | DocumentKind::AuditHead
            | DocumentKind::DeletedSchedule
            | DocumentKind::Alert => false,
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

/// Selects documents of a kind by their keys, which are compared as bytes.
#[derive(Debug, Clone, Copy)]
pub struct DocumentRange<'a> {
    /// Where the range starts.
    pub start: Bound<&'a str>,
    /// Only keys less than this.
    pub before: Option<&'a str>,
    /// Maximum number of documents, the first by key.
    pub limit: usize,
}

impl<'a> DocumentRange<'a> {
    /// All documents of the kind.
    pub const ALL: DocumentRange<'static> =
        DocumentRange { start: Bound::Unbounded, before: None, limit: usize::MAX };

    /// Keys that are not less than `start`.
    pub fn from(start: &'a str) -> DocumentRange<'a> {
        DocumentRange { start: Bound::Included(start), ..DocumentRange::ALL }
    }

    /// Keys less than `end`, at most `limit`.
    pub fn before(end: &'a str, limit: usize) -> DocumentRange<'a> {
        DocumentRange { before: Some(end), limit, ..DocumentRange::ALL }
    }

    /// Keys greater than `after`, if there is one; at most `limit`.
    pub fn after(after: Option<&'a str>, limit: usize) -> DocumentRange<'a> {
        DocumentRange { start: after.map_or(Bound::Unbounded, Bound::Excluded), before: None, limit }
    }

    /// The least key that the range can contain.
    pub fn first_key(&self) -> Cow<'a, str> {
        match self.start {
            Bound::Unbounded => Cow::Borrowed(""),
            Bound::Included(start) => Cow::Borrowed(start),
            // No string is between a key and the same key with a zero byte.
            Bound::Excluded(after) => Cow::Owned(format!("{after}\0")),
        }
    }
}

/// Reading documents.
pub trait Documents {
    /// One document.
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>>;
    /// The documents of a kind within a range, ordered by key.
    fn documents_in(&mut self, kind: DocumentKind, range: DocumentRange<'_>) -> EngineResult<Vec<Document>>;
    /// All documents of a kind, ordered by key.
    fn documents(&mut self, kind: DocumentKind) -> EngineResult<Vec<Document>> {
        self.documents_in(kind, DocumentRange::ALL)
    }
    /// All documents of several kinds, in the order of the kinds, each ordered by key. An engine that pays a round trip
    /// per query answers them with one.
    fn documents_of(&mut self, kinds: &[DocumentKind]) -> EngineResult<Vec<Vec<Document>>> {
        kinds.iter().map(|kind| self.documents(*kind)).collect()
    }
    /// A number that grows with every change of a [configuration](DocumentKind::is_configuration) document, by this
    /// connection (at once, within its commit) or by any other. The store caches the parsed configuration by it: see
    /// [the contract](crate::store::engine#caches-and-the-two-numbers-that-keep-them-right).
    fn configuration_version(&mut self) -> EngineResult<u64>;
}

/// Writing documents. A configuration document that changes moves [`Documents::configuration_version`] on.
pub trait DocumentsMut: Documents {
    /// Replaces or removes a document.
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()>;
    /// Replaces documents of a kind that is not configuration, each key at most once.
    fn put_documents(&mut self, kind: DocumentKind, documents: &[Document]) -> EngineResult<()> {
        documents.iter().try_for_each(|document| self.put_document(kind, &document.key, Some(&document.body)))
    }
}
