//! Reads of a write transaction, including pending changes.

use rustc_hash::{FxHashMap, FxHashSet};

use super::WriteTx;
use crate::job::{Seq, Spec};
use crate::store::engine::{EngineResult, Read};
use crate::store::tx::read_tx::ReadTx;

impl WriteTx<'_> {
    /// The spec of a job.
    pub fn spec(&mut self, seq: Seq) -> EngineResult<Option<Spec>> {
        if let Some(new) = self.pending.inserts.iter().find(|new| new.seq == seq) {
            return Ok(Some(new.spec.clone()));
        }
        if let Some((_, metadata)) = self.pending.metadata.iter().rev().find(|(at, _)| *at == seq) {
            let metadata = metadata.clone();
            let stored = self.raw(|db| db.specs(&[seq]))?.pop().flatten();
            return Ok(stored.map(|spec| Spec { metadata, ..spec }));
        }
        Ok(self.raw(|db| db.specs(&[seq]))?.pop().flatten())
    }

    /// The specs of jobs, including those added by this commit; jobs without one are left out.
    pub(crate) fn specs(&mut self, seqs: &[Seq]) -> EngineResult<FxHashMap<Seq, Spec>> {
        let wanted: FxHashSet<Seq> = seqs.iter().copied().collect();
        let new = self.pending.inserts.iter().filter(|new| wanted.contains(&new.seq));
        let mut found: FxHashMap<Seq, Spec> = new.map(|new| (new.seq, new.spec.clone())).collect();
        let stored: Vec<Seq> = wanted.into_iter().filter(|seq| !found.contains_key(seq)).collect();
        for seq in stored {
            if let Some(spec) = self.spec(seq)? {
                found.insert(seq, spec);
            }
        }
        Ok(found)
    }

    /// A read transaction within this commit. It does not see pending changes.
    pub(crate) fn read_tx(&mut self) -> ReadTx<'_> {
        ReadTx::within(self.db, self.cache, self.env, self.now)
    }

    /// The engine for reading only, after flushing all pending changes.
    pub fn reader(&mut self) -> EngineResult<&mut dyn Read> {
        self.flush()?;
        Ok(self.db)
    }
}
