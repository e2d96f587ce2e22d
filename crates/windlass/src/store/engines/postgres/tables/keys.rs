//! Keys: their holders, what they store about removed jobs, and which of them have expired.

use tokio_postgres::Row;
use uuid::Uuid;

use super::Tables;
use super::intern::check;
use super::query::text_of;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobType, Tenant};
use crate::store::engine::{EngineResult, Key, KeyHolder, Keys, KeysMut};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::columns::{
    KeyRow, damaged, key_check, key_columns, key_kind_of, limit, state_code_of,
};

const HOLDERS: &str = "SELECT u.place, k.seq, k.expires_at, k.\"check\", k.job, k.payload, k.ended::bigint \
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY u(kind, tenant, type, key, place) \
     CROSS JOIN LATERAL (SELECT * FROM @.keys k WHERE k.kind = u.kind::smallint AND k.tenant = u.tenant \
     AND k.type = u.type AND k.key = u.key OFFSET 0) k";
const PUT: &str = "INSERT INTO @.keys (kind, tenant, type, key, seq, expires_at, \"check\", job, payload, ended) \
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::uuid[], $9::bytea[], $10::bigint[]) \
     ON CONFLICT (kind, tenant, type, key) DO UPDATE \
     SET seq = excluded.seq, expires_at = excluded.expires_at, \"check\" = excluded.\"check\", \
     job = excluded.job, payload = excluded.payload, ended = excluded.ended";
const DROP: &str = "DELETE FROM @.keys WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) u(kind, tenant, type, key) CROSS JOIN LATERAL ( \
     SELECT k.ctid AS row FROM @.keys k WHERE k.kind = u.kind::smallint AND k.tenant = u.tenant AND k.type = u.type \
     AND k.key = u.key OFFSET 0) o))";
const EXPIRED: &str = "SELECT kind::bigint, tenant, type, key, seq, expires_at, \"check\", job, payload, ended::bigint \
     FROM @.keys WHERE ended IS NOT NULL AND expires_at <= $1 ORDER BY expires_at LIMIT $2";

impl Tables {
    /// Like [`keyed`](Keys::keyed), without locking.
    pub(in crate::store::engines::postgres) fn read_holders(
        &mut self,
        keys: &[Key],
    ) -> EngineResult<Vec<Option<KeyHolder>>> {
        let mut holders = vec![None; keys.len()];
        for row in self.link.fetch(HOLDERS, key_parameters(keys))? {
            let place: i64 = get(&row, 0)?;
            let place = usize::try_from(place - 1).unwrap_or(usize::MAX);
            let Some(key) = keys.get(place) else { continue };
            holders[place] = Some(holder_at(&row, 1, key_columns(key))?);
        }
        Ok(holders)
    }

    pub(in crate::store::engines::postgres) fn put_keys(
        &mut self,
        keys: &[(Key, KeyHolder)],
    ) -> EngineResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let names: Vec<Key> = keys.iter().map(|(key, _)| key.clone()).collect();
        let mut values = key_parameters(&names);
        let (mut jobs, mut payloads, mut ends) = (Column::ids(), Column::bytes(), Column::numbers());
        for (_, holder) in keys {
            jobs.push_maybe(holder.memory.as_ref().map(|memory| &memory.id.as_bytes()[..]));
            payloads.push_maybe(holder.memory.as_ref().map(|memory| &memory.payload.0[..]));
            ends.push_maybe(state_code_of(holder).map(i64::to_be_bytes).as_ref().map(|code| &code[..]));
        }
        values.push(Column::from_numbers(keys.iter().map(|(_, holder)| holder.seq.0)).into());
        values
            .push(Column::from_numbers(keys.iter().map(|(_, holder)| holder.expires_at.as_millis())).into());
        let checks = keys.iter().map(|(key, holder)| i64::from(key_check(key_columns(key), holder)));
        values.push(Column::from_numbers(checks).into());
        values.extend([jobs.into(), payloads.into(), ends.into()]);
        self.write(PUT, values, None)
    }
}

impl Keys for Tables {
    /// The holders of these keys; a writer blocks others that want one of them until it has committed.
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        if self.is_writer() {
            self.lock_keys(keys)?;
        }
        self.read_holders(keys)
    }
}

impl KeysMut for Tables {
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        self.write(DROP, key_parameters(keys), None)
    }

    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize> {
        let rows = self.link.fetch(EXPIRED, vec![now.as_millis().into(), limit(max).into()])?;
        let expired = rows.iter().map(|row| Ok(read_key(row)?.0)).collect::<EngineResult<Vec<Key>>>()?;
        if !expired.is_empty() {
            self.release_keys(&expired)?;
        }
        Ok(expired.len())
    }
}

/// Keys as columns.
pub(in crate::store::engines::postgres) fn key_parameters(keys: &[Key]) -> Vec<Parameter> {
    let (mut kinds, mut tenants) = (Column::numbers(), Column::texts());
    let (mut types, mut texts) = (Column::texts(), Column::bytes());
    for key in keys {
        let (kind, tenant, job_type, text) = key_columns(key);
        kinds.number(kind);
        tenants.push(tenant.as_bytes());
        types.push(job_type.as_bytes());
        texts.push(text.as_bytes());
    }
    vec![kinds.into(), tenants.into(), types.into(), texts.into()]
}

/// The holder of a key, from the columns `seq, expires_at, check, job, payload, ended`, which begin at `from`.
pub(in crate::store::engines::postgres) fn holder_at(
    row: &Row,
    from: usize,
    key: (i64, &str, &str, &str),
) -> EngineResult<KeyHolder> {
    let job: Option<Uuid> = get(row, from + 3)?;
    let stored = KeyRow {
        seq: get(row, from)?,
        expires_at: get(row, from + 1)?,
        job: job.as_ref().map(|job| &job.as_bytes()[..]),
        payload: get(row, from + 4)?,
        ended: get(row, from + 5)?,
    };
    stored.into_holder(key, check(get(row, from + 2)?))
}

/// A key and its holder, from the columns `kind, tenant, type, key` and those of [`holder_at`].
pub(in crate::store::engines::postgres) fn read_key(row: &Row) -> EngineResult<(Key, KeyHolder)> {
    let (kind, seq): (i64, i64) = (get(row, 0)?, get(row, 4)?);
    let (tenant, job_type): (&str, &str) = (get(row, 1)?, get(row, 2)?);
    let text = text_of(get(row, 3)?, "keys", seq)?;
    let holder = holder_at(row, 4, (kind, tenant, job_type, text))?;
    let wrong =
        |problem: crate::error::FieldProblem| -> StoreError { damaged("keys", seq, &problem.to_string()) };
    let key = Key {
        kind: key_kind_of(kind).ok_or_else(|| damaged("keys", seq, "is of no known kind"))?,
        tenant: Tenant::new(tenant).map_err(wrong)?,
        job_type: JobType::new(job_type).map_err(wrong)?,
        text: text.to_owned(),
    };
    Ok((key, holder))
}
