//! Integrity check of the rows: rows that differ from their checksums, columns and index entries that do not match the
//! record. It reads everything and repairs nothing. Pages and indexes are left to the database's own tools (`amcheck`,
//! checksums).

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Row;
use uuid::Uuid;

use super::Tables;
use super::intern::check;
use super::keys::holder_at;
use super::query::text_of;
use super::row::{ColumnIndexes, state_code};
use super::timer::unpack;
use crate::job::{JobRecord, Seq, Tenant};
use crate::store::documents::config::parse;
use crate::store::engine::{Damage, DerivedData, EngineResult};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::sql::columns::{NEVER, document_check, job_data_check, limit};

/// Maximum number of findings of one kind.
const FINDINGS_MAX: usize = 20;
/// Jobs read at a time.
const AT_ONCE: i64 = 5_000;

const HOT: &str = "SELECT seq, id, lane, policy, record, state::bigint, created_at, parent FROM @.hot \
     WHERE seq > $1 ORDER BY seq LIMIT $2";
const SPANS: [&str; 3] = [
    "SELECT seq, lane, rank::bigint, at FROM @.ready WHERE seq > $1 AND seq <= $2",
    "SELECT seq, key, state::bigint, lane, rank::bigint, at FROM @.slots WHERE seq > $1 AND seq <= $2",
    "SELECT seq, state::bigint FROM @.states WHERE seq > $1 AND seq <= $2",
];
const TIMERS: &str = "SELECT at, is_running, seqs, worker FROM @.timers";
const TAGS: &str = "SELECT seq, name, value FROM @.tags WHERE seq > $1 AND seq <= $2";
const TAGGED: &str = "SELECT seq, tags FROM @.jobs WHERE seq > $1 AND seq <= $2 AND tags IS NOT NULL";
const JOB_DATA: &str = "SELECT seq, kind::bigint, name, number, \"check\", body FROM @.facets";
const DOCUMENTS: &str = "SELECT kind::bigint, key, \"check\", body FROM @.documents";
const KEYS: &str = "SELECT kind::bigint, tenant, type, key, seq, expires_at, \"check\", job, payload, ended::bigint FROM @.keys";

/// Tenants whose number of concurrency keys differs from the keys.
const KEY_TOTALS: &str = "SELECT coalesce(t.tenant, k.tenant) FROM @.concurrency_key_totals t \
     FULL JOIN (SELECT tenant, count(*) AS n FROM @.concurrency_keys GROUP BY tenant) k ON k.tenant = t.tenant \
     WHERE coalesce(t.n, 0) <> coalesce(k.n, 0)";

/// The time from which an entry of `timers` covers a job, and the workers of those entries for running jobs.
type Cover = BTreeMap<i64, (i64, Vec<i64>)>;

impl Tables {
    /// A description of each problem.
    pub(in crate::store::engines::postgres) fn find_damage(&mut self) -> EngineResult<Vec<Damage>> {
        let mut findings = Vec::new();
        let cover = self.cover()?;
        let mut after = 0;
        loop {
            let rows = self.link.fetch(HOT, vec![after.into(), AT_ONCE.into()])?;
            let is_last = i64::try_from(rows.len()).unwrap_or(i64::MAX) < AT_ONCE;
            // Entries behind the last job belong to no job.
            let end = if is_last { i64::MAX } else { rows.last().map_or(Ok(i64::MAX), |row| get(row, 0))? };
            let jobs = self.read_jobs(&rows)?;
            self.check_places(after, end, &rows, &jobs, &cover, &mut findings)?;
            self.check_tags(after, end, &mut findings)?;
            after = end;
            if is_last {
                break;
            }
        }
        self.check_rows(&mut findings)?;
        for row in self.link.fetch(KEY_TOTALS, Vec::new())? {
            let tenant: &str = get(&row, 0)?;
            let derived = Tenant::new(tenant).ok().map(DerivedData::KeyTotal);
            let text = format!("the number of concurrency keys of tenant {tenant} is wrong");
            note(&mut findings, || Damage { text, derived });
        }
        self.check_interned()?;
        findings.extend(self.quarantined(FINDINGS_MAX)?.into_iter().map(Damage::from));
        findings.extend(self.quarantined_appends(limit(FINDINGS_MAX))?.into_iter().map(Damage::from));
        Ok(findings)
    }

    fn cover(&mut self) -> EngineResult<Cover> {
        let mut cover = Cover::new();
        for row in self.link.fetch(TIMERS, Vec::new())? {
            let (at, is_running, worker): (i64, bool, i64) = (get(&row, 0)?, get(&row, 1)?, get(&row, 3)?);
            for seq in unpack(get(&row, 2)?) {
                let (from, workers) = cover.entry(seq).or_insert((NEVER, Vec::new()));
                *from = at.min(*from);
                workers.extend(is_running.then_some(worker));
            }
        }
        Ok(cover)
    }

    /// Jobs that have index entries they should not have, or lack some.
    fn check_places(
        &mut self,
        after: i64,
        end: i64,
        rows: &[Row],
        jobs: &[JobRecord],
        cover: &Cover,
        findings: &mut Vec<Damage>,
    ) -> EngineResult<()> {
        let mut stored: [BTreeSet<Vec<i64>>; 3] = Default::default();
        for (stored, sql) in stored.iter_mut().zip(SPANS) {
            for row in self.link.fetch(sql, vec![after.into(), end.into()])? {
                stored.insert((0..row.len()).map(|place| get(&row, place)).collect::<EngineResult<_>>()?);
            }
        }
        let mut expected: [BTreeSet<Vec<i64>>; 3] = Default::default();
        for (row, job) in rows.iter().zip(jobs) {
            let (seq, lane): (i64, i64) = (job.seq.0, get(row, 2)?);
            let places = ColumnIndexes::new(job);
            expected[0].extend(places.ready.map(|(rank, at)| vec![seq, lane, rank, at]));
            expected[1]
                .extend(places.slot.map(|(key, state, rank, at)| vec![seq, key, state, lane, rank, at]));
            expected[2].extend(places.listed.map(|state| vec![seq, state]));
            let (from, workers) =
                cover.get(&seq).map_or((NEVER, &[][..]), |(from, workers)| (*from, workers));
            let is_found = workers.iter().any(|worker| [0, places.worker].contains(worker));
            let is_covered = from <= places.acts_at && (is_found || !places.is_running);
            let parent: Option<Uuid> = get(row, 7)?;
            let follows = get::<i64>(row, 5)? == state_code(job)
                && get::<i64>(row, 6)? == job.created_at.as_millis()
                && parent.map(Uuid::into_bytes) == job.parent.map(|parent| *parent.id.as_bytes());
            if !follows || !is_covered {
                let text = format!("job {} is not where its record says", job.id);
                note(findings, || Damage::new(DerivedData::Job(job.seq), text));
            }
        }
        for (stored, expected) in stored.iter().zip(&expected) {
            for place in stored.symmetric_difference(expected) {
                let text = format!("the job with number {} is not where its record says", place[0]);
                note(findings, || Damage::new(DerivedData::Job(Seq(place[0])), text));
            }
        }
        Ok(())
    }

    fn check_tags(&mut self, after: i64, end: i64, findings: &mut Vec<Damage>) -> EngineResult<()> {
        let mut stored: BTreeSet<(i64, String, String)> = BTreeSet::new();
        for row in self.link.fetch(TAGS, vec![after.into(), end.into()])? {
            let seq = get(&row, 0)?;
            let text = |place| text_of(get(&row, place)?, "tags", seq).map(str::to_owned);
            stored.insert((seq, text(1)?, text(2)?));
        }
        let mut expected = BTreeSet::new();
        for row in self.link.fetch(TAGGED, vec![after.into(), end.into()])? {
            let seq: i64 = get(&row, 0)?;
            let tags: BTreeMap<String, String> = parse(get(&row, 1)?)?;
            expected.extend(tags.into_iter().map(|(name, value)| (seq, name, value)));
        }
        for (seq, ..) in stored.symmetric_difference(&expected) {
            let text = format!("a tag of the job with number {seq} is not what was written");
            note(findings, || Damage::new(DerivedData::Job(Seq(*seq)), text));
        }
        Ok(())
    }

    fn check_rows(&mut self, findings: &mut Vec<Damage>) -> EngineResult<()> {
        self.rows_where(JOB_DATA, "facets", findings, |row| {
            let (seq, at): (i64, i64) = (get(row, 0)?, get(row, 3)?);
            let name = text_of(get(row, 2)?, "facets", seq)?;
            Ok(job_data_check(seq, get(row, 1)?, name, at.unsigned_abs(), get(row, 5)?)
                != check(get(row, 4)?))
        })?;
        self.rows_where(DOCUMENTS, "documents", findings, |row| {
            let kind = get(row, 0)?;
            let key = text_of(get(row, 1)?, "documents", kind)?;
            Ok(document_check(kind, key, get(row, 3)?) != check(get(row, 2)?))
        })?;
        self.rows_where(KEYS, "keys", findings, |row| {
            let key = (get(row, 0)?, get(row, 1)?, get(row, 2)?, text_of(get(row, 3)?, "keys", 0)?);
            Ok(holder_at(row, 4, key).is_err())
        })
    }

    /// Rows of a table for which `is_wrong` returns true, or which it cannot read.
    fn rows_where(
        &mut self,
        sql: &str,
        table: &str,
        findings: &mut Vec<Damage>,
        is_wrong: impl Fn(&Row) -> EngineResult<bool>,
    ) -> EngineResult<()> {
        for row in self.link.fetch(sql, Vec::new())? {
            if is_wrong(&row).unwrap_or(true) {
                let first: i64 = get(&row, 0)?;
                note(findings, || {
                    format!("a row of {table} that begins with {first} is not what was written").into()
                });
            }
        }
        Ok(())
    }
}

fn note(findings: &mut Vec<Damage>, finding: impl FnOnce() -> Damage) {
    if findings.len() < FINDINGS_MAX {
        findings.push(finding());
    }
}
