//! What is stored, by chapter of the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass::audit::Record;
use windlass::clock::Timestamp;
use windlass::job::{ConcurrencyKey, JobId, JobRecord, Seq, Spec, Tenant};
use windlass::store::engine::{Counts, DocumentKind, Edge, JobDataKind, Key, KeyHolder};

/// Everything. Cloning it copies one pointer per chapter; `Arc::make_mut` copies a chapter when it is first changed.
#[derive(Clone)]
pub(crate) struct Tables {
    /// Store time of the last commit.
    pub(crate) committed_at: Timestamp,
    /// `JobTable`: jobs by sequence number, and the numbers by id. `ReadyIndex` is computed from them.
    pub(crate) jobs: Arc<BTreeMap<Seq, Arc<Row>>>,
    pub(crate) ids: Arc<BTreeMap<JobId, Seq>>,
    /// `Keys`.
    pub(crate) keys: Arc<BTreeMap<Key, KeyHolder>>,
    /// `Graph`.
    pub(crate) edges: Arc<BTreeSet<Edge>>,
    /// `JobDataTable`.
    pub(crate) job_data: Arc<BTreeMap<JobDataKey, Arc<[u8]>>>,
    /// `Documents`.
    pub(crate) documents: Arc<BTreeMap<(DocumentKind, String), Vec<u8>>>,
    pub(crate) configuration_version: u64,
    /// `AuditLog`: the record with number n is at n − 1.
    pub(crate) records: Arc<Vec<Arc<Record>>>,
    /// `Counters`.
    pub(crate) counts: Arc<Counts>,
    /// Open jobs per concurrency key; a key without jobs has no entry.
    pub(crate) key_counts: Arc<BTreeMap<(Tenant, ConcurrencyKey), u64>>,
    pub(crate) next_seq: Seq,
    pub(crate) generation: u64,
}

/// Job, kind, name, number.
pub(crate) type JobDataKey = (Seq, JobDataKind, String, u64);

/// A job.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) job: JobRecord,
    pub(crate) spec: Spec,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            committed_at: Timestamp::MIN,
            jobs: Arc::default(),
            ids: Arc::default(),
            keys: Arc::default(),
            edges: Arc::default(),
            job_data: Arc::default(),
            documents: Arc::default(),
            configuration_version: 0,
            records: Arc::default(),
            counts: Arc::default(),
            key_counts: Arc::default(),
            next_seq: Seq(1),
            generation: 1,
        }
    }
}
