//! Pending changes of a write transaction besides job records, and the position at which a command began.

use crate::audit::Record;
use crate::job::{JobMetadata, Seq, Spec};
use crate::store::documents::cascade::Cascade;
use crate::store::engine::{Edge, JobDataWrite, Key, KeyHolder};

/// The submitted parts of a job that is not stored yet.
pub(super) struct NewParts {
    pub(super) seq: Seq,
    pub(super) spec: Spec,
    pub(super) keys: Vec<(Key, KeyHolder)>,
}

/// What is to be written besides job records.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) inserts: Vec<NewParts>,
    pub(super) edges: Vec<Edge>,
    pub(super) job_data: Vec<JobDataWrite>,
    pub(super) released: Vec<Key>,
    pub(super) metadata: Vec<(Seq, JobMetadata)>,
    pub(super) removed: Vec<Seq>,
    pub(super) cascades: Vec<Cascade>,
    /// In the order they happened; the second value is whether the record is kept or only shown live.
    pub(super) records: Vec<(Record, bool)>,
}

/// How much was pending when a command began.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) inserts: usize,
    pub(super) edges: usize,
    pub(super) job_data: usize,
    pub(super) released: usize,
    pub(super) metadata: usize,
    pub(super) removed: usize,
    pub(super) cascades: usize,
    pub(super) records: usize,
}

impl Pending {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            inserts: self.inserts.len(),
            edges: self.edges.len(),
            job_data: self.job_data.len(),
            released: self.released.len(),
            metadata: self.metadata.len(),
            removed: self.removed.len(),
            cascades: self.cascades.len(),
            records: self.records.len(),
        }
    }
}
