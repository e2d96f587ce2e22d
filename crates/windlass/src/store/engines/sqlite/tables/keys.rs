//! Keys: their holders, what they store about removed jobs, and which of them have expired.

use rusqlite::{Row, params};

use super::{Holds, Tables, prepare, store_error};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobType, Tenant};
use crate::store::engine::{EngineResult, Key, KeyHolder, Keys, KeysMut};
use crate::store::engines::sql::columns::{
    KeyRow, damaged, key_check, key_columns, key_kind_of, limit, state_code_of,
};

const HOLDER: &str = "SELECT seq, expires_at, \"check\", job, payload, ended FROM keys \
     WHERE kind = ?1 AND tenant = ?2 AND type = ?3 AND key = ?4";
const PUT: &str = "INSERT OR REPLACE INTO keys \
     (kind, tenant, type, key, seq, expires_at, \"check\", job, payload, ended) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const DROP: &str = "DELETE FROM keys WHERE kind = ?1 AND tenant = ?2 AND type = ?3 AND key = ?4";
const EXPIRED: &str = "SELECT kind, tenant, type, key, seq, expires_at, \"check\", job, payload, ended FROM keys \
     WHERE ended IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn put_keys(
        &mut self,
        keys: &[(Key, KeyHolder)],
    ) -> EngineResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut statement = prepare(self.connection.get(), PUT)?;
        for (key, holder) in keys {
            let (kind, tenant, job_type, text) = key_columns(key);
            let (seq, expires_at) = (holder.seq.0, holder.expires_at.as_millis());
            let job = holder.memory.as_ref().map(|memory| &memory.id.as_bytes()[..]);
            let payload = holder.memory.as_ref().map(|memory| &memory.payload.0[..]);
            let ended = state_code_of(holder);
            let check = key_check(key_columns(key), holder);
            statement
                .execute(params![kind, tenant, job_type, text, seq, expires_at, check, job, payload, ended])
                .map_err(store_error)?;
        }
        Ok(())
    }
}

impl<C: Holds> Keys for Tables<C> {
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        let mut statement = prepare(self.connection.get(), HOLDER)?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let mut rows = statement.query(key_columns(key)).map_err(store_error)?;
            let row = rows.next().map_err(store_error)?;
            found.push(row.map(|row| holder_at(row, 0, key_columns(key))).transpose()?);
        }
        Ok(found)
    }
}

impl<C: Holds> KeysMut for Tables<C> {
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        let mut statement = prepare(self.connection.get(), DROP)?;
        for key in keys {
            statement.execute(key_columns(key)).map_err(store_error)?;
        }
        Ok(())
    }

    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize> {
        let mut expired = Vec::new();
        {
            let mut statement = prepare(self.connection.get(), EXPIRED)?;
            let mut rows = statement.query(params![now.as_millis(), limit(max)]).map_err(store_error)?;
            while let Some(row) = rows.next().map_err(store_error)? {
                expired.push(read_key(row)?.0);
            }
        }
        self.release_keys(&expired)?;
        Ok(expired.len())
    }
}

/// The holder of a key, from the columns `seq, expires_at, check, job, payload, ended`, which begin at `from`.
pub(in crate::store::engines::sqlite) fn holder_at(
    row: &Row<'_>,
    from: usize,
    key: (i64, &str, &str, &str),
) -> EngineResult<KeyHolder> {
    let job: Option<[u8; 16]> = row.get(from + 3).map_err(store_error)?;
    let payload: Option<[u8; 32]> = row.get(from + 4).map_err(store_error)?;
    let stored = KeyRow {
        seq: row.get(from).map_err(store_error)?,
        expires_at: row.get(from + 1).map_err(store_error)?,
        job: job.as_ref().map(|job| &job[..]),
        payload: payload.as_ref().map(|digest| &digest[..]),
        ended: row.get(from + 5).map_err(store_error)?,
    };
    stored.into_holder(key, row.get(from + 2).map_err(store_error)?)
}

/// A key and its holder, from the columns `kind, tenant, type, key` and those of [`holder_at`].
pub(in crate::store::engines::sqlite) fn read_key(row: &Row<'_>) -> EngineResult<(Key, KeyHolder)> {
    let kind: i64 = row.get(0).map_err(store_error)?;
    let [tenant, job_type, text] = [1, 2, 3].map(|place| row.get::<_, String>(place).map_err(store_error));
    let (tenant, job_type, text) = (tenant?, job_type?, text?);
    let holder = holder_at(row, 4, (kind, &tenant, &job_type, &text))?;
    let seq = holder.seq.0;
    let wrong =
        |problem: crate::error::FieldProblem| -> StoreError { damaged("keys", seq, &problem.to_string()) };
    let key = Key {
        kind: key_kind_of(kind).ok_or_else(|| damaged("keys", seq, "is of no known kind"))?,
        tenant: Tenant::new(&tenant).map_err(wrong)?,
        job_type: JobType::new(&job_type).map_err(wrong)?,
        text,
    };
    Ok((key, holder))
}
