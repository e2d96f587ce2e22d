//! Updates: changed job records and metadata. Parts of a job that never change are not written again.

use rusqlite::params;

use super::row::IndexKeys;
use super::{Holds, Tables, prepare, store_error};
use crate::job::{JobMetadata, JobRecord, Payload, Seq, Spec};
use crate::store::engine::EngineResult;
use crate::store::engines::sql::codec::{Head, pack};
use crate::store::engines::sql::columns::{SpecColumns, SpecParts, damaged};

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn update_jobs(&mut self, jobs: &[JobRecord]) -> EngineResult<()> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let sql = "UPDATE hot SET state = ?2, order_key = ?3, rank = ?4, at = ?5, expires_at = ?6, record = ?7, due_rank = ?8, \
                   worker = ?9 WHERE seq = ?1";
        let mut statement = prepare(connection, sql)?;
        let mut record = Vec::with_capacity(256);
        for job in jobs {
            let lane = interned.lane_id(connection, &job.lane)?;
            let policy = interned.policy_id(connection, &job.policy)?;
            let keys = IndexKeys::new(job, lane);
            pack(job, &Head { seq: job.seq, id: job.id, lane, policy }, &mut record);
            let changed = statement
                .execute(params![
                    job.seq.0,
                    keys.state,
                    keys.order_key,
                    keys.rank,
                    keys.at,
                    keys.expires_at,
                    record,
                    keys.due_rank,
                    keys.worker,
                ])
                .map_err(store_error)?;
            if changed != 1 {
                return Err(damaged("hot", job.seq.0, "is missing"));
            }
        }
        Ok(())
    }

    pub(in crate::store::engines::sqlite) fn set_job_metadata(
        &mut self,
        seq: Seq,
        metadata: &JobMetadata,
    ) -> EngineResult<()> {
        let Some(spec) = self.load_specs(&[seq])?.pop().flatten() else {
            return Err(damaged("jobs", seq.0, "is missing"));
        };
        self.delete_tags(seq, &spec.metadata)?;
        let spec = Spec { metadata: metadata.clone(), ..spec };
        let parts = SpecParts::new(&spec);
        let check = SpecColumns::new(&spec, &parts).crc(seq);
        let sql = "UPDATE jobs SET tags = ?2, correlation_id = ?3, callback_url = ?4, \"check\" = ?5 WHERE seq = ?1";
        prepare(self.connection.get(), sql)?
            .execute(params![seq.0, parts.tags, metadata.correlation_id, metadata.callback_url, check])
            .map_err(store_error)?;
        self.insert_tags(seq, &spec)
    }

    pub(in crate::store::engines::sqlite) fn rewrite_payload(
        &mut self,
        seq: Seq,
        payload: &Payload,
    ) -> EngineResult<()> {
        let Some(spec) = self.load_specs(&[seq])?.pop().flatten() else {
            return Err(damaged("jobs", seq.0, "is missing"));
        };
        let spec = Spec { payload: payload.clone(), ..spec };
        let parts = SpecParts::new(&spec);
        let sql = "UPDATE jobs SET content_type = ?2, payload = ?3, \"check\" = ?4 WHERE seq = ?1";
        let columns = SpecColumns::new(&spec, &parts);
        prepare(self.connection.get(), sql)?
            .execute(params![seq.0, columns.texts[1], columns.payload, columns.crc(seq)])
            .map_err(store_error)?;
        Ok(())
    }

    pub(in crate::store::engines::sqlite) fn delete_tags(
        &mut self,
        seq: Seq,
        metadata: &JobMetadata,
    ) -> EngineResult<()> {
        let sql = "DELETE FROM tags WHERE name = ?1 AND value = ?2 AND seq = ?3";
        let mut statement = prepare(self.connection.get(), sql)?;
        for (name, value) in &metadata.tags {
            statement.execute(params![name, value, seq.0]).map_err(store_error)?;
        }
        Ok(())
    }
}
