//! Reading from the tables. Each method is the simplest that meets the contract; only the queries of every claim and
//! every tick use an index.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::tables::{Row, Tables};
use crate::audit::Record;
use crate::clock::Timestamp;
use crate::job::{ConcurrencyKey, JobId, JobRecord, JobState, Lane, Need, Seq, Spec, Tenant};
use crate::ordered::CollectOrdered;
use crate::store::engine::{
    AuditLog, Caches, ClaimOrder, Counters, Counts, Document, DocumentKind, DocumentRange, Documents, Edge,
    EngineResult, Export, Graph, JobData, JobDataQuery, JobDataTable, JobTable, Key, KeyHolder, Keys,
    LaneCursor, Read, ReadyIndex, RecordQuery, SequenceNumbers, Side,
};
use crate::store::filter::{Filter, Order, Scan, SearchResult};

impl Tables {
    fn job(&self, seq: Seq) -> Option<JobRecord> {
        self.rows.get(&seq).map(|row| row.job.clone())
    }

    fn indexed(&self, seq: Seq) -> JobRecord {
        self.job(seq).expect("an index names only jobs that are there")
    }

    fn lane_from(&self, cursor: &LaneCursor, max: usize) -> Vec<JobRecord> {
        let Some(places) = self.ready.get(&cursor.lane) else { return Vec::new() };
        let start = cursor.after.map_or(Bound::Unbounded, Bound::Excluded);
        places.range((start, Bound::Unbounded)).take(max).map(|place| self.indexed(place.seq)).collect()
    }

    fn heads_from(&self, cursor: &LaneCursor, max: usize) -> Vec<ClaimOrder> {
        let Some(places) = self.ready.get(&cursor.lane) else { return Vec::new() };
        let next = |last: &ClaimOrder| {
            let end = ClaimOrder { rank: last.rank, eligible_at: Timestamp::MAX, seq: Seq(i64::MAX) };
            places.range((Bound::Excluded(end), Bound::Unbounded)).next().copied()
        };
        let first = cursor.after.as_ref().map_or_else(|| places.first().copied(), next);
        std::iter::successors(first, next).take(max).collect()
    }

    /// The jobs that may match a filter, first submitted first.
    fn candidates<'a>(&'a self, filter: &Filter) -> Box<dyn DoubleEndedIterator<Item = &'a Row> + 'a> {
        if filter.workers.is_empty() {
            return Box::new(self.rows.values());
        }
        let leased = filter.workers.iter().filter_map(|worker| self.leased.get(worker));
        let seqs: BTreeSet<Seq> = leased.flatten().copied().collect_ordered();
        Box::new(seqs.into_iter().filter_map(|seq| self.rows.get(&seq)))
    }
}

impl JobTable for Tables {
    fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<JobRecord>>> {
        Ok(ids.iter().map(|id| self.ids.get(id).and_then(|seq| self.job(*seq))).collect())
    }

    fn load(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<JobRecord>>> {
        Ok(seqs.iter().map(|seq| self.job(*seq)).collect())
    }

    fn specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>> {
        Ok(seqs.iter().map(|seq| self.rows.get(seq).map(|row| row.spec.clone())).collect())
    }

    /// Every job is in memory, so none is left out.
    fn search(&mut self, scan: &Scan, _reach: usize) -> EngineResult<SearchResult> {
        let fits = |row: &&Row| scan.filter.matches(&row.job, &row.spec) && scan.is_after(&row.job);
        let fitting = self.candidates(&scan.filter).filter(fits);
        let rows: Vec<&Row> = match scan.order {
            Order::Oldest => fitting.take(scan.limit).collect(),
            Order::Newest => fitting.rev().take(scan.limit).collect(),
            Order::Claim => {
                let mut rows: Vec<&Row> = fitting.collect();
                rows.sort_by_key(|row| ClaimOrder::new(&row.job));
                rows.truncate(scan.limit);
                rows
            }
        };
        Ok(SearchResult { jobs: rows.into_iter().map(|row| row.job.clone()).collect(), stopped: None })
    }
}

impl ReadyIndex for Tables {
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>> {
        Ok(lanes.iter().map(|cursor| self.lane_from(cursor, each_max)).collect())
    }

    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        let mut left = max;
        let mut heads = |cursor| {
            let places = self.heads_from(cursor, left);
            left -= places.len();
            places
        };
        Ok(lanes.iter().map(&mut heads).collect())
    }

    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>> {
        let by_now = self.due.iter().take_while(|(at, _)| *at <= now);
        Ok(by_now.take(max).map(|(_, seq)| self.indexed(*seq)).collect())
    }

    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        let due = |lane: &Arc<Lane>| {
            let places = self.timed.get(lane).into_iter().flatten();
            places.filter(|place| place.eligible_at <= now).take(each_max).copied().collect()
        };
        Ok(lanes.iter().map(due).collect())
    }

    fn next_due(&mut self) -> EngineResult<Option<Timestamp>> {
        Ok(self.due.first().map(|(at, _)| *at))
    }

    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>> {
        let mut first: BTreeMap<&Lane, &JobRecord> = BTreeMap::new();
        let jobs = self.rows.values().map(|row| &row.job);
        for job in jobs
            .filter(|job| job.state == JobState::Scheduled && job.is_blocked && job.concurrency == Some(key))
        {
            let best = first.entry(&job.lane).or_insert(job);
            if ClaimOrder::new(job) < ClaimOrder::new(best) {
                *best = job;
            }
        }
        Ok(first.into_values().cloned().collect())
    }
}

impl Keys for Tables {
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        Ok(keys.iter().map(|key| self.keys.get(key).copied()).collect())
    }
}

impl Graph for Tables {
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>> {
        // Through a set: ordered as requested, and without duplicates when a job is named twice.
        let mut found = BTreeSet::new();
        for seq in seqs {
            match side {
                Side::Dependency => found.extend(edges_of(&self.edges, *seq)),
                Side::Dependent => found.extend(
                    self.edges_back
                        .range((*seq, Seq(i64::MIN), Need::After)..=(*seq, Seq(i64::MAX), Need::AfterAny))
                        .map(|&(dependent, dependency, need)| Edge { dependency, dependent, need }),
                ),
            }
        }
        Ok(found.into_iter().collect())
    }

    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>> {
        let edge = |(dependent, need)| Edge { dependency, dependent, need };
        let start = after.map_or(Bound::Included(edge((Seq(i64::MIN), Need::After))), |after| {
            Bound::Excluded(edge(after))
        });
        let end = Bound::Included(edge((Seq(i64::MAX), Need::AfterAny)));
        Ok(self.edges.range((start, end)).take(max).copied().collect())
    }
}

impl JobDataTable for Tables {
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>> {
        let start = (query.seq, query.kind, query.name.unwrap_or_default().to_owned(), 0);
        let of_job = self.job_data.range(start..).take_while(|((seq, kind, name, _), _)| {
            *seq == query.seq && *kind == query.kind && query.name.is_none_or(|wanted| wanted == name)
        });
        let wanted = of_job.filter(|((.., number), _)| query.above.is_none_or(|above| *number > above));
        let job_data = wanted.take(query.limit).map(|((seq, kind, name, number), body)| JobData {
            seq: *seq,
            kind: *kind,
            name: name.clone(),
            number: *number,
            body: body.clone(),
        });
        Ok(job_data.collect())
    }
}

impl Documents for Tables {
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>> {
        let body = self.documents.get(&(kind, key.to_owned())).cloned();
        Ok(body.map(|body| Document { key: key.to_owned(), body }))
    }

    fn documents_in(&mut self, kind: DocumentKind, range: DocumentRange<'_>) -> EngineResult<Vec<Document>> {
        let from = self.documents.range((kind, range.first_key().into_owned())..);
        let is_inside =
            |found: DocumentKind, key: &str| found == kind && range.before.is_none_or(|before| key < before);
        let wanted = from.take_while(|((found, key), _)| is_inside(*found, key)).take(range.limit);
        Ok(wanted.map(|((_, key), body)| Document { key: key.clone(), body: body.clone() }).collect())
    }

    fn configuration_version(&mut self) -> EngineResult<u64> {
        Ok(self.configuration_version)
    }
}

impl AuditLog for Tables {
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>> {
        // Numbers have no gaps, so a record's number is its position.
        let skipped = usize::try_from(query.after).unwrap_or(usize::MAX);
        let is_before = |record: &&Record| query.before.is_none_or(|before| record.seq < before);
        let later = self.records.iter().skip(skipped).take_while(is_before);
        Ok(later.filter(|record| query.matches(record)).take(query.limit).cloned().collect())
    }
}

impl Counters for Tables {
    fn counts(&mut self) -> EngineResult<&Counts> {
        Ok(&self.counts)
    }

    fn keys_in_use(&mut self, tenant: &Tenant) -> EngineResult<u64> {
        Ok(self.key_counts.in_use(tenant))
    }

    fn jobs_with_keys(&mut self, tenant: &Tenant, keys: &[ConcurrencyKey]) -> EngineResult<Vec<u64>> {
        Ok(keys.iter().map(|key| self.key_counts.jobs_with(tenant, *key)).collect())
    }

    fn all_keys_in_use(&mut self) -> EngineResult<BTreeMap<Tenant, u64>> {
        Ok(self.key_counts.iter().map(|(tenant, keys)| (tenant.clone(), keys.len() as u64)).collect())
    }

    fn numbers(&mut self) -> EngineResult<SequenceNumbers> {
        Ok(SequenceNumbers {
            generation: self.generations_over + 1,
            seq: Seq(self.last_seq + 1),
            record: self.records.len() as u64 + 1,
        })
    }
}

impl Caches for Tables {
    fn cache_generation(&mut self) -> u64 {
        self.cache_generation
    }
}

impl Read for Tables {
    fn committed_at(&mut self) -> EngineResult<Timestamp> {
        Ok(self.committed_at)
    }

    fn export(&mut self) -> Option<&mut dyn Export> {
        Some(self)
    }
}

/// The edges on which `seq` is the dependency.
fn edges_of(edges: &BTreeSet<Edge>, seq: Seq) -> impl Iterator<Item = Edge> {
    let first = Edge { dependency: seq, dependent: Seq(i64::MIN), need: Need::After };
    let last = Edge { dependency: seq, dependent: Seq(i64::MAX), need: Need::AfterAny };
    edges.range(first..=last).copied()
}
