//! Reads of a write transaction, including pending changes.

use rustc_hash::{FxHashMap, FxHashSet};

use super::WriteTx;
use crate::error::StoreError;
use crate::job::{Seq, Spec};
use crate::store::engine::{EngineResult, Read, is_row_damage};
use crate::store::tx::read_tx::ReadTx;

impl WriteTx<'_> {
    /// The spec of a job. One that is damaged is an error of this command, not of the whole commit.
    pub fn spec(&mut self, seq: Seq) -> EngineResult<Option<Spec>> {
        if let Some(new) = self.pending.inserts.iter().find(|new| new.seq == seq) {
            return Ok(Some(new.spec.clone()));
        }
        if let Some((_, metadata)) = self.pending.metadata.iter().rev().find(|(at, _)| *at == seq) {
            let metadata = metadata.clone();
            return Ok(self.stored_spec(seq)?.map(|spec| Spec { metadata, ..spec }));
        }
        self.stored_spec(seq)
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
