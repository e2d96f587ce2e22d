//! The jobs: a small record that changes with every step of a job's life, and a spec that stays almost as submitted.
//! An engine stores them apart, because claims read thousands of records and few specs.

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobMetadata, JobRecord, Payload, Seq, Spec};
use crate::store::engine::{EngineResult, Key, KeyHolder};
use crate::store::filter::{Scan, SearchResult};

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

/// Reading jobs. Inside a commit, a job that was read does not change until the commit ends, except by this commit,
/// whose own changes are seen at once.
pub trait JobTable {
    /// The jobs with these ids, in this order.
    fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<JobRecord>>>;
    /// The jobs with these sequence numbers, in this order. One that cannot be read counts as missing: it must not stop
    /// what is done with its neighbours.
    fn load(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<JobRecord>>>;
    /// The specs of these jobs, in this order.
    fn specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>>;
    /// The spec in a row that does not match its checksum, as far as it can be decoded: to say what was changed, never
    /// to run it.
    fn damaged_spec(&mut self, _seq: Seq) -> EngineResult<Option<Spec>> {
        Ok(None)
    }
    /// The specs of these jobs, in this order; for each that is damaged or missing, what is wrong with it. One damaged
    /// row does not hide the others.
    fn specs_or_damage(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Result<Spec, String>>> {
        let found = match self.specs(seqs) {
            Err(StoreError::Damaged(damage)) if is_row_damage(&damage) && seqs.len() > 1 => {
                let mut found = Vec::with_capacity(seqs.len());
                for seq in seqs {
                    found.append(&mut self.specs_or_damage(std::slice::from_ref(seq))?);
                }
                return Ok(found);
            }
            Err(StoreError::Damaged(damage)) if is_row_damage(&damage) => {
                return Ok(seqs.iter().map(|_| Err(damage.clone())).collect());
            }
            found => found?,
        };
        let lost = |seq: &Seq| format!("row {} of jobs is missing", seq.0);
        Ok(found.into_iter().zip(seqs).map(|(spec, seq)| spec.ok_or_else(|| lost(seq))).collect())
    }
    /// Jobs that match a filter, in its order, up to its limit. Reads about `reach` jobs at most when no index matches
    /// the filter, and then says where it stopped. Jobs that cannot be read are left out. In claim order this holds for the claimable jobs of up to a
    /// thousand lanes; other jobs are all read.
    fn search(&mut self, scan: &Scan, reach: usize) -> EngineResult<SearchResult>;
    /// Like [`search`](JobTable::search), however many jobs are read for it.
    fn scan(&mut self, scan: &Scan) -> EngineResult<Vec<JobRecord>> {
        Ok(self.search(scan, usize::MAX)?.jobs)
    }
}

/// Whether damage is that of a single row or job, which its text then begins with, and not of the whole file.
pub(crate) fn is_row_damage(damage: &str) -> bool {
    damage.starts_with("row ") || damage.starts_with("job ")
}

/// Writing jobs. A change of a job that does not exist is [`StoreError::Damaged`]:
/// the store has read it in the same commit.
pub trait JobTableMut: JobTable {
    /// Inserts jobs under the sequence numbers they have, and the keys they hold.
    fn insert(&mut self, rows: &[NewRow]) -> EngineResult<()>;
    /// Replaces job records. Every index follows: see [`ReadyIndex`](crate::store::engine::ReadyIndex).
    fn update(&mut self, jobs: &[JobRecord]) -> EngineResult<()>;
    /// Replaces the metadata that clients may change.
    fn set_metadata(&mut self, metadata: &[(Seq, JobMetadata)]) -> EngineResult<()>;
    /// Replaces the payload of a job.
    fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()>;
    /// Removes jobs with their specs, edges and data. Their audit records are kept, and so are the keys for which
    /// [`KeyHolder::outlive`] returns a holder; their other keys are released, unless another job has taken them since.
    /// Jobs that do not exist are skipped.
    fn remove(&mut self, seqs: &[Seq], now: Timestamp) -> EngineResult<()>;
}
