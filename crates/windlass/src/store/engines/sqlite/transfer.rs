//! Export and import of all rows of the file, for moving a store. Pages end when they hold enough bytes, because SQLite
//! returns one row after the other.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row, params};

use super::tables::keys::read_key;
use super::tables::row::read_job;
use super::tables::{Holds, Tables, prepare, store_error};
use super::{busy, open};
use crate::audit::Record;
use crate::job::Seq;
use crate::store::engine::{
    Edge, EngineResult, Export, Import, JobData, JobDataPosition, Key, KeyHolder, NewRow, Page,
};
use crate::store::engines::sql::columns::{
    damaged, job_data_check, job_data_kind_code, job_data_kind_of, key_columns, limit, need_code, need_of,
    number,
};

const JOBS: &str =
    "SELECT seq, id, lane, policy, record FROM hot NOT INDEXED WHERE seq > ?1 ORDER BY seq LIMIT ?2";
const JOB_DATA: &str = "SELECT seq, kind, name, number, \"check\", body FROM facets \
     WHERE (seq, kind, name, number) > (?1, ?2, ?3, ?4) ORDER BY seq, kind, name, number LIMIT ?5";
const KEYS: &str = "SELECT kind, tenant, type, key, seq, expires_at, \"check\", job, payload, ended FROM keys \
     WHERE (kind, tenant, type, key) > (?1, ?2, ?3, ?4) ORDER BY kind, tenant, type, key LIMIT ?5";
const EDGES: &str = "SELECT dependency, dependent, need FROM edges \
     WHERE (dependency, dependent, need) > (?1, ?2, ?3) ORDER BY dependency, dependent, need LIMIT ?4";

impl<C: Holds> Tables<C> {
    /// Rows of a statement until there are none or the page is full; the second value of `read` is a row's size.
    fn page<T>(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
        page: Page,
        read: impl Fn(&Row<'_>) -> EngineResult<(T, usize)>,
    ) -> EngineResult<Vec<T>> {
        let mut statement = prepare(self.connection.get(), sql)?;
        let mut rows = statement.query(parameters).map_err(store_error)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes <= page.bytes
            && let Some(row) = rows.next().map_err(store_error)?
        {
            let (one, size) = read(row)?;
            bytes += size;
            found.push(one);
        }
        Ok(found)
    }
}

impl<C: Holds> Export for Tables<C> {
    fn jobs_after(&mut self, after: Seq, page: Page) -> EngineResult<Vec<NewRow>> {
        let mut jobs = Vec::new();
        {
            let (connection, interned) = (self.connection.get(), &mut self.interned);
            let mut statement = prepare(connection, JOBS)?;
            let mut rows = statement.query(params![after.0, limit(page.rows)]).map_err(store_error)?;
            while let Some(row) = rows.next().map_err(store_error)? {
                jobs.push(read_job(row, interned, connection)?);
            }
        }
        let (mut found, mut bytes) = (Vec::with_capacity(jobs.len()), 0);
        for job in jobs {
            let spec = self.load_specs(&[job.seq])?.pop().flatten();
            let spec = spec.ok_or_else(|| damaged("jobs", job.seq.0, "is missing"))?;
            bytes += spec.payload.bytes.len();
            found.push(NewRow { job, spec, keys: Vec::new() });
            if bytes > page.bytes {
                break;
            }
        }
        Ok(found)
    }

    fn job_data_after(&mut self, after: Option<&JobDataPosition>, page: Page) -> EngineResult<Vec<JobData>> {
        let (seq, kind) = after.map_or((i64::MIN, 0), |after| (after.seq.0, job_data_kind_code(after.kind)));
        let (name, at) = after.map_or(("", 0), |after| (after.name.as_str(), number(after.number)));
        self.page(JOB_DATA, params![seq, kind, name, at, limit(page.rows)], page, |row| {
            let data = read_job_data(row)?;
            let size = data.body.len();
            Ok((data, size))
        })
    }

    fn keys_after(&mut self, after: Option<&Key>, page: Page) -> EngineResult<Vec<(Key, KeyHolder)>> {
        let (kind, tenant, job_type, text) = after.map_or((-1, "", "", ""), key_columns);
        let parameters = params![kind, tenant, job_type, text, limit(page.rows)];
        self.page(KEYS, parameters, page, |row| Ok((read_key(row)?, 0)))
    }

    fn edges_after(&mut self, after: Option<Edge>, page: Page) -> EngineResult<Vec<Edge>> {
        let [dependency, dependent, need] = after
            .map_or([i64::MIN, 0, 0], |edge| [edge.dependency.0, edge.dependent.0, need_code(edge.need)]);
        self.page(EDGES, params![dependency, dependent, need, limit(page.rows)], page, |row| {
            let [dependency, dependent, need]: [i64; 3] = columns(row)?;
            let need = need_of(need).ok_or_else(|| damaged("edges", dependency, "names no kind of need"))?;
            Ok((Edge { dependency: Seq(dependency), dependent: Seq(dependent), need }, 0))
        })
    }
}

impl<C: Holds> Import for Tables<C> {
    fn import_keys(&mut self, keys: &[(Key, KeyHolder)]) -> EngineResult<()> {
        self.put_keys(keys)
    }

    fn import_records(&mut self, records: &[Record]) -> EngineResult<()> {
        self.write_records(records)
    }
}

fn columns<const N: usize>(row: &Row<'_>) -> EngineResult<[i64; N]> {
    let mut numbers = [0; N];
    for (place, number) in numbers.iter_mut().enumerate() {
        *number = row.get(place).map_err(store_error)?;
    }
    Ok(numbers)
}

fn read_job_data(row: &Row<'_>) -> EngineResult<JobData> {
    let [seq, kind] = columns(row)?;
    let at: i64 = row.get(3).map_err(store_error)?;
    let data = JobData {
        seq: Seq(seq),
        kind: job_data_kind_of(kind).ok_or_else(|| damaged("facets", seq, "is of no known kind"))?,
        name: row.get(2).map_err(store_error)?,
        number: at.unsigned_abs(),
        body: row.get(5).map_err(store_error)?,
    };
    let check: u32 = row.get(4).map_err(store_error)?;
    if job_data_check(seq, kind, &data.name, data.number, &data.body) != check {
        return Err(damaged("facets", seq, "does not match its checksum"));
    }
    Ok(data)
}

/// Whether any other connection, of any process, has the file open.
pub(crate) fn is_in_use(path: &Path) -> EngineResult<bool> {
    // SQLite would delete the log of an empty database.
    if !path.exists() || open::refuse_remains(path).is_err() {
        return Ok(false);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    busy::never_wait(&connection)?;
    // An existing log is left for the process that opens the store.
    open::leave_log(&connection)?;
    // Exclusive access is refused while any other connection has the file open, even without a transaction.
    let alone =
        "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; SELECT count(*) FROM sqlite_schema; ROLLBACK";
    match connection.execute_batch(alone).map_err(store_error) {
        Ok(()) => Ok(false),
        Err(error) if busy::is_locked(&error) => Ok(true),
        Err(error) => Err(error),
    }
}
