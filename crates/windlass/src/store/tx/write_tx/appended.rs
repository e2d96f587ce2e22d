//! Jobs that are appended without the store's lock, and taken in by a later commit.

use std::sync::Arc;

use super::{Effects, WriteTx};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Lane, Seq};
use crate::store::engine::{AppendedJobs, EngineResult, NewRow};

impl<'a> WriteTx<'a> {
    /// A transaction whose new jobs are only collected: see [`appended`](WriteTx::appended).
    pub(in crate::store) fn appending(self) -> WriteTx<'a> {
        WriteTx { is_appending: true, ..self }
    }

    /// Whether new jobs are only collected: what is stored cannot be read, and nothing but new jobs can be written.
    pub(crate) fn is_appending(&self) -> bool {
        self.is_appending
    }

    /// The new jobs with their audit records, which have no numbers yet, and what is to be announced.
    pub(in crate::store) fn appended(mut self) -> EngineResult<(AppendedJobs, Effects)> {
        let pending = std::mem::take(&mut self.pending);
        let is_more = !(pending.edges.is_empty()
            && pending.job_data.is_empty()
            && pending.released.is_empty()
            && pending.metadata.is_empty()
            && pending.removed.is_empty()
            && pending.cascades.is_empty()
            && self.dirty.is_empty());
        if is_more {
            return Err(StoreError::Database("a change of something stored was to be appended".to_owned()));
        }
        let mut rows = Vec::with_capacity(pending.inserts.len());
        for new in pending.inserts {
            let entry = self.jobs.remove(&new.seq).expect("an added job is at hand");
            rows.push(NewRow { job: entry.job, spec: new.spec, keys: new.keys });
        }
        Ok((AppendedJobs { at: self.now, rows, records: pending.records }, self.effects))
    }

    /// Inserts what was appended before this commit, in the order in which it was appended.
    ///
    /// Another node's clock may have been behind: jobs become claimable in this order, after everything that was
    /// committed by `last`. The time of this commit is not before theirs.
    pub(in crate::store) fn take_in(&mut self, all: Vec<AppendedJobs>, last: Timestamp) -> EngineResult<()> {
        let mut earliest = last;
        let count = all.iter().map(|appended| appended.rows.len()).sum();
        let mut seq = if count == 0 { return Ok(()) } else { self.allocate(count)? };
        // Most jobs share their lane with the one before.
        let mut recent: Option<(Arc<Lane>, Arc<Lane>)> = None;
        for appended in all {
            earliest = appended.at.max(earliest);
            for (mut record, is_kept) in appended.records {
                record.at = earliest;
                self.record(record, is_kept);
            }
            // They count in the minute in which they were submitted.
            let now = std::mem::replace(&mut self.now, earliest);
            for NewRow { mut job, spec, keys } in appended.rows {
                job.seq = seq;
                let (_, lane) = match recent.take_if(|(given, _)| Arc::ptr_eq(given, &job.lane)) {
                    Some(known) => recent.insert(known),
                    None => recent.insert((job.lane.clone(), self.cache.intern_lane((*job.lane).clone()))),
                };
                job.lane = lane.clone();
                job.eligible_at = job.eligible_at.map(|_| earliest);
                self.announce(Some(&job.lane.tenant));
                self.insert(job, spec, keys);
                seq = Seq(seq.0 + 1);
            }
            self.now = now;
        }
        Ok(())
    }
}
