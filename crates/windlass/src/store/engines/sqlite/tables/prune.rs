//! Removal of jobs and their data. Their audit records are kept, and so are their lanes and policies.

use rusqlite::OptionalExtension;

use super::{Holds, Tables, prepare, store_error};
use crate::clock::Timestamp;
use crate::job::{JobMetadata, JobState, Seq};
use crate::store::documents::config::parse;
use crate::store::engine::{EngineResult, Key, KeyKind, Keys, KeysMut};
use crate::store::engines::sql::page::state_of;

/// References to a job other than by its sequence number, read before the job is removed.
struct Traces {
    lane: i64,
    state: JobState,
    idempotency_key: Option<String>,
    unique_key: Option<String>,
    tags: Option<String>,
}

const TRACES: &str = "SELECT hot.lane, jobs.idempotency_key, jobs.unique_key, jobs.tags, hot.state \
     FROM jobs JOIN hot ON hot.seq = jobs.seq WHERE jobs.seq = ?1";

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn remove_job(
        &mut self,
        seq: Seq,
        now: Timestamp,
    ) -> EngineResult<()> {
        let traces = prepare(self.connection.get(), TRACES)?
            .query_row([seq.0], |row| {
                let (idempotency_key, unique_key) = (row.get(1)?, row.get(2)?);
                let state = state_of(row.get(4)?);
                Ok(Traces { lane: row.get(0)?, state, idempotency_key, unique_key, tags: row.get(3)? })
            })
            .optional()
            .map_err(store_error)?;
        let Some(traces) = traces else { return Ok(()) };
        if let Some(tags) = &traces.tags {
            let metadata = JobMetadata { tags: parse(tags.as_bytes())?, ..JobMetadata::default() };
            self.delete_tags(seq, &metadata)?;
        }
        self.let_go_of_keys(seq, &traces, now)?;
        for sql in [
            "DELETE FROM jobs WHERE seq = ?1",
            "DELETE FROM hot WHERE seq = ?1",
            "DELETE FROM facets WHERE seq = ?1",
            "DELETE FROM edges WHERE dependency = ?1",
            "DELETE FROM edges WHERE dependent = ?1",
        ] {
            prepare(self.connection.get(), sql)?.execute([seq.0]).map_err(store_error)?;
        }
        Ok(())
    }

    /// Releases the keys the job was submitted with, unless another job has taken them since or they outlive the job.
    fn let_go_of_keys(&mut self, seq: Seq, traces: &Traces, now: Timestamp) -> EngineResult<()> {
        let keys = [(KeyKind::Idempotency, &traces.idempotency_key), (KeyKind::Unique, &traces.unique_key)];
        for (kind, text) in keys {
            let Some(text) = text else { continue };
            let lane = self.interned.lane(self.connection.get(), traces.lane)?;
            let (tenant, job_type) = (lane.tenant.clone(), lane.job_type.clone());
            let key = Key { kind, tenant, job_type, text: text.clone() };
            let holder = self.keyed(std::slice::from_ref(&key))?.pop().flatten();
            if let Some(holder) = holder.filter(|holder| holder.seq == seq) {
                match holder.outlive(traces.state, now) {
                    Some(kept) => self.put_keys(&[(key, kept)])?,
                    None => self.release_keys(&[key])?,
                }
            }
        }
        Ok(())
    }
}
