//! Job data: attempts, checkpoints, signals, log lines, results, groups. Their content is opaque here.

use std::sync::Arc;

use tokio_postgres::Row;

use super::Tables;
use super::intern::check;
use super::query::text_of;
use crate::job::Seq;
use crate::store::engine::{
    EngineResult, JobData, JobDataKind, JobDataQuery, JobDataTable, JobDataTableMut, JobDataWrite,
};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::columns::{damaged, job_data_check, job_data_kind_code, limit, number};

const ALL_NAMES: &str = "SELECT name, number, \"check\", body FROM @.facets WHERE seq = $1 AND kind = $2::bigint \
     AND number > $3 ORDER BY name, number LIMIT $4";
const ONE_NAME: &str = "SELECT name, number, \"check\", body FROM @.facets WHERE seq = $1 AND kind = $2::bigint \
     AND number > $3 AND name = $5 ORDER BY name, number LIMIT $4";
const OF_SEVERAL: &str = "SELECT f.name, f.number, f.\"check\", f.body, f.seq \
     FROM unnest($1::bigint[]) WITH ORDINALITY u(seq, place) \
     CROSS JOIN LATERAL (SELECT * FROM @.facets f WHERE f.seq = u.seq AND f.kind = $2::bigint OFFSET 0) f \
     ORDER BY u.place, f.name, f.number";
const PUT: &str = "INSERT INTO @.facets (seq, kind, name, number, \"check\", body) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[]) \
     ON CONFLICT (seq, kind, name, number) DO UPDATE SET \"check\" = excluded.\"check\", body = excluded.body";
const DROP: &str = "DELETE FROM @.facets WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[]) u(seq, kind, name, number) CROSS JOIN LATERAL ( \
     SELECT f.ctid AS row FROM @.facets f WHERE f.seq = u.seq AND f.kind = u.kind::smallint AND f.name = u.name \
     AND f.number = u.number OFFSET 0) o))";

/// The key of job data: job, kind, name, number.
type JobDataKey<'f> = (i64, i64, &'f str, i64);

impl JobDataTable for Tables {
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>> {
        let (seq, kind) = (query.seq.0, job_data_kind_code(query.kind));
        let above = query.above.map_or(-1, number);
        let mut values: Vec<Parameter> =
            vec![seq.into(), kind.into(), above.into(), limit(query.limit).into()];
        values.extend(query.name.map(|name| Parameter::from(name.as_bytes())));
        let sql = if query.name.is_some() { ONE_NAME } else { ALL_NAMES };
        let mut job_data = Vec::new();
        for row in self.link.fetch(sql, values)? {
            job_data.push(read_job_data(&row, query.seq, query.kind)?);
        }
        Ok(job_data)
    }

    fn job_data_of(&mut self, seqs: &[Seq], kind: JobDataKind) -> EngineResult<Vec<JobData>> {
        let numbers = Column::from_numbers(seqs.iter().map(|seq| seq.0)).into();
        let rows = self.link.fetch(OF_SEVERAL, vec![numbers, job_data_kind_code(kind).into()])?;
        rows.iter().map(|row| read_job_data(row, Seq(get(row, 4)?), kind)).collect()
    }
}

impl JobDataTableMut for Tables {
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()> {
        // The last write of each key counts, and no statement may name a row twice.
        let mut last: std::collections::BTreeMap<JobDataKey<'_>, Option<&JobData>> =
            std::collections::BTreeMap::new();
        for write in writes {
            match write {
                JobDataWrite::Put(data) => {
                    let key = (data.seq.0, job_data_kind_code(data.kind), &*data.name, number(data.number));
                    last.insert(key, Some(data));
                }
                JobDataWrite::Drop { seq, kind, name, number: at } => {
                    last.insert((seq.0, job_data_kind_code(*kind), name, number(*at)), None);
                }
            }
        }
        let (drops, puts): (Vec<_>, Vec<_>) = last.into_iter().partition(|(_, data)| data.is_none());
        if !drops.is_empty() {
            let values = key_columns(drops.iter().map(|(key, _)| *key));
            self.write(DROP, values.into(), None)?;
        }
        if puts.is_empty() {
            return Ok(());
        }
        let (mut checks, mut bodies) = (Column::numbers(), Column::bytes());
        for ((seq, kind, name, at), data) in &puts {
            let body = data.map(|data| &*data.body).unwrap_or_default();
            checks.number(i64::from(job_data_check(*seq, *kind, name, at.unsigned_abs(), body)));
            bodies.push(body);
        }
        let mut values = Vec::from(key_columns(puts.iter().map(|(key, _)| *key)));
        values.extend([checks.into(), bodies.into()]);
        self.write(PUT, values, None)
    }
}

fn read_job_data(row: &Row, seq: Seq, kind: JobDataKind) -> EngineResult<JobData> {
    let number: i64 = get(row, 1)?;
    let data = JobData {
        seq,
        kind,
        name: text_of(get(row, 0)?, "facets", seq.0)?.to_owned(),
        number: number.unsigned_abs(),
        body: Arc::from(get::<&[u8]>(row, 3)?),
    };
    let expected = job_data_check(seq.0, job_data_kind_code(kind), &data.name, data.number, &data.body);
    if expected != check(get(row, 2)?) {
        return Err(damaged("facets", seq.0, "does not match its checksum"));
    }
    Ok(data)
}

fn key_columns<'f>(keys: impl Iterator<Item = JobDataKey<'f>>) -> [Parameter; 4] {
    let (mut seqs, mut kinds) = (Column::numbers(), Column::numbers());
    let (mut names, mut numbers) = (Column::bytes(), Column::numbers());
    for (seq, kind, name, at) in keys {
        seqs.number(seq);
        kinds.number(kind);
        names.push(name.as_bytes());
        numbers.number(at);
    }
    [seqs.into(), kinds.into(), names.into(), numbers.into()]
}
