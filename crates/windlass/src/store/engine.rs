//! The contract between the store and a database. An engine locks rows, reads them and writes what commands decide; it
//! contains no rules. Commands are written once, in `command/`, against these traits.

mod document;
mod task;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::document::{Document, DocumentKind};
pub use self::task::{ReadTask, WriteTask};
pub use super::claim_order::{ClaimOrder, rank};
pub use super::documents::counters::{CountChange, Counts, LimitScope, StateCounts};
pub use super::documents::key_counts::KeyChange;
pub use super::documents::key_holder::{KeyHolder, KeyHolderCache};
use super::filter::{Found, Scan};
use super::move_store::rows::{Export, Import};
use crate::audit::{AuditEvent, Record};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{
    ConcurrencyKey, JobId, JobMetadata, JobRecord, JobType, Lane, Need, NewJob, Payload, QueueName, Seq,
    Spec, Tenant,
};

/// The position in a lane to continue reading from.
#[derive(Debug, Clone)]
pub struct LaneCursor {
    /// The lane to read.
    pub lane: Arc<Lane>,
    /// Continue after this position; from the front if `None`.
    pub after: Option<ClaimOrder>,
}

/// The purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// Submitting again with the same key returns the same job.
    Idempotency,
    /// At most one unfinished job per key.
    Unique,
}

/// A key within its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The purpose of the key.
    pub kind: KeyKind,
    /// The tenant the key belongs to.
    pub tenant: Tenant,
    /// The job type the key applies to.
    pub job_type: JobType,
    /// The key as given by the caller.
    pub text: String,
}

/// A job submitted in the caller's own transaction. The caller already has its id.
#[derive(Debug, Clone)]
pub struct InboxEntry {
    /// The job's id.
    pub id: JobId,
    /// The submitter.
    pub owner: String,
    /// The job to create.
    pub job: NewJob,
}

/// A dependency between two jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge {
    /// The job that must finish first.
    pub dependency: Seq,
    /// The job that waits.
    pub dependent: Seq,
    /// The outcome the dependent needs.
    pub need: Need,
}

/// The side of an edge that the given jobs are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The jobs are dependencies.
    Dependency,
    /// The jobs are dependents.
    Dependent,
}

/// Data attached to a job; deleted with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobDataKind {
    /// A finished attempt; `number` is the attempt number.
    Attempt,
    /// A checkpoint or step; `name` is the step's name.
    Checkpoint,
    /// A signal that was not consumed yet; `number` is the order of arrival.
    Signal,
    /// A log line; `number` is its position.
    Log,
    /// The result.
    Result,
    /// A group of children; `number` is the group's number.
    Group,
}

impl JobDataKind {
    /// Every kind.
    pub const ALL: [JobDataKind; 6] = [
        JobDataKind::Attempt,
        JobDataKind::Checkpoint,
        JobDataKind::Signal,
        JobDataKind::Log,
        JobDataKind::Result,
        JobDataKind::Group,
    ];
}

/// One piece of job data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobData {
    /// The job.
    pub seq: Seq,
    /// The kind of data.
    pub kind: JobDataKind,
    /// Its name; empty if the kind has none.
    pub name: String,
    /// Its number; 0 if the kind has none.
    pub number: u64,
    /// Its content.
    pub body: Arc<[u8]>,
}

/// A change to job data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobDataWrite {
    /// Adds the data, or replaces data with the same name and number.
    Put(JobData),
    /// Removes the data if it exists.
    Drop {
        /// The job.
        seq: Seq,
        /// The kind of data.
        kind: JobDataKind,
        /// Its name.
        name: String,
        /// Its number.
        number: u64,
    },
}

/// Selects the job data to read. Results are ordered by name, then number.
#[derive(Debug, Clone, Copy)]
pub struct JobDataQuery<'a> {
    /// The job.
    pub seq: Seq,
    /// The kind of data.
    pub kind: JobDataKind,
    /// Only data with this name.
    pub name: Option<&'a str>,
    /// Only data with a number greater than this.
    pub above: Option<u64>,
    /// Maximum number of results.
    pub limit: usize,
}

/// Selects the audit records to read, in ascending order.
#[derive(Debug, Clone, Default)]
pub struct RecordQuery {
    /// Only records after this number.
    pub after: u64,
    /// Only records before this number.
    pub before: Option<u64>,
    /// Only records about this job.
    pub job: Option<JobId>,
    /// Only this event.
    pub event: Option<AuditEvent>,
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only by this kind of actor: `user`, `worker` or `system`.
    pub actor_type: Option<String>,
    /// Only records of this tenant.
    pub tenant: Option<Tenant>,
    /// Only records about this queue or its jobs.
    pub queue: Option<QueueName>,
    /// Only records about this type or its jobs.
    pub job_type: Option<JobType>,
    /// Only records at or after this time.
    pub since: Option<Timestamp>,
    /// Only records before this time.
    pub until: Option<Timestamp>,
    /// Maximum number of results.
    pub limit: usize,
    /// Maximum number of records to scan for one page when no index matches the query; engines ignore it. At most
    /// [`limits::AUDIT_SCAN_MAX`](crate::limits::AUDIT_SCAN_MAX), which is also the default.
    pub reach: Option<u64>,
}

/// A job to insert.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// Its record.
    pub job: JobRecord,
    /// The job as submitted.
    pub spec: Spec,
    /// The keys it holds.
    pub keys: Vec<(Key, KeyHolder)>,
}

/// The result type of engine methods.
pub type EngineResult<T> = Result<T, StoreError>;

/// Read access. Inside a commit, jobs that were read stay locked until the commit ends.
pub trait Read: Export {
    /// The jobs with these ids, in this order.
    fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<JobRecord>>>;
    /// The jobs with these sequence numbers, in this order.
    fn load(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<JobRecord>>>;
    /// The specs of these jobs, in this order.
    fn specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>>;
    /// Hints that the specs of some of these jobs will be read soon, a few at a time. An engine that pays a round trip
    /// per query reads the small ones now.
    fn expect_specs(&mut self, _seqs: &[Seq]) -> EngineResult<()> {
        Ok(())
    }
    /// Up to `each_max` claimable jobs of each lane that are not blocked, in the order of [`ClaimOrder`].
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>>;
    /// The position of the first claimable job of each rank in each lane, lane after lane in the given order, up to
    /// `max` positions in all. Only ranks after the rank of the cursor are returned.
    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>>;
    /// Up to `max` jobs with a timer due by `now`, ordered by [`crate::job::acts_at`], then `seq`.
    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>>;
    /// The positions of up to `each_max` jobs of each lane that are due by `now` (delayed, retrying or parked),
    /// computed by [`ClaimOrder::when_due`] and in its order.
    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>>;
    /// The earliest time at which any job's timer is due.
    fn next_due(&mut self) -> EngineResult<Option<Timestamp>>;
    /// Jobs that match a filter, in its order, up to its limit.
    fn scan(&mut self, scan: &Scan) -> EngineResult<Vec<JobRecord>> {
        Ok(self.search(scan, usize::MAX)?.jobs)
    }
    /// Like [`scan`](Read::scan), but reads about `reach` jobs at most when no index matches the filter. In claim order
    /// this holds for the claimable jobs of up to a thousand lanes; other jobs are all read.
    fn search(&mut self, scan: &Scan, reach: usize) -> EngineResult<Found>;
    /// The first job of each lane, in the order of [`ClaimOrder`], that is blocked on this key. The order of the lanes
    /// is unspecified.
    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>>;
    /// The holders of these keys, in this order, expired or not.
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>>;
    /// The edges that have one of these jobs on this side, ordered by `dependency`, `dependent`, `need`.
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>>;
    /// Up to `max` edges of the jobs that depend on this one, ordered by `dependent`, `need`; only edges after `after`.
    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>>;
    /// Data of one job.
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>>;
    /// Data of several jobs, all of one kind, in the order of the jobs, then by name and number.
    fn job_data_of(&mut self, seqs: &[Seq], kind: JobDataKind) -> EngineResult<Vec<JobData>> {
        let mut found = Vec::new();
        for seq in seqs {
            let query = JobDataQuery { seq: *seq, kind, name: None, above: None, limit: usize::MAX };
            found.extend(self.job_data(query)?);
        }
        Ok(found)
    }
    /// All documents of a kind, ordered by key.
    fn documents(&mut self, kind: DocumentKind) -> EngineResult<Vec<Document>> {
        self.documents_from(kind, "")
    }
    /// All documents of several kinds, in the order of the kinds, each ordered by key.
    fn documents_of(&mut self, kinds: &[DocumentKind]) -> EngineResult<Vec<Vec<Document>>> {
        kinds.iter().map(|kind| self.documents(*kind)).collect()
    }
    /// The documents of a kind whose keys are not less than `start`, ordered by key.
    fn documents_from(&mut self, kind: DocumentKind, start: &str) -> EngineResult<Vec<Document>>;
    /// One document.
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>>;
    /// The documents of a kind whose keys are less than `end`, at most `max`, ordered by key.
    fn documents_before(&mut self, kind: DocumentKind, end: &str, max: usize) -> EngineResult<Vec<Document>>;
    /// A number that grows whenever a configuration document changes.
    fn configuration_version(&mut self) -> EngineResult<u64>;
    /// A number that changes whenever another connection has committed since this one last did. Cached data from before
    /// the change must be discarded.
    fn generation(&mut self) -> u64;
    /// The audit records that match a query.
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>>;
    /// The number of jobs per counter.
    fn counts(&mut self) -> EngineResult<&Counts>;
    /// How many concurrency keys the open jobs of a tenant have.
    fn keys_in_use(&mut self, tenant: &Tenant) -> EngineResult<u64>;
    /// How many open jobs of a tenant have each of these concurrency keys, in this order.
    fn jobs_with_keys(&mut self, tenant: &Tenant, keys: &[ConcurrencyKey]) -> EngineResult<Vec<u64>>;
    /// How many concurrency keys are in use, of each tenant that uses any.
    fn all_keys_in_use(&mut self) -> EngineResult<BTreeMap<Tenant, u64>>;
    /// Full integrity check; returns a description of each problem that no other query would reveal. Reads everything.
    fn damage(&mut self) -> EngineResult<Vec<String>>;
    /// The tenant of a job whose submission was committed by its caller but that is still in the inbox.
    fn expected(&mut self, _id: JobId) -> EngineResult<Option<Tenant>> {
        Ok(None)
    }
}

/// Write access. Either all changes of a commit are on disk before any caller is notified, or none are.
pub trait Write: Read + Import {
    /// The first of `count` new sequence numbers.
    fn allocate(&mut self, count: usize) -> EngineResult<Seq>;
    /// Inserts jobs.
    fn insert(&mut self, rows: &[NewRow]) -> EngineResult<()>;
    /// Replaces job records.
    fn update(&mut self, jobs: &[JobRecord]) -> EngineResult<()>;
    /// Replaces the metadata that clients may change.
    fn relabel(&mut self, labels: &[(Seq, JobMetadata)]) -> EngineResult<()>;
    /// Replaces the payload of a job.
    fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()>;
    /// Removes jobs and their data. Their audit records are kept, and so are the keys for which [`KeyHolder::outlive`]
    /// returns a holder.
    fn remove(&mut self, seqs: &[Seq], now: Timestamp) -> EngineResult<()>;
    /// Removes up to `max` expired idempotency keys of removed jobs, the earliest first; returns how many.
    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize>;
    /// Adds edges.
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()>;
    /// Releases keys.
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()>;
    /// Changes job data.
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()>;
    /// Replaces or removes a document.
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()>;
    /// Replaces documents of a kind that is not configuration, each key at most once.
    fn put_documents(&mut self, kind: DocumentKind, documents: &[Document]) -> EngineResult<()> {
        documents.iter().try_for_each(|document| self.put_document(kind, &document.key, Some(&document.body)))
    }
    /// Appends audit records and gives each the next number, without gaps.
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()>;
    /// Updates counters.
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()>;
    /// Updates the numbers of open jobs per concurrency key; each key at most once.
    fn count_keys(&mut self, changes: &[KeyChange]) -> EngineResult<()>;
    /// The reason why all current leases must be invalidated: the database was, or may have been, restored to an
    /// earlier state. Normally `None`.
    fn why_put_back(&mut self) -> EngineResult<Option<String>> {
        Ok(None)
    }
    /// Takes jobs that callers submitted in their own transactions out of the inbox, oldest first. Only PostgreSQL has
    /// an inbox.
    fn take_inbox(&mut self, _max: usize) -> EngineResult<Vec<InboxEntry>> {
        Ok(Vec::new())
    }
    /// Quarantines the oldest inbox entry because no job can be made of it.
    fn quarantine_inbox_entry(&mut self, _why: &str) -> EngineResult<()> {
        Ok(())
    }
}

/// A database.
pub trait Engine: Send + Sync + 'static {
    /// Accepts work for the next commit; refuses it when too much is waiting.
    fn write(&self, task: Box<dyn WriteTask>);
    /// Accepts work for a snapshot.
    fn read(&self, task: Box<dyn ReadTask>);
    /// Accepts short work for a snapshot that must not wait for long reads.
    fn read_urgent(&self, task: Box<dyn ReadTask>) {
        self.read(task);
    }
    /// The path of the database file, if there is one.
    fn file(&self) -> Option<&Path> {
        None
    }
    /// The name of the database schema, if there is one.
    fn schema(&self) -> Option<&str> {
        None
    }
    /// Copies everything, as of one point in time, to a new file while work continues.
    fn backup(&self, to: &Path) -> EngineResult<()>;
    /// Stops the engine after finishing the work it has accepted.
    fn close(&self);
}
