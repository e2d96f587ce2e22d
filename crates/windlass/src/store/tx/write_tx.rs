//! A write transaction: the jobs that one group commit has read or changed, before and after. Commands change jobs
//! here; `flush` passes all changes to the engine in bulk. A refused command is undone completely.

mod appended;
mod effects;
mod job_data;
mod key_bounds;
mod liveness;
mod pending;
mod rates;
mod reads;
mod usage;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub(crate) use self::effects::Effects;
use self::job_data::JobDataBuffer;
use self::pending::{Mark, NewParts, Pending};
use crate::audit::Record;
use crate::clock::{Grace, Timestamp};
use crate::error::StoreError;
use crate::job::{JobId, JobMetadata, JobRecord, JobState, Lane, Seq, Spec, Tenant};
use crate::store::command::claim::{AgingHeads, AgingTurns, LaneHeads};
use crate::store::command::generation::LeaseSweep;
use crate::store::documents::cascade::{self, Budget};
use crate::store::documents::config::Config;
use crate::store::documents::counters::CountChanges;
use crate::store::documents::error_stats::new_error;
use crate::store::documents::key_counts::KeyChanges;
use crate::store::engine::{
    CountChange, Document, DocumentKind, Edge, EngineResult, JobDataWrite, Key, KeyChange, KeyHolder, NewRow,
    Write,
};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;

/// A job's pending record, and the state it is stored in.
struct Entry {
    stored: Option<JobState>,
    job: JobRecord,
}

/// The write transaction of one group commit.
pub struct WriteTx<'a> {
    db: &'a mut dyn Write,
    cache: &'a mut ConnectionCache,
    /// The store's clock, randomness and options.
    pub env: &'a Environment,
    /// The time of this commit.
    pub now: Timestamp,
    /// Timers that may not act yet.
    pub(crate) grace: Grace,
    jobs: FxHashMap<Seq, Entry>,
    seqs: FxHashMap<JobId, Seq>,
    dirty: BTreeSet<Seq>,
    pending: Pending,
    job_data: JobDataBuffer,
    effects: Effects,
    /// The remaining budgets for the consequences of this commit's changes, and of earlier commits' changes.
    pub(crate) budgets: [Budget; 2],
    mark: Mark,
    /// Each job before the command changed it, and whether it was already changed; `None` if it was added.
    journal: Vec<(Seq, Option<JobRecord>, bool)>,
    is_beyond_undoing: bool,
    /// Dependents scanned to decide whether jobs may be removed.
    pub(crate) dependents_seen: usize,
    /// The generation before the one that this commit begins, if it begins one.
    pub(crate) generation_before: Option<u64>,
    error: Option<StoreError>,
    /// Whether new jobs are only collected, to be appended.
    is_appending: bool,
    /// Whether jobs cannot be appended because their lane is not known.
    pub(crate) is_lane_unknown: bool,
    /// The trace of the current call, once a record has needed it.
    pub(crate) call_trace: Option<String>,
}

impl<'a> WriteTx<'a> {
    /// A transaction that starts now.
    pub fn new(
        db: &'a mut dyn Write,
        cache: &'a mut ConnectionCache,
        env: &'a Environment,
        now: Timestamp,
    ) -> WriteTx<'a> {
        cache.refresh(db);
        WriteTx {
            db,
            cache,
            env,
            now,
            grace: env.clock.grace(),
            jobs: FxHashMap::default(),
            seqs: FxHashMap::default(),
            dirty: BTreeSet::new(),
            pending: Pending::default(),
            job_data: JobDataBuffer::default(),
            effects: Effects::default(),
            budgets: [Budget::new(env.options.cascade_jobs_per_commit); 2],
            mark: Mark::default(),
            journal: Vec::new(),
            is_beyond_undoing: false,
            dependents_seen: 0,
            generation_before: None,
            error: None,
            is_appending: false,
            is_lane_unknown: false,
            call_trace: None,
        }
    }

    /// Begins a command, or keeps what it did so far: only later changes can be undone.
    pub fn begin(&mut self) {
        self.mark = self.pending.mark();
        self.journal.clear();
        self.is_beyond_undoing = false;
    }

    /// Undoes the command that began last; used when it is refused.
    ///
    /// Changes that were flushed to the engine for an index read cannot be undone alone: the whole group is rolled back
    /// then.
    pub fn undo(&mut self) {
        if self.is_beyond_undoing {
            let message = "a command failed half-way and was rolled back with its group: try again";
            self.error.get_or_insert_with(|| StoreError::Database(message.into()));
        }
        while let Some((seq, previous, was_dirty)) = self.journal.pop() {
            match previous {
                Some(job) => {
                    if let Some(entry) = self.jobs.get_mut(&seq) {
                        entry.job = job;
                    }
                    if !was_dirty {
                        self.dirty.remove(&seq);
                    }
                }
                None => self.evict(seq),
            }
        }
        let (mark, pending) = (self.mark, &mut self.pending);
        pending.inserts.truncate(mark.inserts);
        pending.edges.truncate(mark.edges);
        pending.job_data.truncate(mark.job_data);
        pending.released.truncate(mark.released);
        pending.metadata.truncate(mark.metadata);
        pending.removed.truncate(mark.removed);
        pending.cascades.truncate(mark.cascades);
        pending.records.truncate(mark.records);
        self.job_data.undone(&self.pending.job_data);
    }

    fn evict(&mut self, seq: Seq) {
        if let Some(entry) = self.jobs.remove(&seq) {
            self.seqs.remove(&entry.job.id);
        }
        self.dirty.remove(&seq);
    }

    /// Records an engine error: the whole group must be rolled back.
    pub(crate) fn abort(&mut self, error: &StoreError) {
        self.error.get_or_insert_with(|| error.clone());
    }

    /// The engine error, if there was one; the whole group must then be rolled back.
    pub fn error(&self) -> Option<&StoreError> {
        self.error.as_ref()
    }

    /// The engine, after flushing all pending changes: for reads that use an index.
    pub fn db(&mut self) -> EngineResult<&mut dyn Write> {
        self.flush()?;
        Ok(self.db)
    }

    /// The engine without flushing, for reads that pending changes cannot affect.
    pub(in crate::store) fn raw<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Write) -> EngineResult<T>,
    ) -> EngineResult<T> {
        work(self.db).inspect_err(|error| {
            self.error.get_or_insert_with(|| error.clone());
        })
    }

    /// How far running jobs were scanned for leases of an earlier generation.
    pub(crate) fn lease_sweep(&self) -> LeaseSweep {
        self.cache.lease_sweep
    }

    /// Stores how far they were scanned; discarded if the commit fails.
    pub(crate) fn set_lease_sweep(&mut self, sweep: LeaseSweep) {
        self.cache.lease_sweep = sweep;
    }

    /// The current configuration.
    pub fn config(&mut self) -> EngineResult<Arc<Config>> {
        self.cache.config(self.db)
    }

    /// One document. Documents are written immediately, so there are no pending changes to them.
    pub(crate) fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>> {
        self.raw(|db| db.document(kind, key))
    }

    /// Writes a document; `change` applies the same change to the configuration in memory.
    pub fn put_document(
        &mut self,
        kind: DocumentKind,
        key: &str,
        body: Option<&[u8]>,
        change: impl FnOnce(&mut Config),
    ) -> EngineResult<()> {
        if kind.is_configuration() {
            self.config()?;
        }
        self.raw(|db| db.put_document(kind, key, body))?;
        if kind.is_configuration() {
            let version = self.raw(|db| db.configuration_version())?;
            self.cache.change_config(version, change);
        }
        Ok(())
    }

    /// The jobs with these ids, in this order. One that cannot be read counts as missing: work on others continues.
    pub fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<Seq>>> {
        for id in ids {
            if !self.seqs.contains_key(id)
                && let Some(job) = self.cache.running(*id).cloned()
            {
                self.cache_job(job);
            }
        }
        let unknown: Vec<JobId> = ids.iter().filter(|id| !self.seqs.contains_key(id)).copied().collect();
        if !unknown.is_empty() {
            for job in self.raw(|db| reads::find_each(db, &unknown))? {
                self.cache_job(job);
            }
        }
        Ok(ids.iter().map(|id| self.seqs.get(id).copied()).collect())
    }

    /// Loads these jobs in one query.
    pub fn load(&mut self, seqs: &[Seq]) -> EngineResult<()> {
        let unknown: Vec<Seq> = seqs.iter().filter(|seq| !self.jobs.contains_key(seq)).copied().collect();
        if !unknown.is_empty() {
            for job in self.raw(|db| db.load(&unknown))?.into_iter().flatten() {
                self.cache_job(job);
            }
        }
        Ok(())
    }

    /// Caches a job that an index read returned; a job that was already changed here is kept as it is.
    pub fn cache_job(&mut self, job: JobRecord) -> Seq {
        let seq = job.seq;
        self.seqs.insert(job.id, seq);
        self.jobs.entry(seq).or_insert_with(|| Entry { stored: Some(job.state), job });
        seq
    }

    /// The job with this sequence number, with pending changes; `None` if there is no such job.
    pub fn job(&mut self, seq: Seq) -> EngineResult<Option<&JobRecord>> {
        self.load(&[seq])?;
        Ok(self.jobs.get(&seq).map(|entry| &entry.job))
    }

    /// Changes a job.
    pub fn put(&mut self, job: JobRecord) {
        let seq = job.seq;
        let entry = self.jobs.get_mut(&seq).expect("a job is loaded before it is changed");
        let previous = std::mem::replace(&mut entry.job, job);
        self.note_change(&previous, seq);
        let was_dirty = !self.dirty.insert(seq);
        self.journal.push((seq, Some(previous), was_dirty));
    }

    fn note_change(&mut self, previous: &JobRecord, seq: Seq) {
        let job = &self.jobs[&seq].job;
        if job.state == JobState::Scheduled && !job.is_blocked {
            self.effects.work.add(&job.lane);
        }
        if job.state.is_final() {
            self.effects.ended(job.id);
            if self.env.pruning.reaches(job.state, seq) {
                self.effects.late_ends.push((job.state, seq));
            }
        }
        self.cache.rates.count(Some(previous), job, self.now);
        if let Some(error) = new_error(previous, job) {
            let version = previous.lease.and_then(|lease| self.cache.version_of(lease.worker));
            self.cache.rates.count_error(job, error, version, self.now);
        }
        self.cache.written(job);
    }

    /// The shared instance of a lane: lanes are compared quickly by pointer.
    pub fn intern_lane(&mut self, lane: Lane) -> Arc<Lane> {
        self.cache.intern_lane(lane)
    }

    /// When each lane's aging was last compared.
    pub(in crate::store) fn aging_turns(&mut self) -> &mut AgingTurns {
        &mut self.cache.aging_turns
    }

    /// Where the priorities of lanes whose jobs age begin, as far as changes are flushed.
    pub(in crate::store) fn aging_heads(&mut self) -> &mut AgingHeads {
        &mut self.cache.aging_heads
    }

    /// Where other lanes begin, as far as changes are flushed.
    pub(in crate::store) fn lane_heads(&mut self) -> &mut LaneHeads {
        &mut self.cache.lane_heads
    }

    /// The first of `count` new sequence numbers.
    pub fn allocate(&mut self, count: usize) -> EngineResult<Seq> {
        self.raw(|db| db.allocate(count))
    }

    /// Inserts a job.
    pub fn insert(&mut self, job: JobRecord, spec: Spec, keys: Vec<(Key, KeyHolder)>) {
        let seq = job.seq;
        if job.state == JobState::Scheduled {
            self.effects.work.add(&job.lane);
        }
        self.effects.has_ends |= job.state.is_final();
        self.cache.rates.count(None, &job, self.now);
        self.cache.written(&job);
        self.raise_key_bound(&job);
        self.seqs.insert(job.id, seq);
        self.journal.push((seq, None, false));
        self.jobs.insert(seq, Entry { stored: None, job });
        self.pending.inserts.push(NewParts { seq, spec, keys });
    }

    /// Removes a job and its data.
    pub fn remove(&mut self, seq: Seq) {
        self.pending.removed.push(seq);
    }

    /// Adds a dependency between two jobs.
    pub fn link(&mut self, edge: Edge) {
        self.pending.edges.push(edge);
    }

    /// Releases a key.
    pub fn release_key(&mut self, key: Key) {
        self.pending.released.push(key);
    }

    /// Changes job data.
    pub fn write_job_data(&mut self, write: JobDataWrite) {
        self.job_data.written(&write, self.pending.job_data.len());
        self.pending.job_data.push(write);
    }

    /// Replaces the metadata that clients may change.
    pub fn set_metadata(&mut self, seq: Seq, metadata: JobMetadata) {
        self.pending.metadata.push((seq, metadata));
    }

    /// Notifies subscribers of a change: of one tenant's jobs, or of all tenants if `None`.
    pub fn announce(&mut self, tenant: Option<&Tenant>) {
        self.env.feed.note(&mut self.effects.change, tenant);
    }

    /// Adds a record to the audit trail, or only to the live feed if it is not kept.
    pub fn record(&mut self, record: Record, is_kept: bool) {
        if is_kept || self.env.feed.has_listeners() {
            self.pending.records.push((record, is_kept));
        }
    }

    /// Writes all pending changes to the engine.
    pub fn flush(&mut self) -> EngineResult<()> {
        let result = self.flush_all();
        if let Err(error) = &result {
            self.error.get_or_insert_with(|| error.clone());
        }
        result
    }

    fn flush_all(&mut self) -> EngineResult<()> {
        let is_idle = self.dirty.is_empty() && self.pending.mark() == Mark::default();
        if is_idle {
            return Ok(());
        }
        self.is_beyond_undoing |= !self.journal.is_empty() || self.pending.mark() != self.mark;
        let (mut counts, mut keys) = (CountChanges::default(), KeyChanges::default());
        let mut pending = std::mem::take(&mut self.pending);
        if !pending.inserts.is_empty() {
            let mut rows = Vec::with_capacity(pending.inserts.len());
            for new in std::mem::take(&mut pending.inserts) {
                let entry = self.jobs.get_mut(&new.seq).expect("an added job is at hand");
                counts.add(&entry.job.lane, entry.job.state, 1);
                keys.add(&entry.job, None, Some(entry.job.state));
                entry.stored = Some(entry.job.state);
                self.dirty.remove(&new.seq);
                rows.push(NewRow { job: entry.job.clone(), spec: new.spec, keys: new.keys });
            }
            self.db.insert(&rows)?;
            for row in &rows {
                self.cache.added(&row.job);
            }
        }
        if !self.dirty.is_empty() {
            let mut changed = Vec::with_capacity(self.dirty.len());
            for seq in std::mem::take(&mut self.dirty) {
                let entry = self.jobs.get_mut(&seq).expect("a changed job is at hand");
                if let Some(stored) = entry.stored.replace(entry.job.state)
                    && stored != entry.job.state
                {
                    counts.add(&entry.job.lane, stored, -1);
                    counts.add(&entry.job.lane, entry.job.state, 1);
                    keys.add(&entry.job, Some(stored), Some(entry.job.state));
                }
                changed.push(entry.job.clone());
            }
            self.db.update(&changed)?;
            for job in &changed {
                self.cache.stored(job);
            }
        }
        for seq in &pending.removed {
            if let Some(entry) = self.jobs.get(seq) {
                counts.add(&entry.job.lane, entry.job.state, -1);
                keys.add(&entry.job, Some(entry.job.state), None);
            }
            self.evict(*seq);
        }
        self.write_rest(pending, &counts.into_changes(), &keys.into_changes())
    }

    fn write_rest(
        &mut self,
        pending: Pending,
        counts: &[CountChange],
        keys: &[KeyChange],
    ) -> EngineResult<()> {
        let db = &mut *self.db;
        if !pending.metadata.is_empty() {
            db.set_metadata(&pending.metadata)?;
        }
        if !pending.edges.is_empty() {
            db.link(&pending.edges)?;
        }
        if !pending.job_data.is_empty() {
            db.write_job_data(&pending.job_data)?;
            self.job_data_flushed(&pending.job_data);
        }
        let db = &mut *self.db;
        if !pending.released.is_empty() {
            db.release_keys(&pending.released)?;
        }
        if !pending.cascades.is_empty() {
            db.put_documents(DocumentKind::Cascade, &cascade::documents(&pending.cascades))?;
        }
        if !pending.removed.is_empty() {
            db.remove(&pending.removed, self.now)?;
            self.job_data.removed(&pending.removed);
        }
        if !pending.records.is_empty() {
            let kept = pending.records.iter().filter(|(_, is_kept)| *is_kept);
            let mut kept: Vec<Record> = kept.map(|(record, _)| record.clone()).collect();
            db.append(&mut kept)?;
            if self.env.feed.has_listeners() {
                let mut kept = kept.into_iter();
                let numbered = pending
                    .records
                    .into_iter()
                    .filter_map(|(record, is_kept)| if is_kept { kept.next() } else { Some(record) });
                self.effects.records.extend(numbered);
            }
        }
        if !counts.is_empty() {
            db.count(counts)?;
        }
        if !keys.is_empty() {
            db.count_keys(keys)?;
        }
        self.mark = Mark::default();
        self.journal.clear();
        Ok(())
    }

    /// Writes the remaining changes and returns what to announce after the commit.
    pub fn finish(mut self) -> EngineResult<Effects> {
        self.flush()?;
        self.write_usage()?;
        self.write_rates()?;
        Ok(self.effects)
    }
}
