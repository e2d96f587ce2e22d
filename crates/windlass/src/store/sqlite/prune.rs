//! Removal of jobs, with everything that hangs on them. Their audit records stay, and so do their lanes and policies.

use rusqlite::{OptionalExtension, params};

use super::tables::{Holds, Tables, prepare, store_error};
use crate::job::{Labels, Seq};
use crate::store::config::parse;
use crate::store::durable::columns::key_kind_code;
use crate::store::engine::{EngineResult, KeyKind};

/// What is found by more than a job's place, read before the job goes.
struct Traces {
    lane: i64,
    idempotency_key: Option<String>,
    unique_key: Option<String>,
    tags: Option<String>,
}

const TRACES: &str = "SELECT hot.lane, jobs.idempotency_key, jobs.unique_key, jobs.tags \
     FROM jobs JOIN hot ON hot.seq = jobs.seq WHERE jobs.seq = ?1";

impl<C: Holds> Tables<C> {
    pub(super) fn remove_job(&mut self, seq: Seq) -> EngineResult<()> {
        let traces = prepare(self.connection.get(), TRACES)?
            .query_row([seq.0], |row| {
                let (idempotency_key, unique_key) = (row.get(1)?, row.get(2)?);
                Ok(Traces { lane: row.get(0)?, idempotency_key, unique_key, tags: row.get(3)? })
            })
            .optional()
            .map_err(store_error)?;
        let Some(traces) = traces else { return Ok(()) };
        if let Some(tags) = &traces.tags {
            let labels = Labels { tags: parse(tags.as_bytes())?, ..Labels::default() };
            self.delete_tags(seq, &labels)?;
        }
        self.delete_own_keys(seq, &traces)?;
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

    /// Frees the keys the job was submitted with, unless another job has taken them since.
    fn delete_own_keys(&mut self, seq: Seq, traces: &Traces) -> EngineResult<()> {
        let keys = [(KeyKind::Idempotency, &traces.idempotency_key), (KeyKind::Unique, &traces.unique_key)];
        for (kind, text) in keys {
            let Some(text) = text else { continue };
            let lane = self.interned.lane(self.connection.get(), traces.lane)?;
            let sql =
                "DELETE FROM keys WHERE kind = ?1 AND tenant = ?2 AND type = ?3 AND key = ?4 AND seq = ?5";
            prepare(self.connection.get(), sql)?
                .execute(params![
                    key_kind_code(kind),
                    lane.tenant.as_str(),
                    lane.job_type.as_str(),
                    text,
                    seq.0
                ])
                .map_err(store_error)?;
        }
        Ok(())
    }
}
