//! Removal of jobs, with everything that hangs on them, as a set. Their audit records stay, and so do their lanes and
//! policies.

use std::collections::BTreeMap;

use super::link::get;
use super::parameter::Column;
use super::row::Places;
use super::tables::Tables;
use crate::job::Seq;
use crate::store::config::parse;
use crate::store::engine::{EngineResult, Key, KeyKind};

const TRACES: &str = "SELECT h.seq, h.lane, j.idempotency_key, j.unique_key, j.tags FROM @.hot h \
     JOIN @.jobs j ON j.seq = h.seq WHERE h.seq = ANY($1)";
const OWN_KEYS: &str = "DELETE FROM @.keys k \
     USING unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::bigint[]) u(kind, tenant, type, key, seq) \
     WHERE k.kind = u.kind::smallint AND k.tenant = u.tenant AND k.type = u.type AND k.key = u.key AND k.seq = u.seq";
const TAGS: &str = "DELETE FROM @.tags t USING unnest($1::bytea[], $2::bytea[], $3::bigint[]) u(name, value, seq) \
     WHERE t.name = u.name AND t.value = u.value AND t.seq = u.seq";
const ALL: [&str; 5] = [
    "DELETE FROM @.jobs WHERE seq = ANY($1)",
    "DELETE FROM @.hot WHERE seq = ANY($1)",
    "DELETE FROM @.facets WHERE seq = ANY($1)",
    "DELETE FROM @.edges WHERE dependency = ANY($1)",
    "DELETE FROM @.edges WHERE dependent = ANY($1)",
];

impl Tables {
    pub(super) fn remove_jobs(&mut self, seqs: &[Seq]) -> EngineResult<()> {
        let all = || Column::of(seqs.iter().map(|seq| seq.0)).into();
        let jobs: Vec<_> = self.load_jobs(seqs)?.into_iter().flatten().collect();
        let traces = self.link.fetch(TRACES, vec![all()])?;
        let lanes: rustc_hash::FxHashMap<Seq, _> =
            jobs.iter().map(|job| (job.seq, job.lane.clone())).collect();
        let (mut keys, mut holders) = (Vec::new(), Column::numbers());
        let (mut names, mut values, mut tagged) = (Column::bytes(), Column::bytes(), Column::numbers());
        for row in &traces {
            let seq = Seq(get(row, 0)?);
            let Some(lane) = lanes.get(&seq) else { continue };
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
                let (tenant, job_type) = (lane.tenant.clone(), lane.job_type.clone());
                keys.push(Key { kind, tenant, job_type, text });
                holders.number(seq.0);
            }
        }
        if !tagged.is_empty() {
            self.write(TAGS, vec![names.into(), values.into(), tagged.into()], None)?;
        }
        if !keys.is_empty() {
            // Unless another job has taken them since.
            let mut values = super::query::key_parameters(&keys);
            values.push(holders.into());
            self.write(OWN_KEYS, values, None)?;
        }
        let mut placed = Vec::with_capacity(jobs.len());
        for job in &jobs {
            self.timers.removed(job.seq);
            placed.push((job.seq, self.lane_id(&job.lane)?, Places::of(job)));
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
}
