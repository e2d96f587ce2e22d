//! Export and import of all rows of the schema, for moving a store. Pages are bounded by sizes, which are read first: a
//! page of rows at the maximum size would not fit in memory.

use std::sync::Arc;

use tokio_postgres::Row;

use super::connection::address::Address;
use super::connection::{Connection, get};
use super::parameter::Parameter;
use super::tables::Tables;
use super::tables::intern::check;
use super::tables::keys::read_key;
use super::tables::query::text_of;
use crate::audit::Record;
use crate::error::OpenError;
use crate::job::Seq;
use crate::store::engine::{
    Edge, EngineResult, Export, Import, InboxCounts, JobData, JobDataPosition, Key, KeyHolder, NewRow, Page,
};
use crate::store::engines::sql::columns::{
    damaged, job_data_check, job_data_kind_code, job_data_kind_of, key_columns, limit, need_code, need_of,
    number,
};
use crate::store::engines::sql::thread::panicked;

const SIZES: &str = "SELECT h.seq, coalesce(octet_length(j.payload), 0)::bigint FROM @.hot h \
     LEFT JOIN LATERAL (SELECT j.payload FROM @.jobs j WHERE j.seq = h.seq OFFSET 0) j ON true \
     WHERE h.seq > $1 ORDER BY h.seq LIMIT $2";
const JOB_DATA_SIZES: &str = "SELECT octet_length(body)::bigint FROM @.facets \
     WHERE (seq, kind, name, number) > ($1, $2::bigint, $3, $4) ORDER BY seq, kind, name, number LIMIT $5";
const JOB_DATA: &str = "SELECT seq, kind::bigint, name, number, \"check\", body FROM @.facets \
     WHERE (seq, kind, name, number) > ($1, $2::bigint, $3, $4) ORDER BY seq, kind, name, number LIMIT $5";
const KEYS: &str = "SELECT kind::bigint, tenant, type, key, seq, expires_at, \"check\", job, payload, ended::bigint FROM @.keys \
     WHERE (kind, tenant, type, key) > ($1::bigint, $2, $3, $4) ORDER BY kind, tenant, type, key LIMIT $5";
const EDGES: &str = "SELECT dependency, dependent, need::bigint FROM @.edges \
     WHERE (dependency, dependent, need) > ($1, $2, $3::bigint) ORDER BY dependency, dependent, need LIMIT $4";
const ENTRIES: &str = "SELECT count(*) FILTER (WHERE refusal IS NULL), count(*) FILTER (WHERE refusal IS NOT NULL) \
     + (SELECT count(*) FROM @.appends WHERE refusal IS NOT NULL) FROM @.inbox";
const ALONE: &str = "SELECT pg_try_advisory_xact_lock($1)";
/// The lock of the table is granted only once every transaction that has inserted into it has ended.
const PAUSE_INBOX: &str = "CREATE OR REPLACE FUNCTION @.inbox_is_paused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', \
     MESSAGE = 'submissions are refused: this store is being moved, or was moved', \
     HINT = 'Nothing was submitted. Submit to the store it was moved to.'; END $$; \
     CREATE OR REPLACE TRIGGER inbox_is_paused BEFORE INSERT ON @.inbox FOR EACH STATEMENT \
     EXECUTE FUNCTION @.inbox_is_paused()";
const RESUME_INBOX: &str =
    "DROP TRIGGER IF EXISTS inbox_is_paused ON @.inbox; DROP FUNCTION IF EXISTS @.inbox_is_paused()";

impl Tables {
    pub(super) fn count_inbox(&mut self) -> EngineResult<InboxCounts> {
        let rows = self.link.fetch(ENTRIES, Vec::new())?;
        let Some(row) = rows.first() else { return Ok(InboxCounts::default()) };
        let [waiting, set_aside]: [i64; 2] = [get(row, 0)?, get(row, 1)?];
        Ok(InboxCounts { waiting: waiting.unsigned_abs(), set_aside: set_aside.unsigned_abs() })
    }

    pub(super) fn pause_inbox(&mut self, is_paused: bool) -> EngineResult<()> {
        self.begin_to_write()?;
        self.link.run(if is_paused { PAUSE_INBOX } else { RESUME_INBOX })
    }
}

impl Export for Tables {
    fn jobs_after(&mut self, after: Seq, page: Page) -> EngineResult<Vec<NewRow>> {
        let mut sizes = Vec::new();
        for row in self.link.fetch(SIZES, vec![after.0.into(), limit(page.rows).into()])? {
            sizes.push((Seq(get(&row, 0)?), size(get(&row, 1)?)));
        }
        let count = page.fitting(sizes.iter().map(|(_, size)| *size));
        let seqs: Vec<Seq> = sizes[..count].iter().map(|(seq, _)| *seq).collect();
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let (jobs, specs) = (self.load_jobs(&seqs)?, self.load_specs(&seqs)?);
        let rows = seqs.iter().zip(jobs).zip(specs).map(|((seq, job), spec)| {
            let job = job.ok_or_else(|| damaged("hot", seq.0, "is missing"))?;
            let spec = spec.ok_or_else(|| damaged("jobs", seq.0, "is missing"))?;
            Ok(NewRow { job, spec, keys: Vec::new() })
        });
        rows.collect()
    }

    fn job_data_after(&mut self, after: Option<&JobDataPosition>, page: Page) -> EngineResult<Vec<JobData>> {
        let place = |rows: usize| -> Vec<Parameter> {
            let (seq, kind) =
                after.map_or((i64::MIN, 0), |after| (after.seq.0, job_data_kind_code(after.kind)));
            let (name, at) = after.map_or(("", 0), |after| (after.name.as_str(), number(after.number)));
            vec![seq.into(), kind.into(), name.as_bytes().into(), at.into(), limit(rows).into()]
        };
        let sizes = self.link.fetch(JOB_DATA_SIZES, place(page.rows))?;
        let sizes = sizes.iter().map(|row| Ok(size(get(row, 0)?))).collect::<EngineResult<Vec<usize>>>()?;
        if sizes.is_empty() {
            return Ok(Vec::new());
        }
        self.link.fetch(JOB_DATA, place(page.fitting(sizes)))?.iter().map(read_job_data).collect()
    }

    fn keys_after(&mut self, after: Option<&Key>, page: Page) -> EngineResult<Vec<(Key, KeyHolder)>> {
        let (kind, tenant, job_type, text) = after.map_or((-1, "", "", ""), key_columns);
        let values = vec![
            kind.into(),
            tenant.into(),
            job_type.into(),
            text.as_bytes().into(),
            limit(page.rows).into(),
        ];
        self.link.fetch(KEYS, values)?.iter().map(read_key).collect()
    }

    fn edges_after(&mut self, after: Option<Edge>, page: Page) -> EngineResult<Vec<Edge>> {
        let place = after
            .map_or([i64::MIN, 0, 0], |edge| [edge.dependency.0, edge.dependent.0, need_code(edge.need)]);
        let mut values = Vec::from(place.map(Parameter::from));
        values.push(limit(page.rows).into());
        let rows = self.link.fetch(EDGES, values)?;
        let edges = rows.iter().map(|row| {
            let [dependency, dependent, need]: [i64; 3] = [get(row, 0)?, get(row, 1)?, get(row, 2)?];
            let need = need_of(need).ok_or_else(|| damaged("edges", dependency, "names no kind of need"))?;
            Ok(Edge { dependency: Seq(dependency), dependent: Seq(dependent), need })
        });
        edges.collect()
    }
}

impl Import for Tables {
    fn import_keys(&mut self, keys: &[(Key, KeyHolder)]) -> EngineResult<()> {
        self.put_keys(keys)
    }

    fn import_records(&mut self, records: &[Record]) -> EngineResult<()> {
        self.append_records(records)
    }
}

fn size(bytes: i64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn read_job_data(row: &Row) -> EngineResult<JobData> {
    let [seq, kind, at]: [i64; 3] = [get(row, 0)?, get(row, 1)?, get(row, 3)?];
    let body: &[u8] = get(row, 5)?;
    let data = JobData {
        seq: Seq(seq),
        kind: job_data_kind_of(kind).ok_or_else(|| damaged("facets", seq, "is of no known kind"))?,
        name: text_of(get(row, 2)?, "facets", seq)?.to_owned(),
        number: at.unsigned_abs(),
        body: Arc::from(body),
    };
    if job_data_check(seq, kind, &data.name, data.number, &data.body) != check(get(row, 4)?) {
        return Err(damaged("facets", seq, "does not match its checksum"));
    }
    Ok(data)
}

/// Whether any node has the store open. A node without notifications (`notify=off`) is not detected.
pub(crate) fn is_in_use(address: &str) -> Result<bool, OpenError> {
    let address = Address::parse(address)?;
    let ask = || {
        let mut link = Connection::connect(&address)?;
        // Only a process that is alone gets the lock that all nodes share.
        let rows = link.fetch(ALONE, vec![address.lock_key("nodes").into()])?;
        rows.first().map_or(Ok(false), |row| get::<bool>(row, 0).map(|is_alone| !is_alone))
    };
    let asked = std::thread::scope(|scope| scope.spawn(ask).join());
    Ok(asked.map_err(|payload| panicked(payload.as_ref()))??)
}
