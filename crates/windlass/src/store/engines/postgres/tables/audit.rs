//! The rows of the audit trail, numbered without gaps: a number assigned in a failed commit is assigned again in the
//! next. The hash chain over them is computed in `command/maintenance/audit_chain.rs`.

use tokio_postgres::Row;
use uuid::Uuid;

use super::Tables;
use super::query::text_of;
use crate::audit::{AuditEvent, Record};
use crate::clock::Timestamp;
use crate::error::FieldProblem;
use crate::job::{JobId, JobType, QueueName, Tenant};
use crate::store::engine::{AuditLog, AuditLogMut, EngineResult, RecordQuery};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::columns::{damaged, event_code, limit, number};

pub(in crate::store::engines::postgres) const APPEND: &str = "INSERT INTO @.audit (seq, event, alias, at, actor_type, actor_id, tenant, job, trace_id, context, queue, type) \
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bytea[]), unnest($4::bigint[]), unnest($5::bytea[]), \
     unnest($6::bytea[]), unnest($7::text[]), unnest($8::uuid[]), unnest($9::bytea[]), unnest($10::bytea[]), \
     unnest($11::text[]), unnest($12::text[])";
const BY_NUMBER: &str = "SELECT seq, event::bigint, alias, at, actor_type, actor_id, tenant, job, trace_id, context, queue, type \
     FROM @.audit WHERE seq > $1 AND ($2::bigint IS NULL OR event = $2) AND ($3::bytea IS NULL OR actor_id = $3) \
     AND ($4::text IS NULL OR tenant = $4) AND at >= $5 AND at < $6 AND seq < $8 AND ($9::bytea IS NULL OR actor_type = $9) \
     AND ($10::text IS NULL OR queue = $10) AND ($11::text IS NULL OR type = $11) ORDER BY seq LIMIT $7";
const BY_JOB: &str = "SELECT seq, event::bigint, alias, at, actor_type, actor_id, tenant, job, trace_id, context, queue, type \
     FROM @.audit WHERE seq > $1 AND ($2::bigint IS NULL OR event = $2) AND ($3::bytea IS NULL OR actor_id = $3) \
     AND ($4::text IS NULL OR tenant = $4) AND at >= $5 AND at < $6 AND seq < $8 AND ($9::bytea IS NULL OR actor_type = $9) \
     AND ($10::text IS NULL OR queue = $10) AND ($11::text IS NULL OR type = $11) AND job = $12 ORDER BY seq LIMIT $7";

impl Tables {
    pub(in crate::store::engines::postgres) fn append_records(
        &mut self,
        records: &[Record],
    ) -> EngineResult<()> {
        if records.is_empty() {
            return Ok(());
        }
        let seqs = Column::from_numbers(records.iter().map(|record| number(record.seq)));
        let events = Column::from_numbers(records.iter().map(|record| event_code(record.event)));
        let moments = Column::from_numbers(records.iter().map(|record| record.at.as_millis()));
        let (mut tenants, mut jobs) = (Column::texts(), Column::ids());
        let (mut queues, mut types) = (Column::texts(), Column::texts());
        let mut texts = [(); 5].map(|()| Column::bytes());
        for record in records {
            let fields = [
                record.alias.as_deref(),
                Some(&*record.actor_type),
                Some(&*record.actor_id),
                record.trace_id.as_deref(),
                Some(&*record.context),
            ];
            for (column, field) in texts.iter_mut().zip(fields) {
                column.push_maybe(field.map(str::as_bytes));
            }
            tenants.push(record.tenant.as_str().as_bytes());
            jobs.push_maybe(record.job.as_ref().map(|job| &job.as_bytes()[..]));
            queues.push_maybe(record.queue.as_ref().map(|queue| queue.as_str().as_bytes()));
            types.push_maybe(record.job_type.as_ref().map(|job_type| job_type.as_str().as_bytes()));
        }
        let [aliases, actor_types, actor_ids, traces, contexts] = texts.map(Parameter::from);
        let values = vec![
            seqs.into(),
            events.into(),
            aliases,
            moments.into(),
            actor_types,
            actor_ids,
            tenants.into(),
            jobs.into(),
            traces,
            contexts,
            queues.into(),
            types.into(),
        ];
        self.write(APPEND, values, None)
    }
}

impl AuditLog for Tables {
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>> {
        let mut values = vec![
            number(query.after).into(),
            Parameter::Number(query.event.map(event_code)),
            Parameter::Bytes(query.actor.as_ref().map(|actor| actor.as_bytes().to_vec())),
            Parameter::Text(query.tenant.as_ref().map(|tenant| tenant.as_str().to_owned())),
            query.since.map_or(i64::MIN, Timestamp::as_millis).into(),
            query.until.map_or(i64::MAX, Timestamp::as_millis).into(),
            limit(query.limit).into(),
            query.before.map_or(i64::MAX, number).into(),
            Parameter::Bytes(query.actor_type.as_ref().map(|kind| kind.as_bytes().to_vec())),
            Parameter::Text(query.queue.as_ref().map(|queue| queue.as_str().to_owned())),
            Parameter::Text(query.job_type.as_ref().map(|job_type| job_type.as_str().to_owned())),
        ];
        values.extend(query.job.map(|job| Parameter::Id(*job.as_bytes())));
        let sql = if query.job.is_some() { BY_JOB } else { BY_NUMBER };
        self.link.fetch(sql, values)?.iter().map(read_record).collect()
    }
}

impl AuditLogMut for Tables {
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()> {
        for record in &mut *records {
            record.seq = self.meta.next_record.unsigned_abs();
            self.meta.next_record = number(record.seq + 1);
        }
        self.append_records(records)
    }
}

fn read_record(row: &Row) -> EngineResult<Record> {
    let seq: i64 = get(row, 0)?;
    let event = usize::try_from(get::<i64>(row, 1)?).ok().and_then(|event| AuditEvent::ALL.get(event));
    let text = |place: usize| text_of(get(row, place)?, "audit", seq).map(str::to_owned);
    let maybe = |place: usize| {
        let bytes: Option<&[u8]> = get(row, place)?;
        bytes.map(|bytes| text_of(bytes, "audit", seq).map(str::to_owned)).transpose()
    };
    let job: Option<Uuid> = get(row, 7)?;
    let bad = |problem: FieldProblem| damaged("audit", seq, &problem.to_string());
    let tenant = Tenant::new(get(row, 6)?).map_err(bad)?;
    let (queue, job_type): (Option<&str>, Option<&str>) = (get(row, 10)?, get(row, 11)?);
    Ok(Record {
        seq: seq.unsigned_abs(),
        event: *event.ok_or_else(|| damaged("audit", seq, "names no event"))?,
        alias: maybe(2)?,
        at: Timestamp::from_millis(get(row, 3)?),
        actor_type: text(4)?,
        actor_id: text(5)?,
        tenant,
        job: job.map(|job| JobId::from_bytes(job.into_bytes())),
        trace_id: maybe(8)?,
        context: text(9)?,
        queue: queue.map(QueueName::new).transpose().map_err(bad)?,
        job_type: job_type.map(JobType::new).transpose().map_err(bad)?,
    })
}
