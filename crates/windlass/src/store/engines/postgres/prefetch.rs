//! Prefetching: a claim begins by reading the front of the same lanes as the previous one, so that query is sent along
//! with the beginning of the transaction. Its result is valid only as long as `ready` has not changed since. Specs are
//! read with the jobs, not afterwards. In the same way, whether any timer document is due is read in advance, in case
//! other nodes have set one.

use rustc_hash::FxHashMap;
use tokio_postgres::Row;

use super::connection::{Question, get};
use super::parameter::{Column, Parameter};
use super::tables::document;
use super::tables::query::by_id;
use crate::job::{JobId, JobRecord, Seq, Spec};
use crate::store::engine::{Document, DocumentKind, EngineResult, NewRow, WriteTask};
use crate::store::engines::sql::columns::limit;
use crate::store::tx::cache::ConnectionCache;

/// Unordered: sorting whole rows costs the server half as much again as finding them.
const READY: &str = "SELECT h.seq, h.id, h.lane, h.policy, h.record, h.ctid, c.place, r.row FROM \
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY c(lane, rank, at, seq, place) \
     CROSS JOIN LATERAL (SELECT r.rank, r.at, r.seq, r.ctid AS row FROM @.ready r WHERE r.lane = c.lane \
     AND (r.rank, r.at, r.seq) > (c.rank, c.at, c.seq) ORDER BY r.rank, r.at, r.seq LIMIT $5) r \
     CROSS JOIN LATERAL (SELECT h.*, h.ctid FROM @.hot h WHERE h.seq = r.seq OFFSET 0) h";
/// The same with the specs. Large payloads are left out until it is known which jobs are taken.
const READY_WHOLE: &str = "SELECT h.seq, h.id, h.lane, h.policy, h.record, h.ctid, c.place, r.row, j.owner, j.content_type, \
     j.idempotency_key, j.unique_key, j.concurrency_key, j.tags, j.correlation_id, j.callback_url, j.traceparent, \
     j.after, j.after_any, j.\"check\", j.payload FROM \
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY c(lane, rank, at, seq, place) \
     CROSS JOIN LATERAL (SELECT r.rank, r.at, r.seq, r.ctid AS row FROM @.ready r WHERE r.lane = c.lane \
     AND (r.rank, r.at, r.seq) > (c.rank, c.at, c.seq) ORDER BY r.rank, r.at, r.seq LIMIT $5) r \
     CROSS JOIN LATERAL (SELECT h.*, h.ctid FROM @.hot h WHERE h.seq = r.seq OFFSET 0) h \
     LEFT JOIN LATERAL (SELECT * FROM @.jobs j WHERE j.seq = r.seq AND octet_length(j.payload) <= 8192 OFFSET 0) j ON true";
/// Number of lanes up to which specs are read with the jobs: of more lanes most jobs are only compared.
const WHOLE_LANES_MAX: usize = 4;
/// Maximum number of new jobs that are added to what was prefetched: beside more it is read again.
pub(super) const ENTERED_MAX: usize = 64;
/// The index of the first spec column in a row.
const SPEC_AT: usize = 8;

/// What a group of tasks is going to read first.
#[derive(Default, Clone)]
pub(super) struct PrefetchHints {
    /// The number of tasks.
    pub(super) tasks: usize,
    /// The number of claimable jobs.
    pub(super) claims: usize,
    /// The jobs that are looked up by id.
    pub(super) names: Vec<JobId>,
}

impl PrefetchHints {
    /// The hints of these tasks. Jobs in the cache are not looked up.
    pub(super) fn new(tasks: &[Box<dyn WriteTask>], cache: &ConnectionCache) -> PrefetchHints {
        let claims = tasks.iter().map(|task| task.claims()).max().unwrap_or(0);
        let names = tasks.iter().flat_map(|task| task.names()).copied();
        let names = names.filter(|id| cache.running(*id).is_none()).collect();
        PrefetchHints { tasks: tasks.len(), claims, names }
    }

    /// What these need beyond those of fewer tasks.
    pub(super) fn beyond(&self, fewer: &PrefetchHints) -> PrefetchHints {
        let claims = if self.claims > fewer.claims { self.claims } else { 0 };
        // Later tasks are behind the first ones.
        let names = self.names.iter().skip(fewer.names.len()).copied().collect();
        PrefetchHints { tasks: self.tasks.saturating_sub(fewer.tasks), claims, names }
    }
}

/// A read of the front of lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimPrefetch {
    /// Each lane, with the rank, the time and the number after which to read.
    pub(super) spots: Vec<[i64; 4]>,
    /// How many jobs of each lane.
    pub(super) each: usize,
}

impl ClaimPrefetch {
    fn is_whole(&self) -> bool {
        self.spots.len() <= WHOLE_LANES_MAX
    }

    /// The statement.
    pub(super) fn sql(&self) -> &'static str {
        if self.is_whole() { READY_WHOLE } else { READY }
    }

    /// The values of that statement.
    pub(super) fn values(&self) -> Vec<Parameter> {
        self.columns().into_iter().chain([limit(self.each).into()]).collect()
    }

    /// The positions, as columns.
    pub(super) fn columns(&self) -> [Parameter; 4] {
        [0, 1, 2, 3].map(|at| Column::from_numbers(self.spots.iter().map(|spot| spot[at])).into())
    }
}

/// What is read first, in this order.
pub(super) struct Plan {
    /// Claimable jobs.
    pub(super) claim: Option<ClaimPrefetch>,
    /// Jobs by id.
    pub(super) names: Vec<JobId>,
    /// The first document of a kind.
    pub(super) timers: Option<DocumentKind>,
}

impl Plan {
    /// The statements.
    pub(super) fn questions(&self) -> Vec<Question<'static>> {
        let mut questions = Vec::new();
        questions.extend(self.claim.iter().map(|claim| (claim.sql(), claim.values())));
        questions.extend((!self.names.is_empty()).then(|| by_id(&self.names)));
        questions.extend(self.timers.map(document::first));
        questions
    }
}

/// The front of lanes, as prefetched.
pub(super) struct Front {
    asked: ClaimPrefetch,
    rows: Vec<Row>,
    /// Jobs that were added since, each with the place of its lane.
    entered: Vec<Entered>,
}

/// A job that was added, with the place of its lane.
type Entered = (usize, JobRecord);

/// What one transaction leaves for the next to prefetch, and the result.
#[derive(Default)]
pub(super) struct Prefetch {
    /// The lanes that the last claim read first, and how many jobs of each.
    habit: Option<(Vec<i64>, usize)>,
    is_habit: bool,
    /// Whether a claim has read in this transaction.
    has_claimed: bool,
    /// What was prefetched with the beginning of this transaction, and the result.
    found: Option<Front>,
    specs: FxHashMap<Seq, Spec>,
    /// Jobs looked up with the beginning of this transaction; `None` where there is no such job.
    jobs: FxHashMap<JobId, Option<JobRecord>>,
    /// The kind of document to prefetch.
    documents: Option<DocumentKind>,
    /// The first document of a kind, if any, if that was prefetched and is still valid.
    first_document: Option<(DocumentKind, Vec<Document>)>,
}

impl Prefetch {
    /// Where the next claim will probably read first, for so many jobs.
    pub(super) fn habit(&self, wanted: usize) -> Option<(&[i64], usize)> {
        let (lanes, each) = self.habit.as_ref()?;
        let each = if lanes.len() == 1 { wanted + 1 } else { *each };
        (wanted > 0 && self.is_habit).then_some((lanes.as_slice(), each))
    }

    /// The kind whose first document will probably be read.
    pub(super) fn documents(&self) -> Option<DocumentKind> {
        self.documents
    }

    /// Stores the first document of a kind, or that there is none.
    pub(super) fn keep_document(&mut self, kind: DocumentKind, first: Vec<Document>) {
        self.first_document = Some((kind, first));
    }

    /// Invalidates the result after a document was written.
    pub(super) fn document_moved(&mut self, kind: DocumentKind) {
        self.first_document.take_if(|(known, _)| *known == kind);
    }

    /// Whether it is known that there is no document of this kind before a key.
    pub(super) fn has_none_before(&mut self, kind: DocumentKind, end: &str) -> bool {
        self.documents = Some(kind);
        let known = self.first_document.as_ref().filter(|(known, _)| *known == kind);
        known.is_some_and(|(_, first)| first.first().is_none_or(|document| document.key.as_str() >= end))
    }

    /// Stores jobs that were looked up by these ids.
    pub(super) fn keep_jobs(&mut self, jobs: Vec<JobRecord>, names: &[JobId]) {
        self.jobs.extend(names.iter().map(|id| (*id, None)));
        self.jobs.extend(jobs.into_iter().map(|job| (job.id, Some(job))));
    }

    /// Whether a job was looked up.
    pub(super) fn has_looked_up(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    /// Those of these jobs that were looked up and found.
    pub(super) fn jobs(&mut self, ids: &[JobId]) -> FxHashMap<JobId, JobRecord> {
        ids.iter().filter_map(|id| Some((*id, self.jobs.get_mut(id)?.clone()?))).collect()
    }

    /// Stores the result of a prefetched read.
    pub(super) fn keep(&mut self, wanted: ClaimPrefetch, rows: Vec<Row>) {
        self.found = Some(Front { asked: wanted, rows, entered: Vec::new() });
    }

    /// Takes out what was prefetched, to be put back with jobs that are about to be added.
    pub(super) fn take_front(&mut self, count: usize) -> Option<Front> {
        self.found.take_if(|front| front.entered.len() + count <= ENTERED_MAX)
    }

    /// Puts it back with the jobs that were added to these lanes. A job before the position where a lane was read has
    /// lowered the lane's bound, and what is wanted then is another read.
    pub(super) fn put_back<'r>(&mut self, front: Front, new: impl Iterator<Item = (i64, &'r NewRow)>) {
        let front = self.found.insert(front);
        for (lane, NewRow { job, spec, .. }) in new {
            let place = front.asked.spots.iter().position(|[known, ..]| *known == lane);
            if let Some(place) = place {
                front.entered.push((place, job.clone()));
                self.specs.insert(job.seq, spec.clone());
            }
        }
    }

    /// The result of a read, if it was prefetched and is still valid, and the jobs that were added since, each with the place of
    /// its lane; there may be more jobs of a lane than requested.
    pub(super) fn take(&mut self, wanted: &ClaimPrefetch) -> EngineResult<Option<(Vec<Row>, Vec<Entered>)>> {
        let Some(Front { asked, rows, entered }) = self.found.take() else { return Ok(None) };
        if asked.spots != wanted.spots {
            return Ok(None);
        }
        let mut counts = vec![0; wanted.spots.len()];
        for row in &rows {
            if let Some(count) = counts.get_mut(place(row)?) {
                *count += 1;
            }
        }
        let is_enough = wanted.each <= asked.each || counts.iter().all(|count| *count < asked.each);
        Ok(is_enough.then_some((rows, entered)))
    }

    /// Records what the first claim of a transaction read first.
    pub(super) fn record_use(&mut self, wanted: &ClaimPrefetch) {
        if std::mem::replace(&mut self.has_claimed, true) {
            return;
        }
        let lanes: Vec<i64> = wanted.spots.iter().map(|[lane, ..]| *lane).collect();
        self.is_habit = self.habit.as_ref().is_some_and(|(known, _)| *known == lanes);
        self.habit = Some((lanes, wanted.each));
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self) {
        self.clear();
        self.has_claimed = false;
    }

    /// Stores the spec if it was read with the job.
    pub(super) fn read_spec(&mut self, wanted: &ClaimPrefetch, row: &Row, seq: Seq) -> EngineResult<()> {
        if wanted.is_whole() && get::<Option<&[u8]>>(row, SPEC_AT)?.is_some() {
            // A damaged one is reported when it is taken, not when it is only prefetched.
            if let Ok(spec) = super::tables::query::read_spec(row, SPEC_AT, seq) {
                self.specs.insert(seq, spec);
            }
        }
        Ok(())
    }

    /// Stores a spec.
    pub(super) fn keep_spec(&mut self, seq: Seq, spec: Spec) {
        self.specs.insert(seq, spec);
    }

    /// Whether the spec was prefetched.
    pub(super) fn has_spec(&self, seq: Seq) -> bool {
        self.specs.contains_key(&seq)
    }

    /// The spec, if it was prefetched.
    pub(super) fn take_spec(&mut self, seq: Seq) -> Option<Spec> {
        self.specs.remove(&seq)
    }

    /// Invalidates what was read from `ready`, because it has changed.
    pub(super) fn found_otherwise(&mut self) {
        self.found = None;
    }

    /// Invalidates everything.
    pub(super) fn clear(&mut self) {
        self.found = None;
        self.first_document = None;
        self.specs.clear();
        self.jobs.clear();
    }
}

/// The index of a row's lane in the read that found it.
pub(super) fn place(row: &Row) -> EngineResult<usize> {
    Ok(usize::try_from(get::<i64>(row, 6)? - 1).unwrap_or(usize::MAX))
}
