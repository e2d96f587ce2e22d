//! The rows of the audit trail, numbered without gaps: a number assigned in a failed commit is assigned again in the
//! next. The hash chain over them is computed in `command/maintenance/audit_chain.rs`.

use rusqlite::{Row, params};

use super::{Holds, Tables, prepare, store_error};
use crate::audit::{AuditEvent, Record};
use crate::clock::Timestamp;
use crate::error::{FieldProblem, StoreError};
use crate::job::{JobId, JobType, QueueName, Tenant};
use crate::store::engine::{AuditLog, AuditLogMut, EngineResult, RecordQuery};
use crate::store::engines::sql::columns::{damaged, event_code, limit, number};

const APPEND: &str = "INSERT INTO audit (seq, event, alias, at, actor_type, actor_id, tenant, job, trace_id, context, queue, type) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const BY_NUMBER: &str = "SELECT seq, event, alias, at, actor_type, actor_id, tenant, job, trace_id, context, queue, type \
     FROM audit NOT INDEXED WHERE seq > ?1 AND ?2 IS NULL AND (?3 IS NULL OR event = ?3) \
     AND (?4 IS NULL OR actor_id = ?4) AND (?5 IS NULL OR tenant = ?5) AND at >= ?6 AND at < ?7 \
     AND seq < ?9 AND (?10 IS NULL OR actor_type = ?10) \
     AND (?11 IS NULL OR queue = ?11) AND (?12 IS NULL OR type = ?12) ORDER BY seq LIMIT ?8";
const BY_JOB: &str = "SELECT seq, event, alias, at, actor_type, actor_id, tenant, job, trace_id, context, queue, type \
     FROM audit INDEXED BY audit_job WHERE seq > ?1 AND job = ?2 AND (?3 IS NULL OR event = ?3) \
     AND (?4 IS NULL OR actor_id = ?4) AND (?5 IS NULL OR tenant = ?5) AND at >= ?6 AND at < ?7 \
     AND seq < ?9 AND (?10 IS NULL OR actor_type = ?10) \
     AND (?11 IS NULL OR queue = ?11) AND (?12 IS NULL OR type = ?12) ORDER BY seq LIMIT ?8";

impl<C: Holds> Tables<C> {
    /// Inserts records with the numbers they have.
    pub(in crate::store::engines::sqlite) fn write_records(
        &mut self,
        records: &[Record],
    ) -> EngineResult<()> {
        let mut statement = prepare(self.connection.get(), APPEND)?;
        for record in records {
            statement
                .execute(params![
                    number(record.seq),
                    event_code(record.event),
                    record.alias,
                    record.at.as_millis(),
                    record.actor_type,
                    record.actor_id,
                    record.tenant.as_str(),
                    record.job.as_ref().map(JobId::as_bytes),
                    record.trace_id,
                    record.context,
                    record.queue.as_ref().map(QueueName::as_str),
                    record.job_type.as_ref().map(JobType::as_str),
                ])
                .map_err(|error| refused_record(record.seq, error))?;
        }
        Ok(())
    }
}

/// A record with the next number can only be there if something else than the store has written it.
fn refused_record(seq: u64, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            damaged("audit", number(seq), "is already there, and was not written by this store")
        }
        _ => store_error(error),
    }
}

impl<C: Holds> AuditLog for Tables<C> {
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>> {
        let sql = if query.job.is_some() { BY_JOB } else { BY_NUMBER };
        let mut statement = prepare(self.connection.get(), sql)?;
        let mut rows = statement
            .query(params![
                number(query.after),
                query.job.as_ref().map(JobId::as_bytes),
                query.event.map(event_code),
                query.actor,
                query.tenant.as_ref().map(Tenant::as_str),
                query.since.map_or(i64::MIN, Timestamp::as_millis),
                query.until.map_or(i64::MAX, Timestamp::as_millis),
                limit(query.limit),
                query.before.map_or(i64::MAX, number),
                query.actor_type,
                query.queue.as_ref().map(QueueName::as_str),
                query.job_type.as_ref().map(JobType::as_str),
            ])
            .map_err(store_error)?;
        let mut records = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            records.push(read_record(row)?);
        }
        Ok(records)
    }
}

impl<C: Holds> AuditLogMut for Tables<C> {
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()> {
        for record in &mut *records {
            record.seq = self.meta.next_record;
            self.meta.next_record += 1;
        }
        self.write_records(records)
    }
}

fn read_record(row: &Row<'_>) -> EngineResult<Record> {
    let seq: i64 = row.get(0).map_err(store_error)?;
    let event: u8 = row.get(1).map_err(store_error)?;
    let tenant: String = row.get(6).map_err(store_error)?;
    let job: Option<[u8; 16]> = row.get(7).map_err(store_error)?;
    let (queue, job_type): (Option<String>, Option<String>) =
        (row.get(10).map_err(store_error)?, row.get(11).map_err(store_error)?);
    let bad = |problem: FieldProblem| damaged("audit", seq, &problem.to_string());
    Ok(Record {
        seq: seq.unsigned_abs(),
        event: *AuditEvent::ALL
            .get(usize::from(event))
            .ok_or_else(|| damaged("audit", seq, "names no event"))?,
        alias: row.get(2).map_err(store_error)?,
        at: Timestamp::from_millis(row.get(3).map_err(store_error)?),
        actor_type: row.get(4).map_err(store_error)?,
        actor_id: row.get(5).map_err(store_error)?,
        tenant: Tenant::new(&tenant).map_err(bad)?,
        job: job.map(JobId::from_bytes),
        trace_id: row.get(8).map_err(store_error)?,
        context: row.get(9).map_err(store_error)?,
        queue: queue.map(|name| QueueName::new(&name)).transpose().map_err(bad)?,
        job_type: job_type.map(|name| JobType::new(&name)).transpose().map_err(bad)?,
    })
}
