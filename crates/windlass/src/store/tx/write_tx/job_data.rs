//! Job data in a write transaction: read once, including pending changes. Thousands of children that end in one commit
//! then read their group from the engine once.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::WriteTx;
use crate::job::{JobRecord, Seq};
use crate::store::engine::{EngineResult, JobData, JobDataKind, JobDataQuery, JobDataWrite};

/// The key of a piece of job data.
type JobDataName = (Seq, JobDataKind, String, u64);

/// Job data that was read or changed.
#[derive(Default)]
pub(super) struct JobDataBuffer {
    /// The index of the latest pending write for each key.
    pending: FxHashMap<JobDataName, usize>,
    /// Stored values, as far as this transaction has read or written them.
    stored: FxHashMap<JobDataName, Option<Arc<[u8]>>>,
}

impl JobDataBuffer {
    /// Registers a pending write.
    pub(super) fn written(&mut self, write: &JobDataWrite, place: usize) {
        if is_asked_for(write) {
            self.pending.insert(name_of(write), place);
        }
    }

    /// Discards the writes that were undone.
    pub(super) fn undone(&mut self, left: &[JobDataWrite]) {
        if self.pending.values().any(|place| *place >= left.len()) {
            let asked_for = left.iter().enumerate().filter(|(_, write)| is_asked_for(write));
            self.pending = asked_for.map(|(place, write)| (name_of(write), place)).collect();
        }
    }

    /// Marks all pending writes as stored.
    pub(super) fn flushed(&mut self, writes: &[JobDataWrite]) {
        self.pending.clear();
        let asked_for = writes.iter().filter(|write| is_asked_for(write));
        self.stored.extend(asked_for.map(|write| (name_of(write), body_of(write))));
    }

    /// Drops the data of removed jobs.
    pub(super) fn removed(&mut self, seqs: &[Seq]) {
        let gone: FxHashSet<Seq> = seqs.iter().copied().collect();
        self.stored.retain(|name, _| !gone.contains(&name.0));
    }
}

impl WriteTx<'_> {
    /// The content of one piece of job data.
    pub(crate) fn job_data(
        &mut self,
        seq: Seq,
        kind: JobDataKind,
        name: &str,
        number: u64,
    ) -> EngineResult<Option<Arc<[u8]>>> {
        let key = (seq, kind, name.to_owned(), number);
        if let Some(place) = self.job_data.pending.get(&key) {
            return Ok(body_of(&self.pending.job_data[*place]));
        }
        if let Some(body) = self.job_data.stored.get(&key) {
            return Ok(body.clone());
        }
        let query = JobDataQuery { seq, kind, name: Some(name), above: number.checked_sub(1), limit: 1 };
        let found = self.raw(|db| db.job_data(query))?.pop().filter(|data| data.number == number);
        let body = found.map(|data| data.body);
        self.job_data.stored.insert(key, body.clone());
        Ok(body)
    }

    /// Size in bytes of a job's checkpoint of this name, if it exists.
    pub(crate) fn checkpoint_bytes(&mut self, job: &JobRecord, step: &str) -> EngineResult<Option<u64>> {
        if !job.has.checkpoints {
            return Ok(None);
        }
        let key = (job.seq, JobDataKind::Checkpoint, step.to_owned(), 0);
        if !self.job_data.pending.contains_key(&key) && self.cache.has_cached_steps(job.seq) {
            return Ok(self.cache.step_bytes(job.seq, step));
        }
        Ok(self.job_data(job.seq, JobDataKind::Checkpoint, step, 0)?.map(|body| body.len() as u64))
    }

    /// Caches checkpoints that were read for a running job.
    pub(crate) fn cache_steps(&mut self, seq: Seq, checkpoints: &[JobData]) {
        for data in checkpoints {
            self.cache.cache_step(seq, &data.name, data.body.len() as u64);
        }
    }

    /// Marks all pending writes as stored.
    pub(super) fn job_data_flushed(&mut self, writes: &[JobDataWrite]) {
        self.job_data.flushed(writes);
        for write in writes {
            if let JobDataWrite::Put(data) = write
                && data.kind == JobDataKind::Checkpoint
            {
                self.cache.cache_step(data.seq, &data.name, data.body.len() as u64);
            }
        }
    }
}

/// Whether this kind is read by name; for most jobs only other kinds are written.
fn is_asked_for(write: &JobDataWrite) -> bool {
    let (JobDataWrite::Put(JobData { kind, .. }) | JobDataWrite::Drop { kind, .. }) = write;
    matches!(kind, JobDataKind::Checkpoint | JobDataKind::Group)
}

fn name_of(write: &JobDataWrite) -> JobDataName {
    match write {
        JobDataWrite::Put(data) => (data.seq, data.kind, data.name.clone(), data.number),
        JobDataWrite::Drop { seq, kind, name, number } => (*seq, *kind, name.clone(), *number),
    }
}

fn body_of(write: &JobDataWrite) -> Option<Arc<[u8]>> {
    match write {
        JobDataWrite::Put(data) => Some(data.body.clone()),
        JobDataWrite::Drop { .. } => None,
    }
}
