//! Integrity check of the file: pages, indexes that differ from their rows, rows that differ from their checksums,
//! columns that do not match the record. It reads everything and repairs nothing.

use rusqlite::Row;

use super::keys::holder_at;
use super::row::{IndexKeys, read_job};
use super::{Holds, Tables, prepare, store_error};
use crate::job::{Seq, Tenant};
use crate::store::engine::{Damage, DerivedData, EngineResult};
use crate::store::engines::sql::columns::{document_check, job_data_check};

/// Maximum number of findings of one kind.
const FINDINGS_MAX: usize = 20;

const PLACES: &str = "SELECT seq, id, lane, policy, record, state, order_key, rank, at, expires_at, created_at, \
     concurrency, due_rank, parent, worker FROM hot NOT INDEXED ORDER BY seq";
const JOB_DATA: &str = "SELECT seq, kind, name, number, \"check\", body FROM facets";
const DOCUMENTS: &str = "SELECT kind, key, \"check\", body FROM documents";
const KEYS: &str =
    "SELECT kind, tenant, type, key, seq, expires_at, \"check\", job, payload, ended FROM keys";
const SHARED: [(&str, &str); 2] =
    [("lanes", "SELECT id FROM lanes"), ("policies", "SELECT id FROM policies")];
/// Tenants whose number of concurrency keys differs from the keys.
const KEY_TOTALS: &str = "SELECT coalesce(t.tenant, k.tenant) FROM concurrency_key_totals t \
     FULL JOIN (SELECT tenant, count(*) AS n FROM concurrency_keys GROUP BY tenant) k ON k.tenant = t.tenant \
     WHERE coalesce(t.n, 0) <> coalesce(k.n, 0)";
/// Tags without a job, and jobs that cannot be found by their tags.
const TAGS: [&str; 2] = [
    "SELECT name, value, seq FROM tags EXCEPT \
     SELECT tag.key, tag.value, jobs.seq FROM jobs, json_each(jobs.tags) AS tag WHERE jobs.tags IS NOT NULL",
    "SELECT tag.key, tag.value, jobs.seq FROM jobs, json_each(jobs.tags) AS tag WHERE jobs.tags IS NOT NULL \
     EXCEPT SELECT name, value, seq FROM tags",
];

/// Rows that nothing else says.
fn plain(_: &Row<'_>) -> Option<DerivedData> {
    None
}

/// A finding of SQLite. What is wrong with an index alone is made right by building it again.
fn damaged_page(text: String) -> Damage {
    let missing = text.split_once(" missing from index ").map(|(_, name)| name);
    let index = missing.or_else(|| text.strip_prefix("wrong # of entries in index "));
    let derived = index.filter(|name| !name.starts_with("sqlite_autoindex_"));
    let derived = derived.map(|name| DerivedData::Index(name.to_owned()));
    Damage { text, derived }
}

impl<C: Holds> Tables<C> {
    /// A description of each problem.
    pub(in crate::store::engines::sqlite) fn find_damage(&mut self) -> EngineResult<Vec<Damage>> {
        let mut findings = self.damaged_pages()?;
        findings.extend(self.misplaced_jobs()?);
        findings.extend(self.rows_where(JOB_DATA, "facets", plain, |row| {
            let (seq, name, at): (_, String, i64) = (row.get(0)?, row.get(2)?, row.get(3)?);
            let (check, body): (u32, Vec<u8>) = (row.get(4)?, row.get(5)?);
            Ok(job_data_check(seq, row.get(1)?, &name, at.unsigned_abs(), &body) != check)
        })?);
        findings.extend(self.rows_where(DOCUMENTS, "documents", plain, |row| {
            let (key, body): (String, Vec<u8>) = (row.get(1)?, row.get(3)?);
            Ok(document_check(row.get(0)?, &key, &body) != row.get::<_, u32>(2)?)
        })?);
        findings.extend(self.rows_where(KEYS, "keys", plain, |row| {
            let [tenant, job_type, text]: [String; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
            let key = (row.get(0)?, tenant.as_str(), job_type.as_str(), text.as_str());
            Ok(holder_at(row, 4, key).is_err())
        })?);
        for sql in TAGS {
            let job = |row: &Row<'_>| Some(DerivedData::Job(Seq(row.get(2).ok()?)));
            findings.extend(self.rows_where(sql, "tags", job, |_| Ok(true))?);
        }
        let total = |row: &Row<'_>| {
            let tenant: String = row.get(0).ok()?;
            Some(DerivedData::KeyTotal(Tenant::new(&tenant).ok()?))
        };
        findings.extend(self.rows_where(KEY_TOTALS, "concurrency_key_totals", total, |_| Ok(true))?);
        self.check_shared()?;
        Ok(findings)
    }

    fn damaged_pages(&self) -> EngineResult<Vec<Damage>> {
        let sql = format!("PRAGMA integrity_check({FINDINGS_MAX})");
        let mut statement = prepare(self.connection.get(), &sql)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(store_error)?;
        let findings: Vec<String> = rows.collect::<rusqlite::Result<_>>().map_err(store_error)?;
        Ok(findings.into_iter().filter(|finding| finding != "ok").map(damaged_page).collect())
    }

    /// Jobs whose columns do not match their record.
    fn misplaced_jobs(&mut self) -> EngineResult<Vec<Damage>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut statement = prepare(connection, PLACES)?;
        let mut rows = statement.query([]).map_err(store_error)?;
        let mut findings = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            let job = read_job(row, interned, connection)?;
            let keys = IndexKeys::new(&job, row.get(2).map_err(store_error)?);
            let columns = [5, 6, 7, 8, 9, 10, 11, 12].map(|place| row.get::<_, Option<i64>>(place));
            let parent: Option<Vec<u8>> = row.get(13).map_err(store_error)?;
            let expected = [
                Some(keys.state),
                Some(keys.order_key),
                Some(keys.rank),
                Some(keys.at),
                Some(keys.expires_at),
                Some(job.created_at.as_millis()),
                job.concurrency.map(|key| key.0),
                keys.due_rank,
            ];
            // Jobs that ran before the column existed have none.
            let worker: i64 = row.get(14).map_err(store_error)?;
            let is_placed = columns.iter().zip(expected).all(|(found, wanted)| found == &Ok(wanted))
                && (worker == keys.worker || (worker == 0 && keys.worker != 0))
                && parent.as_deref() == job.parent.as_ref().map(|parent| &parent.id.as_bytes()[..]);
            if !is_placed && findings.len() < FINDINGS_MAX {
                let text = format!("job {} is not where its record says", job.id);
                findings.push(Damage::new(DerivedData::Job(job.seq), text));
            }
        }
        Ok(findings)
    }

    /// Rows of a table for which `is_wrong` returns true, or which it cannot read.
    fn rows_where(
        &self,
        sql: &str,
        table: &str,
        derived: impl Fn(&Row<'_>) -> Option<DerivedData>,
        is_wrong: impl Fn(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> EngineResult<Vec<Damage>> {
        let mut statement = prepare(self.connection.get(), sql)?;
        let mut rows = statement.query([]).map_err(store_error)?;
        let mut findings = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            if is_wrong(row).unwrap_or(true) && findings.len() < FINDINGS_MAX {
                let first = row.get_ref(0).map_err(store_error)?;
                let text = format!("a row of {table} that begins with {first:?} is not what was written");
                findings.push(Damage { text, derived: derived(row) });
            }
        }
        Ok(findings)
    }

    /// Reads all lanes and policies, which verifies their checksums.
    fn check_shared(&mut self) -> EngineResult<()> {
        for (table, sql) in SHARED {
            let mut statement = prepare(self.connection.get(), sql)?;
            let ids = statement.query_map([], |row| row.get::<_, i64>(0)).map_err(store_error)?;
            for id in ids {
                let id = id.map_err(store_error)?;
                match table {
                    "lanes" => self.interned.lane(self.connection.get(), id).map(drop)?,
                    _ => self.interned.policy(self.connection.get(), id).map(drop)?,
                }
            }
        }
        Ok(())
    }
}
