//! Derives data again from the rows it follows from: columns and entries of index tables, timers, tags, the number of
//! concurrency keys. Indexes of the database itself are left to its own tools (`REINDEX`).

use super::Tables;
use super::row::{ColumnIndexes, state_code};
use crate::error::StoreError;
use crate::job::{ConcurrencyKey, Seq, Tenant};
use crate::store::engine::{Derived, DerivedData, DerivedMut, EngineResult};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::Column;
use crate::store::engines::sql::columns::limit;

/// What lists a job beside its row.
const LISTS: [&str; 4] = [
    "DELETE FROM @.ready WHERE seq = $1",
    "DELETE FROM @.slots WHERE seq = $1",
    "DELETE FROM @.states WHERE seq = $1",
    "DELETE FROM @.tags WHERE seq = $1",
];
const PLACE: &str = "UPDATE @.hot h SET state = u.state, created_at = u.created_at, parent = u.parent \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[]) u(seq, state, created_at, parent) \
     WHERE h.seq = u.seq";
const TOTAL: &str = "INSERT INTO @.concurrency_key_totals (tenant, n) \
     SELECT $1, count(*) FROM @.concurrency_keys WHERE tenant = $1 ON CONFLICT (tenant) DO UPDATE SET n = excluded.n";
const KEYS: &str =
    "SELECT key, n FROM @.concurrency_keys WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT $3";
const TENANTS: &str = "SELECT DISTINCT tenant FROM @.concurrency_keys ORDER BY tenant";

impl Tables {
    fn derive_job(&mut self, seq: Seq) -> EngineResult<()> {
        self.ahead.clear();
        for sql in LISTS {
            self.write(sql, vec![seq.0.into()], None)?;
        }
        let Some(job) = self.load_jobs(&[seq])?.pop().flatten() else { return Ok(()) };
        let mut parent = Column::ids();
        parent.push_maybe(job.parent.as_ref().map(|parent| &parent.id.as_bytes()[..]));
        let numbers = [seq.0, state_code(&job), job.created_at.as_millis()];
        let [seqs, states, created] = numbers.map(|number| Column::from_numbers(std::iter::once(number)));
        let values = vec![seqs.into(), states.into(), created.into(), parent.into()];
        self.write(PLACE, values, Some((1, "hot")))?;
        let lane = self.lane_id(&job.lane)?;
        let places = ColumnIndexes::new(&job);
        // No entry is known to cover it.
        self.timers.removed(seq);
        self.timers.moved(seq, None, &places);
        self.place_jobs(&[(seq, lane, None, places)])?;
        match self.load_specs(&[seq])?.pop().flatten() {
            Some(spec) => self.insert_tags(std::iter::once((seq, &spec))),
            None => Ok(()),
        }
    }
}

impl DerivedMut for Tables {
    fn derive(&mut self, what: &DerivedData) -> EngineResult<()> {
        match what {
            DerivedData::Job(seq) => self.derive_job(*seq),
            DerivedData::KeyTotal(tenant) => self.write(TOTAL, vec![tenant.as_str().into()], None),
            DerivedData::Index(name) => {
                Err(StoreError::Database(format!("rebuild the index {name} with REINDEX")))
            }
        }
    }
}

impl Derived for Tables {
    fn counted_keys(
        &mut self,
        tenant: &Tenant,
        after: Option<ConcurrencyKey>,
        max: usize,
    ) -> EngineResult<Vec<(ConcurrencyKey, u64)>> {
        let from = after.map_or(i64::MIN, |key| key.0);
        let rows = self.link.fetch(KEYS, vec![tenant.as_str().into(), from.into(), limit(max).into()])?;
        let read = |row: &tokio_postgres::Row| {
            Ok((ConcurrencyKey(get(row, 0)?), get::<i64>(row, 1)?.unsigned_abs()))
        };
        rows.iter().map(read).collect()
    }

    fn tenants_of_keys(&mut self) -> EngineResult<Vec<Tenant>> {
        let bad = |problem| StoreError::Damaged(format!("concurrency_keys: a tenant {problem}"));
        let rows = self.link.fetch(TENANTS, Vec::new())?;
        rows.iter().map(|row| Tenant::new(get::<&str>(row, 0)?).map_err(bad)).collect()
    }
}
