//! Removal of jobs and their data, as a set. Their audit records are kept, and so are their lanes and policies.

use std::collections::BTreeMap;

use super::Tables;
use super::row::ColumnIndexes;
use crate::clock::Timestamp;
use crate::job::{JobRecord, JobState, Seq};
use crate::store::documents::config::parse;
use crate::store::engine::{EngineResult, Key, KeyKind, KeysMut};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::Column;

const TRACES: &str = "SELECT h.seq, h.lane, j.idempotency_key, j.unique_key, j.tags FROM @.hot h \
     CROSS JOIN LATERAL (SELECT * FROM @.jobs j WHERE j.seq = h.seq OFFSET 0) j WHERE h.seq = ANY($1)";
const TAGS: &str = "DELETE FROM @.tags WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) u(name, value, seq) CROSS JOIN LATERAL ( \
     SELECT t.ctid AS row FROM @.tags t WHERE t.name = u.name AND t.value = u.value AND t.seq = u.seq OFFSET 0) o))";
const ALL: [&str; 5] = [
    "DELETE FROM @.jobs WHERE seq = ANY($1)",
    "DELETE FROM @.hot WHERE seq = ANY($1)",
    "DELETE FROM @.facets WHERE seq = ANY($1)",
    "DELETE FROM @.edges WHERE dependency = ANY($1)",
    "DELETE FROM @.edges WHERE dependent = ANY($1)",
];

impl Tables {
    pub(in crate::store::engines::postgres) fn remove_jobs(
        &mut self,
        seqs: &[Seq],
        now: Timestamp,
    ) -> EngineResult<()> {
        let all = || Column::from_numbers(seqs.iter().map(|seq| seq.0)).into();
        let jobs: Vec<_> = self.load_jobs(seqs)?.into_iter().flatten().collect();
        let traces = self.link.fetch(TRACES, vec![all()])?;
        let known: rustc_hash::FxHashMap<Seq, &JobRecord> = jobs.iter().map(|job| (job.seq, job)).collect();
        let mut keys = Vec::new();
        let (mut names, mut values, mut tagged) = (Column::bytes(), Column::bytes(), Column::numbers());
        for row in &traces {
            let seq = Seq(get(row, 0)?);
            let Some(job) = known.get(&seq) else { continue };
            let tags: BTreeMap<String, String> =
                get::<Option<&[u8]>>(row, 4)?.map(parse).transpose()?.unwrap_or_default();
            for (name, value) in &tags {
                names.push(name.as_bytes());
                values.push(value.as_bytes());
                tagged.number(seq.0);
            }
            for (kind, place) in [(KeyKind::Idempotency, 2), (KeyKind::Unique, 3)] {
                let Some(text): Option<&[u8]> = get(row, place)? else { continue };
                let text = super::query::text_of(text, "jobs", seq.0)?.to_owned();
                let (tenant, job_type) = (job.lane.tenant.clone(), job.lane.job_type.clone());
                keys.push((Key { kind, tenant, job_type, text }, seq, job.state));
            }
        }
        if !tagged.is_empty() {
            self.write(TAGS, vec![names.into(), values.into(), tagged.into()], None)?;
        }
        if !keys.is_empty() {
            self.let_go_of_keys(&keys, now)?;
        }
        let mut placed = Vec::with_capacity(jobs.len());
        for job in &jobs {
            self.timers.removed(job.seq);
            placed.push((job.seq, self.lane_id(&job.lane)?, ColumnIndexes::new(job)));
        }
        self.displace_jobs(&placed)?;
        for sql in ALL {
            self.write(sql, vec![all()], None)?;
        }
        for seq in seqs {
            self.met.remove(seq);
        }
        Ok(())
    }

    /// Releases keys of removed jobs, unless another job has taken them since or they outlive the job.
    fn let_go_of_keys(&mut self, keys: &[(Key, Seq, JobState)], now: Timestamp) -> EngineResult<()> {
        let names: Vec<Key> = keys.iter().map(|(key, ..)| key.clone()).collect();
        let (mut kept, mut freed) = (Vec::new(), Vec::new());
        for ((key, seq, state), holder) in keys.iter().zip(self.read_holders(&names)?) {
            let Some(holder) = holder.filter(|holder| holder.seq == *seq) else { continue };
            match holder.outlive(*state, now) {
                Some(holder) => kept.push((key.clone(), holder)),
                None => freed.push(key.clone()),
            }
        }
        self.put_keys(&kept)?;
        if freed.is_empty() { Ok(()) } else { self.release_keys(&freed) }
    }
}
