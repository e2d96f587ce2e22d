//! Reading: each method is the shortest that returns what the contract says, in the order it says.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use windlass::audit::Record;
use windlass::clock::Timestamp;
use windlass::job::{ConcurrencyKey, JobId, JobRecord, JobState, Lane, Need, Seq, Spec, Tenant, acts_at};
use windlass::store::engine::{
    AuditLog, Caches, ClaimOrder, Counters, Counts, Document, DocumentKind, DocumentRange, Documents, Edge,
    EngineResult, Graph, JobData, JobDataQuery, JobDataTable, JobTable, Key, KeyHolder, Keys, LaneCursor,
    Read, ReadyIndex, RecordQuery, SequenceNumbers, Side,
};
use windlass::store::{Order, Scan, SearchResult};

use crate::tables::{Row, Tables};

impl JobTable for Tables {
    fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<JobRecord>>> {
        Ok(ids.iter().map(|id| self.jobs.get(self.ids.get(id)?).map(|row| row.job.clone())).collect())
    }

    fn load(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<JobRecord>>> {
        Ok(seqs.iter().map(|seq| self.jobs.get(seq).map(|row| row.job.clone())).collect())
    }

    fn specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>> {
        Ok(seqs.iter().map(|seq| self.jobs.get(seq).map(|row| row.spec.clone())).collect())
    }

    /// Reads every job: `reach` is for databases where that takes long.
    fn search(&mut self, scan: &Scan, _reach: usize) -> EngineResult<SearchResult> {
        let is_wanted = |row: &&Arc<Row>| scan.filter.matches(&row.job, &row.spec) && scan.is_after(&row.job);
        let mut jobs: Vec<&JobRecord> = self.jobs.values().filter(is_wanted).map(|row| &row.job).collect();
        match scan.order {
            Order::Oldest => {}
            Order::Newest => jobs.reverse(),
            Order::Claim => jobs.sort_by_key(|job| ClaimOrder::new(job)),
        }
        Ok(SearchResult { jobs: jobs.into_iter().take(scan.limit).cloned().collect(), stopped: None })
    }
}

impl Tables {
    /// The positions of jobs in these lanes, in order, as `place` gives them.
    fn places<'l>(
        &self,
        lanes: impl IntoIterator<Item = &'l Arc<Lane>>,
        place: impl Fn(&JobRecord) -> Option<ClaimOrder>,
    ) -> Vec<Vec<ClaimOrder>> {
        let mut by_lane: BTreeMap<&Arc<Lane>, Vec<ClaimOrder>> = BTreeMap::new();
        for row in self.jobs.values() {
            if let Some(place) = place(&row.job) {
                by_lane.entry(&row.job.lane).or_default().push(place);
            }
        }
        for places in by_lane.values_mut() {
            places.sort_unstable();
        }
        lanes.into_iter().map(|lane| by_lane.get(lane).cloned().unwrap_or_default()).collect()
    }

    fn ready_places(&self, lanes: &[LaneCursor]) -> Vec<Vec<ClaimOrder>> {
        let is_ready = |job: &JobRecord| job.state == JobState::Scheduled && !job.is_blocked;
        self.places(lanes.iter().map(|cursor| &cursor.lane), |job| {
            is_ready(job).then(|| ClaimOrder::new(job))
        })
    }

    fn timers(&self) -> BTreeSet<(Timestamp, Seq)> {
        self.jobs.values().filter_map(|row| Some((acts_at(&row.job)?, row.job.seq))).collect()
    }
}

impl ReadyIndex for Tables {
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>> {
        let places = self.ready_places(lanes).into_iter().zip(lanes);
        let jobs = places.map(|(places, cursor)| {
            let later = places.into_iter().filter(|place| cursor.after.is_none_or(|after| *place > after));
            later.take(each_max).map(|place| self.jobs[&place.seq].job.clone()).collect()
        });
        Ok(jobs.collect())
    }

    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        let mut left = max;
        let places = self.ready_places(lanes).into_iter().zip(lanes);
        let heads = places.map(|(mut places, cursor)| {
            places.retain(|place| cursor.after.is_none_or(|after| place.rank > after.rank));
            places.dedup_by_key(|place| place.rank);
            places.truncate(left);
            left -= places.len();
            places
        });
        Ok(heads.collect())
    }

    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>> {
        let due = self.timers().into_iter().take_while(|(at, _)| *at <= now).take(max);
        Ok(due.map(|(_, seq)| self.jobs[&seq].job.clone()).collect())
    }

    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        let due = |job: &JobRecord| ClaimOrder::when_due(job).filter(|place| place.eligible_at <= now);
        let mut places = self.places(lanes, due);
        for places in &mut places {
            places.truncate(each_max);
        }
        Ok(places)
    }

    fn next_due(&mut self) -> EngineResult<Option<Timestamp>> {
        Ok(self.timers().first().map(|(at, _)| *at))
    }

    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>> {
        let is_blocked = |job: &JobRecord| {
            job.state == JobState::Scheduled && job.is_blocked && job.concurrency == Some(key)
        };
        let lanes: BTreeSet<Arc<Lane>> = self.jobs.values().map(|row| row.job.lane.clone()).collect();
        let places = self.places(&lanes, |job| is_blocked(job).then(|| ClaimOrder::new(job)));
        Ok(places.iter().filter_map(|places| Some(self.jobs[&places.first()?.seq].job.clone())).collect())
    }
}

impl Keys for Tables {
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        Ok(keys.iter().map(|key| self.keys.get(key).copied()).collect())
    }
}

impl Graph for Tables {
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>> {
        let seqs: BTreeSet<&Seq> = seqs.iter().collect();
        let end = |edge: &Edge| if side == Side::Dependency { edge.dependency } else { edge.dependent };
        Ok(self.edges.iter().filter(|edge| seqs.contains(&end(edge))).copied().collect())
    }

    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>> {
        let edges = self.edges.iter().filter(|edge| edge.dependency == dependency);
        let later = edges.filter(|edge| after.is_none_or(|after| (edge.dependent, edge.need) > after));
        Ok(later.take(max).copied().collect())
    }
}

impl JobDataTable for Tables {
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>> {
        let of_kind = self.job_data.range((query.seq, query.kind, String::new(), 0)..);
        let of_kind = of_kind.take_while(|((seq, kind, ..), _)| (*seq, *kind) == (query.seq, query.kind));
        let wanted = of_kind.filter(|((_, _, name, number), _)| {
            query.name.is_none_or(|wanted| wanted == name) && query.above.is_none_or(|above| *number > above)
        });
        let found = wanted.take(query.limit).map(|((seq, kind, name, number), body)| JobData {
            seq: *seq,
            kind: *kind,
            name: name.clone(),
            number: *number,
            body: body.clone(),
        });
        Ok(found.collect())
    }
}

impl Documents for Tables {
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>> {
        let body = self.documents.get(&(kind, key.to_owned()));
        Ok(body.map(|body| Document { key: key.to_owned(), body: body.clone() }))
    }

    fn documents_in(&mut self, kind: DocumentKind, range: DocumentRange<'_>) -> EngineResult<Vec<Document>> {
        let start = Bound::Included((kind, range.first_key().into_owned()));
        let of_kind = self.documents.range((start, Bound::Unbounded)).take_while(|((of, _), _)| *of == kind);
        let wanted = of_kind.take_while(|((_, key), _)| range.before.is_none_or(|end| key.as_str() < end));
        let found = wanted.take(range.limit);
        Ok(found.map(|((_, key), body)| Document { key: key.clone(), body: body.clone() }).collect())
    }

    fn configuration_version(&mut self) -> EngineResult<u64> {
        Ok(self.configuration_version)
    }
}

impl AuditLog for Tables {
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>> {
        let skipped = usize::try_from(query.after).unwrap_or(usize::MAX);
        let is_wanted = |record: &&Arc<Record>| query.matches(record);
        let found = self.records.iter().skip(skipped).filter(is_wanted).take(query.limit);
        Ok(found.map(|record| Record::clone(record)).collect())
    }
}

impl Counters for Tables {
    fn counts(&mut self) -> EngineResult<&Counts> {
        Ok(&self.counts)
    }

    fn keys_in_use(&mut self, tenant: &Tenant) -> EngineResult<u64> {
        Ok(self.key_counts.keys().filter(|(of, _)| of == tenant).count() as u64)
    }

    fn jobs_with_keys(&mut self, tenant: &Tenant, keys: &[ConcurrencyKey]) -> EngineResult<Vec<u64>> {
        let jobs = |key: &ConcurrencyKey| self.key_counts.get(&(tenant.clone(), *key)).copied();
        Ok(keys.iter().map(|key| jobs(key).unwrap_or(0)).collect())
    }

    fn all_keys_in_use(&mut self) -> EngineResult<BTreeMap<Tenant, u64>> {
        let mut all = BTreeMap::new();
        for (tenant, _) in self.key_counts.keys() {
            *all.entry(tenant.clone()).or_default() += 1;
        }
        Ok(all)
    }

    fn numbers(&mut self) -> EngineResult<SequenceNumbers> {
        let record = self.records.len() as u64 + 1;
        Ok(SequenceNumbers { generation: self.generation, seq: self.next_seq, record })
    }
}

impl Caches for Tables {
    /// There is one connection, so no other one ever commits.
    fn cache_generation(&mut self) -> u64 {
        0
    }
}

impl Read for Tables {
    fn committed_at(&mut self) -> EngineResult<Timestamp> {
        Ok(self.committed_at)
    }
}
