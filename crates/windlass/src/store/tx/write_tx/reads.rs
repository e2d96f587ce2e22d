//! Reads of a write transaction, including pending changes.

use rustc_hash::{FxHashMap, FxHashSet};

use super::WriteTx;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Seq, Spec};
use crate::store::engine::{EngineResult, Read, Write, is_row_damage};
use crate::store::tx::read_tx::ReadTx;

impl WriteTx<'_> {
    /// The job with this id; an error if it cannot be read, for a command about this job alone.
    pub(crate) fn find_readable(&mut self, id: JobId) -> EngineResult<Option<Seq>> {
        let found = self.find(&[id])?[0];
        if found.is_none() {
            self.raw(|db| Ok(db.find(&[id])))??;
        }
        Ok(found)
    }

    /// The spec of a job. One that is damaged is an error of this command, not of the whole commit.
    pub fn spec(&mut self, seq: Seq) -> EngineResult<Option<Spec>> {
        let new = self.pending.inserts.iter().find(|new| new.seq == seq).map(|new| new.spec.clone());
        let spec = if new.is_some() { new } else { self.stored_spec(seq)? };
        let changed = self.pending.metadata.iter().rev().find(|(at, _)| *at == seq);
        let metadata = changed.map(|(_, metadata)| metadata.clone());
        Ok(spec.map(|spec| match metadata {
            Some(metadata) => Spec { metadata, ..spec },
            None => spec,
        }))
    }

    fn stored_spec(&mut self, seq: Seq) -> EngineResult<Option<Spec>> {
        self.raw(|db| match db.specs(&[seq]) {
            Err(StoreError::Damaged(damage)) if is_row_damage(&damage) => {
                Ok(Err(StoreError::Damaged(damage)))
            }
            found => Ok(Ok(found?.pop().flatten())),
        })?
    }

    /// The spec of a job, or what is wrong with it.
    pub(crate) fn spec_or_damage(&mut self, seq: Seq) -> EngineResult<Result<Spec, String>> {
        match self.spec(seq) {
            Ok(Some(spec)) => Ok(Ok(spec)),
            Ok(None) => Ok(Err(format!("row {} of jobs is missing", seq.0))),
            Err(StoreError::Damaged(damage)) if is_row_damage(&damage) => Ok(Err(damage)),
            Err(error) => Err(error),
        }
    }

    /// The specs of jobs, including those added by this commit, or what is wrong with each.
    pub(crate) fn specs(&mut self, seqs: &[Seq]) -> EngineResult<FxHashMap<Seq, Result<Spec, String>>> {
        let wanted: FxHashSet<Seq> = seqs.iter().copied().collect();
        let new = self.pending.inserts.iter().filter(|new| wanted.contains(&new.seq));
        let mut found: FxHashMap<Seq, Result<Spec, String>> =
            new.map(|new| (new.seq, Ok(new.spec.clone()))).collect();
        let stored: Vec<Seq> = wanted.into_iter().filter(|seq| !found.contains_key(seq)).collect();
        for seq in stored {
            let spec = self.spec_or_damage(seq)?;
            found.insert(seq, spec);
        }
        // A job that another node appended may be inserted and changed in one commit.
        for (seq, metadata) in &self.pending.metadata {
            if let Some(Ok(spec)) = found.get_mut(seq) {
                spec.metadata = metadata.clone();
            }
        }
        Ok(found)
    }

    /// A read transaction within this commit. It does not see pending changes.
    pub(crate) fn read_tx(&mut self) -> ReadTx<'_> {
        let mut tx = ReadTx::within(self.db, self.cache, self.env, self.now);
        tx.is_in_commit = true;
        tx
    }

    /// The engine for reading only, after flushing all pending changes.
    pub fn reader(&mut self) -> EngineResult<&mut dyn Read> {
        self.flush()?;
        Ok(self.db)
    }
}

/// The jobs with these ids that exist and can be read.
pub(super) fn find_each(db: &mut dyn Write, ids: &[JobId]) -> EngineResult<Vec<JobRecord>> {
    match db.find(ids) {
        Err(StoreError::Damaged(damage)) if is_row_damage(&damage) => {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                match db.find(std::slice::from_ref(id)) {
                    Err(StoreError::Damaged(damage)) if is_row_damage(&damage) => {
                        tracing::error!(job = %id, damage, "a job cannot be read: see `windlass verify`");
                    }
                    one => found.extend(one?.into_iter().flatten()),
                }
            }
            Ok(found)
        }
        found => Ok(found?.into_iter().flatten().collect()),
    }
}
