//! The contract a database must meet. An engine locks rows, hands them over and writes what it is told; it holds no rule.
//! Verbs are written once, in `command/`, over these traits.

mod document;
mod task;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::document::{Document, DocumentKind};
pub use self::task::{ReadTask, WriteTask};
pub use super::claim_order::{ClaimOrder, rank};
pub use super::documents::counters::{CountChange, Counts, LimitScope, StateCounts};
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

/// Where to go on in a lane.
#[derive(Debug, Clone)]
pub struct LaneCursor {
    /// Which lane.
    pub lane: Arc<Lane>,
    /// After which place; from the front if none.
    pub after: Option<ClaimOrder>,
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// Same key, same job (M13).
    Idempotency,
    /// One job at a time (M14).
    Unique,
}

/// A key within its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// What it is for.
    pub kind: KeyKind,
    /// Whose.
    pub tenant: Tenant,
    /// For which type.
    pub job_type: JobType,
    /// The caller's words.
    pub text: String,
}

/// What a caller submitted in a transaction of its own, and has been given the id of.
#[derive(Debug, Clone)]
pub struct InboxEntry {
    /// The id.
    pub id: JobId,
    /// Who submitted it.
    pub owner: String,
    /// The job it is to become.
    pub job: NewJob,
}

/// One job waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge {
    /// The job that is waited for.
    pub dependency: Seq,
    /// The job that waits.
    pub dependent: Seq,
    /// How it waits.
    pub need: Need,
}

/// Which side of an edge the given jobs are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// They are waited for.
    Dependency,
    /// They wait.
    Dependent,
}

/// What hangs on a job and goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobDataKind {
    /// An attempt that ended; `number` is the attempt's.
    Attempt,
    /// A checkpoint or step; `name` is the step's.
    Checkpoint,
    /// A signal not asked for yet; `number` is the order of arrival.
    Signal,
    /// A log line; `number` is its place.
    Log,
    /// The result.
    Result,
    /// A group of children; `number` is the group's.
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

/// Something that hangs on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobData {
    /// The job.
    pub seq: Seq,
    /// What it is.
    pub kind: JobDataKind,
    /// Its name, empty where the kind has none.
    pub name: String,
    /// Its number, 0 where the kind has none.
    pub number: u64,
    /// Its content.
    pub body: Arc<[u8]>,
}

/// A change to what hangs on jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobDataWrite {
    /// Adds it, or replaces the one with the same name and number.
    Put(JobData),
    /// Removes it if it is there.
    Drop {
        /// The job.
        seq: Seq,
        /// What it is.
        kind: JobDataKind,
        /// Its name.
        name: String,
        /// Its number.
        number: u64,
    },
}

/// Which of a job's facets to read; they come ordered by name, then number.
#[derive(Debug, Clone, Copy)]
pub struct JobDataQuery<'a> {
    /// The job.
    pub seq: Seq,
    /// What they are.
    pub kind: JobDataKind,
    /// Only those with this name.
    pub name: Option<&'a str>,
    /// Only those with a number above this.
    pub above: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// Which audit records to read, in ascending order.
#[derive(Debug, Clone, Default)]
pub struct RecordQuery {
    /// Only those after this one.
    pub after: u64,
    /// Only those before this one.
    pub before: Option<u64>,
    /// Only those about this job.
    pub job: Option<JobId>,
    /// Only this event.
    pub event: Option<AuditEvent>,
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only by this kind of actor: `user`, `worker` or `system`.
    pub actor_type: Option<String>,
    /// Only of this tenant.
    pub tenant: Option<Tenant>,
    /// Only about this queue, or jobs of it.
    pub queue: Option<QueueName>,
    /// Only about this type, or jobs of it.
    pub job_type: Option<JobType>,
    /// Not before this.
    pub since: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
    /// Look at no more than so many for one page, where no index leads to those that fit; engines do not ask for it. At
    /// most [`limits::AUDIT_SCAN_MAX`](crate::limits::AUDIT_SCAN_MAX), which is also meant if it is not given.
    pub reach: Option<u64>,
}

/// A job to be added.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// Its record.
    pub job: JobRecord,
    /// What was submitted.
    pub spec: Spec,
    /// The keys it takes.
    pub keys: Vec<(Key, KeyHolder)>,
}

/// What an engine's methods answer.
pub type EngineResult<T> = Result<T, StoreError>;

/// Reading. Inside a commit, jobs that were handed over stay locked until it ends.
pub trait Read: Export {
    /// The jobs with these ids, in this order.
    fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<JobRecord>>>;
    /// The jobs at these places, in this order.
    fn load(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<JobRecord>>>;
    /// What was submitted for these jobs, in this order.
    fn specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>>;
    /// Announces that what was submitted for some of these jobs is asked for soon, a few at a time. An engine for which each
    /// question is a round trip reads it now, as far as it is small.
    fn expect_specs(&mut self, _seqs: &[Seq]) -> EngineResult<()> {
        Ok(())
    }
    /// Up to `each_max` claimable jobs of each lane that are not set aside, in the order of [`Place`].
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>>;
    /// The place of the first claimable job of each rank in each lane, lane after lane in the given order, up to `max` places
    /// in all; only of ranks behind that of the place where the cursor stands.
    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>>;
    /// Up to `max` jobs that time changes by `now`, ordered by [`crate::job::acts_at`], then `seq`.
    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>>;
    /// The places of up to `each_max` jobs of each lane that wait for a time which has come by `now` (delayed, retrying or
    /// parked), as [`Place::when_due`] says, in its order.
    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>>;
    /// The first moment at which time changes any job.
    fn next_due(&mut self) -> EngineResult<Option<Timestamp>>;
    /// Jobs that fit a filter, in its order, all that there are up to its limit.
    fn scan(&mut self, scan: &Scan) -> EngineResult<Vec<JobRecord>> {
        Ok(self.search(scan, usize::MAX)?.jobs)
    }
    /// The same, looking at some `reach` jobs at most where no index leads to those that fit. In the order of claims that holds
    /// for claimable jobs of a thousand lanes at most; others are all looked at.
    fn search(&mut self, scan: &Scan, reach: usize) -> EngineResult<Found>;
    /// The first in the order of [`Place`] of each lane's jobs that are set aside for this key;
    /// the lanes come in no particular order.
    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>>;
    /// Who has these keys, in this order, expired or not.
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>>;
    /// The edges of which one of these jobs is on this side, ordered by `dependency`, `dependent`, `need`.
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>>;
    /// Up to `max` edges of the jobs that wait for this one, ordered by `dependent`, `need`; only those after `after`.
    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>>;
    /// What hangs on a job.
    fn facets(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>>;
    /// What hangs on several jobs, all of one kind; in the order of the jobs, then by name and number.
    fn facets_of(&mut self, seqs: &[Seq], kind: JobDataKind) -> EngineResult<Vec<JobData>> {
        let mut found = Vec::new();
        for seq in seqs {
            let query = JobDataQuery { seq: *seq, kind, name: None, above: None, limit: usize::MAX };
            found.extend(self.facets(query)?);
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
    /// The documents of a kind whose keys do not come before `start`, ordered by key.
    fn documents_from(&mut self, kind: DocumentKind, start: &str) -> EngineResult<Vec<Document>>;
    /// One document.
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>>;
    /// The documents of a kind whose keys come before `end`, at most `max` of them, ordered by key.
    fn documents_before(&mut self, kind: DocumentKind, end: &str, max: usize) -> EngineResult<Vec<Document>>;
    /// A number that grows whenever a document that is part of the configuration changes.
    fn configuration_version(&mut self) -> EngineResult<u64>;
    /// A number that changes whenever somebody else has committed since this connection last did; what was remembered
    /// before it changed is worth nothing.
    fn generation(&mut self) -> u64;
    /// Audit records.
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>>;
    /// How many jobs are where.
    fn counts(&mut self) -> EngineResult<&Counts>;
    /// What is wrong with the storage itself, in words, as far as no other question would show it. Looks at all there is.
    fn damage(&mut self) -> EngineResult<Vec<String>>;
    /// Whose job this is to become, if its submission was committed by its caller and is not a job yet.
    fn expected(&mut self, _id: JobId) -> EngineResult<Option<Tenant>> {
        Ok(None)
    }
}

/// Writing. All of it is on disk, or none of it, before anybody is told.
pub trait Write: Read + Import {
    /// The first of `count` new places in the order of submission.
    fn allocate(&mut self, count: usize) -> EngineResult<Seq>;
    /// Adds jobs.
    fn insert(&mut self, rows: &[NewRow]) -> EngineResult<()>;
    /// Replaces job records.
    fn update(&mut self, jobs: &[JobRecord]) -> EngineResult<()>;
    /// Replaces what clients may change.
    fn relabel(&mut self, labels: &[(Seq, JobMetadata)]) -> EngineResult<()>;
    /// Replaces the payload of a job.
    fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()>;
    /// Removes jobs with everything that hangs on them; their audit records stay, and so does what
    /// [`KeyHolder::outlive`] leaves of their keys.
    fn remove(&mut self, seqs: &[Seq], now: Timestamp) -> EngineResult<()>;
    /// Removes up to `max` idempotency keys of removed jobs whose end has come, the earliest first; says how many.
    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize>;
    /// Adds edges.
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()>;
    /// Frees keys.
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()>;
    /// Changes what hangs on jobs.
    fn write_facets(&mut self, writes: &[JobDataWrite]) -> EngineResult<()>;
    /// Replaces a document, or removes it.
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()>;
    /// Replaces documents of a kind that is no configuration, each key at most once.
    fn put_documents(&mut self, kind: DocumentKind, documents: &[Document]) -> EngineResult<()> {
        documents.iter().try_for_each(|document| self.put_document(kind, &document.key, Some(&document.body)))
    }
    /// Adds audit records, giving each the next number without a gap.
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()>;
    /// Moves counts.
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()>;
    /// Why leases given out so far must not count any more: the engine found that the database was put back to an earlier
    /// moment, or may have been. None, mostly.
    fn why_put_back(&mut self) -> EngineResult<Option<String>> {
        Ok(None)
    }
    /// Takes out what callers submitted in transactions of their own, oldest first; only a server has such a door.
    fn take_inbox(&mut self, _max: usize) -> EngineResult<Vec<InboxEntry>> {
        Ok(Vec::new())
    }
    /// Sets the oldest of them aside, because no job can be made of it.
    fn quarantine_inbox_entry(&mut self, _why: &str) -> EngineResult<()> {
        Ok(())
    }
}

/// A database.
pub trait Engine: Send + Sync + 'static {
    /// Takes work for the next commit; refuses when too much is waiting.
    fn write(&self, task: Box<dyn WriteTask>);
    /// Takes work for a snapshot.
    fn read(&self, task: Box<dyn ReadTask>);
    /// Takes work for a snapshot that is short and must not wait for long looks.
    fn read_urgent(&self, task: Box<dyn ReadTask>) {
        self.read(task);
    }
    /// The file it keeps, if it keeps one.
    fn file(&self) -> Option<&Path> {
        None
    }
    /// The schema it keeps on a server, if it keeps one.
    fn schema(&self) -> Option<&str> {
        None
    }
    /// Copies everything, as of one moment, to a new file, while work goes on.
    fn backup(&self, to: &Path) -> EngineResult<()>;
    /// Ends all work; what was taken is finished first.
    fn close(&self);
}
