//! Job data: attempts, checkpoints, signals, log lines, results, groups. Their content is opaque here.

use std::sync::Arc;

use rusqlite::params;

use super::{Holds, Tables, prepare, store_error};
use crate::job::Seq;
use crate::store::engine::{
    EngineResult, JobData, JobDataQuery, JobDataTable, JobDataTableMut, JobDataWrite,
};
use crate::store::engines::sql::columns::{damaged, job_data_check, job_data_kind_code, limit, number};

const ALL_NAMES: &str = "SELECT name, number, \"check\", body FROM facets WHERE seq = ?1 AND kind = ?2 \
     AND number > ?3 ORDER BY name, number LIMIT ?4";
const ONE_NAME: &str = "SELECT name, number, \"check\", body FROM facets WHERE seq = ?1 AND kind = ?2 \
     AND number > ?3 AND name = ?5 ORDER BY name, number LIMIT ?4";
const PUT: &str = "INSERT OR REPLACE INTO facets (seq, kind, name, number, \"check\", body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const DROP: &str = "DELETE FROM facets WHERE seq = ?1 AND kind = ?2 AND name = ?3 AND number = ?4";

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn put_job_data(
        &mut self,
        write: &JobDataWrite,
    ) -> EngineResult<()> {
        match write {
            JobDataWrite::Put(data) => {
                let (Seq(seq), kind) = (data.seq, job_data_kind_code(data.kind));
                let check = job_data_check(seq, kind, &data.name, data.number, &data.body);
                prepare(self.connection.get(), PUT)?
                    .execute(params![seq, kind, data.name, number(data.number), check, &*data.body])
                    .map(drop)
            }
            JobDataWrite::Drop { seq, kind, name, number: at } => prepare(self.connection.get(), DROP)?
                .execute(params![seq.0, job_data_kind_code(*kind), name, number(*at)])
                .map(drop),
        }
        .map_err(store_error)
    }
}

impl<C: Holds> JobDataTable for Tables<C> {
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>> {
        let (seq, kind) = (query.seq.0, job_data_kind_code(query.kind));
        let (above, max) = (query.above.map_or(-1, number), limit(query.limit));
        let mut statement =
            prepare(self.connection.get(), if query.name.is_some() { ONE_NAME } else { ALL_NAMES })?;
        let mut rows = match query.name {
            Some(name) => statement.query(params![seq, kind, above, max, name]),
            None => statement.query(params![seq, kind, above, max]),
        }
        .map_err(store_error)?;
        let mut job_data = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            let (name, number, check) = (row.get(0), row.get::<_, i64>(1), row.get::<_, u32>(2));
            let body: Arc<[u8]> = row.get(3).map_err(store_error)?;
            let data = JobData {
                seq: query.seq,
                kind: query.kind,
                name: name.map_err(store_error)?,
                number: number.map_err(store_error)?.unsigned_abs(),
                body,
            };
            if job_data_check(seq, kind, &data.name, data.number, &data.body) != check.map_err(store_error)? {
                return Err(damaged("facets", seq, "does not match its checksum"));
            }
            job_data.push(data);
        }
        Ok(job_data)
    }
}

impl<C: Holds> JobDataTableMut for Tables<C> {
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()> {
        writes.iter().try_for_each(|write| self.put_job_data(write))
    }
}
