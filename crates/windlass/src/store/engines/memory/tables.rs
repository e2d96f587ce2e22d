//! The tables of the memory engine, their indexes, and the undo log. Every change goes through a method here that
//! records what it replaced, so a failed group is undone without any copies made beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::audit::Record;
use crate::clock::Timestamp;
use crate::job::{
    JobId, JobMetadata, JobRecord, JobState, Lane, Need, Payload, Seq, Spec, WorkerId, acts_at,
};
use crate::store::documents::key_counts::KeyCounts;
use crate::store::engine::{
    ClaimOrder, CountChange, Counts, DocumentKind, Edge, JobDataKind, Key, KeyChange, KeyHolder,
};

/// A job, its spec, and the keys it holds.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) job: JobRecord,
    pub(super) spec: Spec,
    pub(super) keys: Vec<Key>,
}

/// Job, kind, name, number.
pub(super) type JobDataKey = (Seq, JobDataKind, String, u64);

/// Everything that is stored.
#[derive(Clone, Default)]
pub(super) struct Tables {
    pub(super) rows: BTreeMap<Seq, Row>,
    pub(super) ids: BTreeMap<JobId, Seq>,
    /// Claimable jobs that are not blocked, by lane.
    pub(super) ready: BTreeMap<Arc<Lane>, BTreeSet<ClaimOrder>>,
    /// Jobs with timers, by time.
    pub(super) due: BTreeSet<(Timestamp, Seq)>,
    /// Running jobs, by the worker that they are leased to.
    pub(super) leased: BTreeMap<WorkerId, BTreeSet<Seq>>,
    /// Jobs that wait for a time, by lane.
    pub(super) timed: BTreeMap<Arc<Lane>, BTreeSet<ClaimOrder>>,
    pub(super) keys: BTreeMap<Key, KeyHolder>,
    pub(super) edges: BTreeSet<Edge>,
    /// The same edges by dependent, then dependency.
    pub(super) edges_back: BTreeSet<(Seq, Seq, Need)>,
    pub(super) job_data: BTreeMap<JobDataKey, Arc<[u8]>>,
    pub(super) documents: BTreeMap<(DocumentKind, String), Vec<u8>>,
    pub(super) records: Vec<Record>,
    pub(super) counts: Counts,
    pub(super) key_counts: KeyCounts,
    /// Never undone: a sequence number or a version is not used twice.
    pub(super) last_seq: i64,
    pub(super) configuration_version: u64,
    /// The number of generations before the current one.
    pub(super) generations_over: u64,
    pub(super) committed_at: Timestamp,
    /// That of the connection whose tasks run.
    pub(super) cache_generation: u64,
    undo: Vec<Undo>,
}

/// What a change replaced.
#[derive(Clone)]
enum Undo {
    Row(Seq, Option<Box<Row>>),
    Job(Box<JobRecord>),
    Metadata(Seq, JobMetadata),
    Payload(Seq, Payload),
    Key(Key, Option<KeyHolder>),
    Edge(Edge, bool),
    JobData(JobDataKey, Option<Arc<[u8]>>),
    Document(DocumentKind, String, Option<Vec<u8>>),
    Records(usize),
    GenerationsOver(u64),
    Count(CountChange),
    KeyCount(KeyChange),
}

impl Tables {
    /// Keeps everything since the last commit.
    pub(super) fn commit(&mut self, at: Timestamp) {
        self.committed_at = at;
        self.undo.clear();
    }

    /// Undoes everything since the last commit, latest first.
    pub(super) fn roll_back(&mut self) {
        for change in std::mem::take(&mut self.undo).into_iter().rev() {
            match change {
                Undo::Row(seq, row) => self.set_row(seq, row.map(|row| *row)),
                // Both exist again: a later removal has already been undone.
                Undo::Job(job) => assert!(self.set_job(&job)),
                Undo::Metadata(seq, metadata) => assert!(self.replace_metadata(seq, metadata)),
                Undo::Payload(seq, payload) => assert!(self.set_payload(seq, payload)),
                Undo::Key(key, holder) => self.set_key(key, holder),
                Undo::Edge(edge, is_there) => self.set_edge(edge, is_there),
                Undo::JobData(key, body) => self.set_job_data(key, body),
                Undo::Document(kind, key, body) => self.set_document(kind, key, body),
                Undo::Records(length) => self.records.truncate(length),
                Undo::GenerationsOver(before) => self.set_generations_over(before),
                Undo::Count(CountChange { lane, state, by }) => self.counts.add(&lane, state, -by),
                Undo::KeyCount(KeyChange { tenant, key, by }) => self.key_counts.add(&tenant, key, -by),
            }
        }
        // Undoing used the same methods and recorded its own undo entries, which are not needed.
        self.undo.clear();
    }

    /// Sets or removes a row.
    pub(super) fn set_row(&mut self, seq: Seq, row: Option<Row>) {
        let previous = self.rows.remove(&seq);
        if let Some(previous) = &previous {
            self.unindex(&previous.job);
        }
        if let Some(row) = row {
            self.index(&row.job);
            self.rows.insert(seq, row);
        }
        self.undo.push(Undo::Row(seq, previous.map(Box::new)));
    }

    /// Replaces the record of a job, if it exists.
    pub(super) fn set_job(&mut self, job: &JobRecord) -> bool {
        let Some(row) = self.rows.get_mut(&job.seq) else { return false };
        let previous = std::mem::replace(&mut row.job, job.clone());
        self.unindex(&previous);
        self.index(job);
        self.undo.push(Undo::Job(Box::new(previous)));
        true
    }

    /// Replaces the metadata that clients may change, if the job exists.
    pub(super) fn replace_metadata(&mut self, seq: Seq, metadata: JobMetadata) -> bool {
        let Some(row) = self.rows.get_mut(&seq) else { return false };
        let previous = std::mem::replace(&mut row.spec.metadata, metadata);
        self.undo.push(Undo::Metadata(seq, previous));
        true
    }

    /// Replaces the payload, if the job exists.
    pub(super) fn set_payload(&mut self, seq: Seq, payload: Payload) -> bool {
        let Some(row) = self.rows.get_mut(&seq) else { return false };
        let previous = std::mem::replace(&mut row.spec.payload, payload);
        self.undo.push(Undo::Payload(seq, previous));
        true
    }

    /// Sets or removes the holder of a key.
    pub(super) fn set_key(&mut self, key: Key, holder: Option<KeyHolder>) {
        let previous = match holder {
            Some(holder) => self.keys.insert(key.clone(), holder),
            None => self.keys.remove(&key),
        };
        self.undo.push(Undo::Key(key, previous));
    }

    /// Adds or removes an edge.
    pub(super) fn set_edge(&mut self, edge: Edge, is_there: bool) {
        let back = (edge.dependent, edge.dependency, edge.need);
        let was_there = if is_there {
            self.edges_back.insert(back);
            !self.edges.insert(edge)
        } else {
            self.edges_back.remove(&back);
            self.edges.remove(&edge)
        };
        self.undo.push(Undo::Edge(edge, was_there));
    }

    /// Sets or removes job data.
    pub(super) fn set_job_data(&mut self, key: JobDataKey, body: Option<Arc<[u8]>>) {
        let previous = match body {
            Some(body) => self.job_data.insert(key.clone(), body),
            None => self.job_data.remove(&key),
        };
        self.undo.push(Undo::JobData(key, previous));
    }

    /// Sets or removes a document.
    pub(super) fn set_document(&mut self, kind: DocumentKind, key: String, body: Option<Vec<u8>>) {
        if kind.is_configuration() {
            self.configuration_version += 1;
        }
        let previous = match body {
            Some(body) => self.documents.insert((kind, key.clone()), body),
            None => self.documents.remove(&(kind, key.clone())),
        };
        self.undo.push(Undo::Document(kind, key, previous));
    }

    /// Sets the number of past generations.
    pub(super) fn set_generations_over(&mut self, over: u64) {
        self.undo.push(Undo::GenerationsOver(self.generations_over));
        self.generations_over = over;
    }

    /// Adds a record with the next number; returns the number.
    pub(super) fn add_record(&mut self, record: &Record) -> u64 {
        let length = self.records.len();
        let seq = u64::try_from(length).expect("a length fits 64 bits") + 1;
        self.undo.push(Undo::Records(length));
        self.records.push(Record { seq, ..record.clone() });
        seq
    }

    /// Changes a count.
    pub(super) fn move_count(&mut self, change: CountChange) {
        self.counts.add(&change.lane, change.state, change.by);
        self.undo.push(Undo::Count(change));
    }

    /// Changes the number of open jobs with a concurrency key.
    pub(super) fn move_key_count(&mut self, change: KeyChange) {
        self.key_counts.add(&change.tenant, change.key, change.by);
        self.undo.push(Undo::KeyCount(change));
    }

    fn index(&mut self, job: &JobRecord) {
        self.ids.insert(job.id, job.seq);
        if is_ready(job) {
            self.ready.entry(job.lane.clone()).or_default().insert(ClaimOrder::new(job));
        }
        if let Some(at) = acts_at(job) {
            self.due.insert((at, job.seq));
        }
        if let Some(lease) = job.lease {
            self.leased.entry(lease.worker).or_default().insert(job.seq);
        }
        if let Some(place) = ClaimOrder::when_due(job) {
            self.timed.entry(job.lane.clone()).or_default().insert(place);
        }
    }

    fn unindex(&mut self, job: &JobRecord) {
        self.ids.remove(&job.id);
        if let Some(places) = self.ready.get_mut(&job.lane).filter(|_| is_ready(job)) {
            places.remove(&ClaimOrder::new(job));
            if places.is_empty() {
                self.ready.remove(&job.lane);
            }
        }
        if let Some(at) = acts_at(job) {
            self.due.remove(&(at, job.seq));
        }
        if let Some(lease) = job.lease
            && let Some(seqs) = self.leased.get_mut(&lease.worker)
        {
            seqs.remove(&job.seq);
            if seqs.is_empty() {
                self.leased.remove(&lease.worker);
            }
        }
        if let (Some(place), Some(places)) = (ClaimOrder::when_due(job), self.timed.get_mut(&job.lane)) {
            places.remove(&place);
            if places.is_empty() {
                self.timed.remove(&job.lane);
            }
        }
    }
}

/// Whether a job may be claimed and is not blocked.
fn is_ready(job: &JobRecord) -> bool {
    job.state == JobState::Scheduled && !job.is_blocked
}
