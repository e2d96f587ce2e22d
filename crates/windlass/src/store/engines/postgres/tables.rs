//! One connection to the database: its transactions, its caches, and the engine's contract; each method is implemented
//! in the module named for it. It contains no rules.

pub(super) mod intern;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::cluster::Identity;
use super::connection::Connection;
use super::node_cache::{ClaimBounds, Meta};
use super::prefetch::Prefetch;
use super::row::ColumnIndexes;
use super::sql_submit::InboxState;
use super::timer::Timers;
use crate::audit::Record;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{
    ConcurrencyKey, JobId, JobMetadata, JobRecord, JobState, Lane, Need, Payload, Seq, Spec, Tenant,
};
use crate::limits;
use crate::store::engine::{
    ClaimOrder, CountChange, Counts, Document, DocumentKind, Edge, EngineResult, InboxEntry, JobData,
    JobDataKind, JobDataQuery, JobDataWrite, Key, KeyChange, KeyHolder, LaneCursor, NewRow, Read,
    RecordQuery, Side, Write,
};
use crate::store::engines::sql::columns::{limit, number};
use crate::store::engines::sql::interner::Interned;
use crate::store::filter::{Found, Scan};

/// A connection and its caches.
pub(super) struct Tables {
    pub(super) link: Connection,
    pub(super) interned: Interned,
    pub(super) meta: Meta,
    /// How often another node's commit was found.
    pub(super) generation: u64,
    /// Whether other nodes had committed when this transaction began, and so probably will have when the next does.
    pub(super) is_shared: bool,
    /// `None` until first used, and again after another node may have changed them.
    pub(super) counts: Option<Counts>,
    /// Changes of counts in this transaction.
    pub(super) moved: BTreeMap<(Arc<Lane>, JobState), i64>,
    pub(super) floors: ClaimBounds,
    pub(super) timers: Timers,
    pub(super) ahead: Prefetch,
    /// The index entries of jobs that this transaction has read.
    pub(super) met: FxHashMap<Seq, ColumnIndexes>,
    /// Whether this connection writes; if not, no cleanup is done in passing.
    pub(super) is_writer: bool,
    pub(super) has_written: bool,
    /// The number and nonce of the commit that was sent in this transaction, if there was anything to write.
    pub(super) tried: Option<(i64, i64)>,
    /// How long this connection's transactions may be idle.
    pub(super) idle_max: Duration,
    /// Rows of `commits` below this number were removed.
    pub(super) forgotten_to: i64,
    /// What this transaction has found about the SQL inbox.
    pub(super) inbox_state: InboxState,
    /// The time of this transaction, for the order of timers.
    pub(super) now: i64,
    /// What was found about the identity of the database.
    pub(super) identity: Identity,
}

impl Tables {
    /// Takes over a connection to a schema with the current version.
    pub(super) fn new(link: Connection, is_writer: bool) -> Tables {
        Tables {
            link,
            interned: Interned::default(),
            meta: Meta::default(),
            generation: 0,
            is_shared: false,
            counts: None,
            moved: BTreeMap::new(),
            floors: ClaimBounds::default(),
            timers: Timers::default(),
            ahead: Prefetch::default(),
            met: FxHashMap::default(),
            is_writer,
            has_written: false,
            tried: None,
            idle_max: limits::TRANSACTION_IDLE_MAX,
            forgotten_to: -1,
            inbox_state: InboxState::default(),
            now: 0,
            identity: Identity::default(),
        }
    }

    /// Replaces a lost connection; what was committed stays known.
    pub(super) fn relink(&mut self, link: Connection) {
        let (meta, forgotten_to, generation) = (self.meta, self.forgotten_to, self.generation + 1);
        *self = Tables { meta, generation, forgotten_to, ..Tables::new(link, self.is_writer) };
    }

    /// Clears what was cached in a transaction that was not committed.
    pub(super) fn clear_caches(&mut self) {
        self.interned.clear();
        self.counts = None;
        self.floors.clear();
        self.timers.clear();
        self.clear_transaction();
    }

    /// Clears the state of one transaction.
    pub(super) fn clear_transaction(&mut self) {
        self.moved.clear();
        self.met.clear();
        self.ahead.begin();
        self.has_written = false;
        self.tried = None;
        self.link.abandon();
    }

    /// Sends a write of this transaction.
    pub(super) fn write(
        &mut self,
        sql: &str,
        values: Vec<super::parameter::Parameter>,
        expected: Option<(u64, &'static str)>,
    ) -> EngineResult<()> {
        if !self.is_writer {
            return Err(StoreError::Database("a connection for reading was asked to write".into()));
        }
        self.has_written = true;
        self.link.send(sql, values, expected)
    }
}

impl Read for Tables {
    fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<JobRecord>>> {
        self.find_jobs(ids)
    }
    fn load(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<JobRecord>>> {
        self.load_jobs(seqs)
    }
    fn specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>> {
        self.load_specs(seqs)
    }
    fn expect_specs(&mut self, seqs: &[Seq]) -> EngineResult<()> {
        self.prefetch_specs(seqs)
    }
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>> {
        self.ready_in(lanes, each_max)
    }
    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        self.heads_of(lanes, max)
    }
    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>> {
        self.due_jobs(now.as_millis(), max)
    }
    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        self.due_in_lanes(lanes, now.as_millis(), each_max)
    }
    fn next_due(&mut self) -> EngineResult<Option<Timestamp>> {
        Ok(self.first_due()?.map(Timestamp::from_millis))
    }
    fn search(&mut self, scan: &Scan, reach: usize) -> EngineResult<Found> {
        self.search_jobs(scan, reach)
    }
    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>> {
        self.first_aside(key)
    }
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        self.key_holders(keys)
    }
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>> {
        self.edges_of(seqs, side)
    }
    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>> {
        self.edges_from(dependency, after, max)
    }
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>> {
        self.read_job_data(query)
    }
    fn job_data_of(&mut self, seqs: &[Seq], kind: JobDataKind) -> EngineResult<Vec<JobData>> {
        self.read_job_data_of(seqs, kind)
    }
    fn documents_of(&mut self, kinds: &[DocumentKind]) -> EngineResult<Vec<Vec<Document>>> {
        self.read_documents_of(kinds)
    }

    fn documents_from(&mut self, kind: DocumentKind, start: &str) -> EngineResult<Vec<Document>> {
        self.read_documents_from(kind, start)
    }
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>> {
        self.read_document(kind, key)
    }
    fn documents_before(&mut self, kind: DocumentKind, end: &str, max: usize) -> EngineResult<Vec<Document>> {
        self.read_documents_before(kind, end, max)
    }
    fn configuration_version(&mut self) -> EngineResult<u64> {
        Ok(self.meta.config_version.unsigned_abs())
    }
    fn generation(&mut self) -> u64 {
        self.generation
    }
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>> {
        self.read_records(query)
    }
    fn counts(&mut self) -> EngineResult<&Counts> {
        self.load_counts()
    }
    fn keys_in_use(&mut self, tenant: &Tenant) -> EngineResult<u64> {
        self.read_keys_in_use(tenant)
    }
    fn jobs_with_keys(&mut self, tenant: &Tenant, keys: &[ConcurrencyKey]) -> EngineResult<Vec<u64>> {
        self.read_jobs_with_keys(tenant, keys)
    }
    fn all_keys_in_use(&mut self) -> EngineResult<BTreeMap<Tenant, u64>> {
        self.read_all_keys_in_use()
    }
    fn damage(&mut self) -> EngineResult<Vec<String>> {
        self.find_damage()
    }
    fn expected(&mut self, id: JobId) -> EngineResult<Option<Tenant>> {
        self.inbox_tenant(id)
    }
}

impl Write for Tables {
    fn allocate(&mut self, count: usize) -> EngineResult<Seq> {
        let first = self.meta.next_seq;
        self.meta.next_seq = first.saturating_add(limit(count));
        Ok(Seq(first))
    }
    fn insert(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        self.insert_rows(rows)
    }
    fn update(&mut self, jobs: &[JobRecord]) -> EngineResult<()> {
        self.update_jobs(jobs)
    }
    fn relabel(&mut self, labels: &[(Seq, JobMetadata)]) -> EngineResult<()> {
        labels.iter().try_for_each(|(seq, labels)| self.relabel_job(*seq, labels))
    }
    fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()> {
        self.rewrite_payload(seq, payload)
    }
    fn remove(&mut self, seqs: &[Seq], now: Timestamp) -> EngineResult<()> {
        self.remove_jobs(seqs, now)
    }
    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize> {
        self.delete_expired_keys(now, max)
    }
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()> {
        self.insert_edges(edges)
    }
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        self.delete_keys(keys)
    }
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()> {
        self.write_all_job_data(writes)
    }
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()> {
        self.write_document(kind, key, body)
    }
    fn put_documents(&mut self, kind: DocumentKind, documents: &[Document]) -> EngineResult<()> {
        self.write_documents(kind, documents)
    }
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()> {
        for record in &mut *records {
            record.seq = self.meta.next_record.unsigned_abs();
            self.meta.next_record = number(record.seq + 1);
        }
        self.append_records(records)
    }
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()> {
        self.move_counts(changes);
        Ok(())
    }
    fn count_keys(&mut self, changes: &[KeyChange]) -> EngineResult<()> {
        self.move_key_counts(changes)
    }
    fn take_inbox(&mut self, max: usize) -> EngineResult<Vec<InboxEntry>> {
        self.read_inbox(max)
    }
    fn why_put_back(&mut self) -> EngineResult<Option<String>> {
        self.find_put_back()
    }
    fn quarantine_inbox_entry(&mut self, why: &str) -> EngineResult<()> {
        self.quarantine_first(why)
    }
}
