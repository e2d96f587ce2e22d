//! Timers: sets of jobs under the earliest time at which one of them may be due. An entry is written once and only read
//! when its time has come, so that a claimed and finished job costs a few bytes in a shared entry, and no row of its
//! own that comes and goes.

use rustc_hash::FxHashMap;

use super::Tables;
use super::row::ColumnIndexes;
use crate::job::{JobRecord, Seq, WorkerId, acts_at};
use crate::limits;
use crate::store::engine::EngineResult;
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::Column;
use crate::store::engines::sql::columns::{NEVER, worker_codes};

const FRONT: &str = "SELECT at, first, n, part, is_running, seqs FROM @.timers \
     WHERE (at, first, n, part) > ($1, $2, $3, $4) ORDER BY at, first, n, part LIMIT $5";
const RUNNING: &str = "SELECT seqs FROM @.timers WHERE is_running";
const LEASED: &str = "SELECT seqs FROM @.timers WHERE is_running AND worker = ANY($1)";
const PUT: &str = "INSERT INTO @.timers (at, first, n, part, is_running, worker, seqs) \
     SELECT u.at, u.first, $1, u.part, u.is_running <> 0, u.worker, u.seqs \
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[]) \
     u(at, first, part, is_running, worker, seqs)";
const DROP: &str = "DELETE FROM @.timers WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) u(at, first, n, part) CROSS JOIN LATERAL ( \
     SELECT t.ctid AS row FROM @.timers t WHERE t.at = u.at AND t.first = u.first AND t.n = u.n AND t.part = u.part \
     OFFSET 0) o))";

/// Entries read at a time.
const READ_AT_ONCE: i64 = 32;
/// How much later a due job that cannot be read is looked at again, in milliseconds.
const RETRY_AFTER_MS: i64 = 3_600_000;
/// Entries that one query for the next timer may clean up; the answer is then a little early.
const TIDIED_AT_ONCE: usize = 32;
/// Maximum number of jobs in one entry.
const JOBS_PER_ENTRY: usize = limits::TICK_JOBS_PER_COMMIT;

/// The key of an entry: its time, its first job, its commit, its index in it.
type EntryKey = (i64, i64, i64, i64);

/// An entry.
struct Entry {
    key: EntryKey,
    seqs: Vec<i64>,
}

/// A job to be covered by an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Added {
    is_running: bool,
    worker: i64,
    at: i64,
    seq: i64,
}

/// The cached state of the entries.
#[derive(Default)]
pub(in crate::store::engines::postgres) struct Timers {
    /// No entry is before this; `None` if unknown.
    low: Option<i64>,
    added: Vec<Added>,
    /// Jobs whose entry was removed because their time had come, and that were not changed yet.
    uncovered: FxHashMap<i64, Added>,
    /// The entry of each running job, for entries written by this connection.
    members: FxHashMap<i64, EntryKey>,
    /// The entries written by this connection.
    written: FxHashMap<EntryKey, RunningEntry>,
    /// Entries without any remaining job.
    emptied: Vec<EntryKey>,
    /// Entries with few remaining jobs: these are moved to a new one.
    thinned: Vec<EntryKey>,
    part: i64,
    first_added: Option<i64>,
    has_swept: bool,
}

/// An entry of running jobs that this connection wrote.
struct RunningEntry {
    worker: i64,
    seqs: Vec<i64>,
    /// How many of them still run.
    left: usize,
}

/// An entry is rewritten once only one in this many of its jobs still runs: a query for running jobs reads all of them.
const THIN: usize = 8;

/// Maximum number of jobs cached with their entry; beyond that, entries are left until their time comes.
const MEMBERS_MAX: usize = 100_000;

impl Timers {
    /// Clears everything.
    pub(in crate::store::engines::postgres) fn clear(&mut self) {
        *self = Timers::default();
    }

    /// Whether nothing waits to be written.
    pub(in crate::store::engines::postgres) fn is_settled(&self) -> bool {
        self.added.is_empty() && self.uncovered.is_empty() && self.emptied.is_empty()
    }

    /// Applies another node's commit.
    pub(in crate::store::engines::postgres) fn apply_commit(
        &mut self,
        added_at: Option<i64>,
        has_swept: bool,
    ) {
        if let (Some(low), Some(at)) = (&mut self.low, added_at) {
            *low = at.min(*low);
        }
        if has_swept {
            // One of our entries may have been replaced by a later one.
            self.members.clear();
            self.written.clear();
            self.thinned.clear();
        }
    }

    /// What a commit must announce to other nodes.
    pub(in crate::store::engines::postgres) fn take_announcement(&mut self) -> (Option<i64>, bool) {
        self.part = 0;
        (self.first_added.take(), std::mem::take(&mut self.has_swept))
    }

    /// Makes sure that an entry covers a job that has moved. `old` is `None` if it is unknown.
    pub(in crate::store::engines::postgres) fn moved(
        &mut self,
        Seq(seq): Seq,
        old: Option<&ColumnIndexes>,
        new: &ColumnIndexes,
    ) {
        let was_uncovered = self.uncovered.remove(&seq).is_some();
        if new.acts_at == NEVER && !new.is_running {
            return self.leave_entry(seq);
        }
        // Jobs that no longer run leave the entries of running jobs.
        let fits = |at: i64, is_running: bool, worker: i64| {
            at <= new.acts_at && is_running == new.is_running && worker == new.worker
        };
        let is_covered = !was_uncovered
            && (old.is_some_and(|old| old.acts_at != NEVER && fits(old.acts_at, old.is_running, old.worker))
                || self.members.get(&seq).is_some_and(|key| {
                    self.written.get(key).is_some_and(|entry| fits(key.0, true, entry.worker))
                }));
        if !is_covered {
            self.leave_entry(seq);
            let ColumnIndexes { is_running, worker, acts_at, .. } = *new;
            self.added.push(Added { is_running, worker, at: acts_at, seq });
        }
    }

    /// Removes a job.
    pub(in crate::store::engines::postgres) fn removed(&mut self, Seq(seq): Seq) {
        self.uncovered.remove(&seq);
        self.leave_entry(seq);
    }

    fn leave_entry(&mut self, seq: i64) {
        let Some(key) = self.members.remove(&seq) else { return };
        let Some(entry) = self.written.get_mut(&key) else { return };
        entry.left = entry.left.saturating_sub(1);
        if entry.left == 0 {
            self.written.remove(&key);
            self.emptied.push(key);
        } else if entry.left == entry.seqs.len() / THIN {
            self.thinned.push(key);
        }
    }

    fn forget_entry(&mut self, entry: &Entry) {
        if self.written.remove(&entry.key).is_some() {
            for seq in &entry.seqs {
                if self.members.get(seq) == Some(&entry.key) {
                    self.members.remove(seq);
                }
            }
        }
    }

    /// Moves the remaining jobs of thin entries to new ones.
    fn move_thinned(&mut self) {
        for key in std::mem::take(&mut self.thinned) {
            let Some(entry) = self.written.remove(&key) else { continue };
            self.emptied.push(key);
            for seq in entry.seqs {
                if self.members.get(&seq) == Some(&key) {
                    self.members.remove(&seq);
                    self.added.push(Added { is_running: true, worker: entry.worker, at: key.0, seq });
                }
            }
        }
    }

    /// The entries to write, each with whether its jobs run, and their worker.
    fn take_entries(&mut self, now: i64, commit: i64) -> Vec<((bool, i64), Entry)> {
        let mut added = std::mem::take(&mut self.added);
        added.extend(std::mem::take(&mut self.uncovered).into_values());
        added.sort_unstable();
        added.dedup();
        let mut entries: Vec<((bool, i64), Entry)> = Vec::new();
        for Added { is_running, worker, at, seq } in added {
            if let Some((whose, entry)) = entries.last_mut()
                && *whose == (is_running, worker)
                && entry.seqs.len() < JOBS_PER_ENTRY
                // The further in the future, the coarser: jobs that are read too early are sorted more finely then.
                && at <= entry.key.0.saturating_add((entry.key.0 - now).max(0) / 16)
            {
                entry.key.1 = entry.key.1.min(seq);
                entry.seqs.push(seq);
                continue;
            }
            entries
                .push(((is_running, worker), Entry { key: (at, seq, commit, self.part), seqs: vec![seq] }));
            self.part += 1;
        }
        for ((is_running, worker), entry) in &entries {
            self.low = self.low.map(|low| low.min(entry.key.0));
            self.first_added = Some(self.first_added.map_or(entry.key.0, |first| first.min(entry.key.0)));
            if *is_running && self.members.len() < MEMBERS_MAX {
                let (worker, seqs) = (*worker, entry.seqs.clone());
                let written = RunningEntry { worker, left: seqs.len(), seqs };
                self.written.insert(entry.key, written);
                self.members.extend(entry.seqs.iter().map(|seq| (*seq, entry.key)));
            }
        }
        entries
    }
}

impl Tables {
    /// Writes the entries of all jobs that moved.
    pub(in crate::store::engines::postgres) fn write_timers(&mut self) -> EngineResult<()> {
        self.timers.move_thinned();
        let emptied = std::mem::take(&mut self.timers.emptied);
        self.drop_entries(emptied.into_iter())?;
        let commit = self.meta.commit + 1;
        let entries = self.timers.take_entries(self.now, commit);
        if entries.is_empty() {
            return Ok(());
        }
        let mut columns = [(); 5].map(|()| Column::numbers());
        let mut seqs = Column::bytes();
        for ((is_running, worker), entry) in entries {
            let (at, first, _, part) = entry.key;
            let numbers = [at, first, part, i64::from(is_running), worker];
            for (column, number) in columns.iter_mut().zip(numbers) {
                column.number(number);
            }
            seqs.push(&entry.seqs.into_iter().flat_map(i64::to_be_bytes).collect::<Vec<u8>>());
        }
        let [at, first, part, is_running, worker] = columns.map(Into::into);
        self.write(PUT, vec![commit.into(), at, first, part, is_running, worker, seqs.into()], None)
    }

    fn drop_entries(&mut self, keys: impl Iterator<Item = EntryKey>) -> EngineResult<()> {
        let mut columns = [(); 4].map(|()| Column::numbers());
        for (at, first, commit, part) in keys {
            for (column, number) in columns.iter_mut().zip([at, first, commit, part]) {
                column.number(number);
            }
        }
        if columns[0].is_empty() {
            return Ok(());
        }
        self.write(DROP, columns.map(Into::into).into(), None)
    }

    /// Up to `max` jobs with timers due by `now`, in order.
    pub(in crate::store::engines::postgres) fn due_jobs(
        &mut self,
        now: i64,
        max: usize,
    ) -> EngineResult<Vec<JobRecord>> {
        if self.is_writer() && !self.timers.is_settled() {
            self.write_timers()?;
        }
        if self.timers.low.is_some_and(|low| low > now) {
            return Ok(Vec::new());
        }
        let (mut due, mut swept) = (Vec::new(), Vec::new());
        let mut after = (self.timers.low.unwrap_or(i64::MIN), i64::MIN, 0, 0);
        'all: loop {
            let entries = self.read_entries(after)?;
            let is_last = limit_reached(&entries);
            for entry in entries {
                // Its jobs come after those found.
                if entry.key.0 > now
                    || nth(&mut due, max).is_some_and(|last| last < (entry.key.0, entry.key.1))
                {
                    self.timers.low = Some(entry.key.0);
                    break 'all;
                }
                after = entry.key;
                let (jobs, left_out) = self.open_jobs(&entry.seqs)?;
                self.keep_for_retry(left_out, now);
                for job in jobs {
                    let at = acts_at(&job).map_or(NEVER, crate::clock::Timestamp::as_millis);
                    due.push((at, job.seq.0, job));
                }
                swept.push(entry);
            }
            if is_last {
                self.timers.low = Some(NEVER);
                break;
            }
        }
        Ok(self.sort_out(due, &swept, now, max))
    }

    /// Keeps an entry for jobs of due entries that cannot be read now: they may be repaired.
    fn keep_for_retry(&mut self, seqs: Vec<i64>, now: i64) {
        if self.is_writer() {
            let at = now.saturating_add(RETRY_AFTER_MS);
            let again = seqs.into_iter().map(|seq| Added { is_running: false, worker: 0, at, seq });
            self.timers.added.extend(again);
        }
    }

    /// Of the jobs in due entries, those that are due themselves; the others need a new entry.
    fn sort_out(
        &mut self,
        mut found: Vec<(i64, i64, JobRecord)>,
        swept: &[Entry],
        now: i64,
        max: usize,
    ) -> Vec<JobRecord> {
        found.sort_unstable_by_key(|(at, seq, _)| (*at, *seq));
        found.dedup_by_key(|(_, seq, _)| *seq);
        let due = found.partition_point(|(at, ..)| *at <= now).min(max);
        if self.is_writer() {
            for entry in swept {
                self.timers.forget_entry(entry);
            }
            self.timers.emptied.extend(swept.iter().map(|entry| entry.key));
            self.timers.has_swept |= !swept.is_empty();
            for (place, (at, seq, job)) in found.iter().enumerate() {
                let places = ColumnIndexes::new(job);
                let ColumnIndexes { is_running, worker, .. } = places;
                let added = Added { is_running, worker, at: *at, seq: *seq };
                if place < due {
                    self.timers.uncovered.insert(*seq, added);
                } else if *at != NEVER || places.is_running {
                    self.timers.added.push(added);
                }
            }
        } else {
            // Entries that a reader has seen still exist.
            self.timers.low = None;
        }
        found.truncate(due);
        found.into_iter().map(|(.., job)| job).collect()
    }

    /// The earliest time at which any job's timer is due.
    pub(in crate::store::engines::postgres) fn first_due(&mut self) -> EngineResult<Option<i64>> {
        if self.is_writer() && !self.timers.is_settled() {
            self.write_timers()?;
        }
        let mut after = (self.timers.low.unwrap_or(i64::MIN), i64::MIN, 0, 0);
        let mut best: Option<i64> = None;
        let mut swept = Vec::new();
        let mut found = Vec::new();
        'all: loop {
            let entries = self.read_entries(after)?;
            let is_last = limit_reached(&entries);
            for entry in entries {
                if best.is_some_and(|best| best <= entry.key.0) || swept.len() >= TIDIED_AT_ONCE {
                    best = best.into_iter().chain(Some(entry.key.0)).min();
                    break 'all;
                }
                after = entry.key;
                let (jobs, left_out) = self.open_jobs(&entry.seqs)?;
                if !left_out.is_empty() {
                    // Left as it is until its time has come.
                    best = best.into_iter().chain(Some(entry.key.0)).min();
                    continue;
                }
                let moments: Vec<i64> = jobs
                    .iter()
                    .map(|job| acts_at(job).map_or(NEVER, crate::clock::Timestamp::as_millis))
                    .collect();
                let first = moments.iter().copied().min().filter(|at| *at != NEVER);
                best = best.into_iter().chain(first).min();
                if first != Some(entry.key.0) {
                    found.extend(moments.into_iter().zip(jobs).map(|(at, job)| (at, job.seq.0, job)));
                    swept.push(entry);
                }
            }
            if is_last {
                break;
            }
        }
        self.sort_out(found, &swept, i64::MIN, 0);
        Ok(best)
    }

    fn read_entries(&mut self, after: EntryKey) -> EngineResult<Vec<Entry>> {
        let (at, first, commit, part) = after;
        let values = vec![at.into(), first.into(), commit.into(), part.into(), READ_AT_ONCE.into()];
        let rows = self.link.fetch(FRONT, values)?;
        let entry = |row: &tokio_postgres::Row| {
            let key = (get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?);
            Ok(Entry { key, seqs: unpack(get(row, 5)?) })
        };
        rows.iter().map(entry).collect()
    }

    /// The numbers of all running jobs, and of some that no longer run; only those that may be leased to these workers,
    /// if any are given.
    pub(in crate::store::engines::postgres) fn running_seqs(
        &mut self,
        workers: &[WorkerId],
    ) -> EngineResult<Vec<i64>> {
        if self.is_writer() && !self.timers.is_settled() {
            self.write_timers()?;
        }
        let rows = if workers.is_empty() {
            self.link.fetch(RUNNING, Vec::new())?
        } else {
            self.link.fetch(LEASED, vec![Column::from_numbers(worker_codes(workers)).into()])?
        };
        let mut seqs = Vec::new();
        for row in &rows {
            seqs.append(&mut unpack(get(row, 0)?));
        }
        seqs.sort_unstable();
        seqs.dedup();
        Ok(seqs)
    }
}

/// Whether these are the last entries.
fn limit_reached(entries: &[Entry]) -> bool {
    i64::try_from(entries.len()).unwrap_or(i64::MAX) < READ_AT_ONCE
}

/// The time and number of the last of the first `max` jobs, if there are so many.
fn nth(found: &mut [(i64, i64, JobRecord)], max: usize) -> Option<(i64, i64)> {
    let last = max.checked_sub(1).filter(|last| *last < found.len())?;
    let (_, (at, seq, _), _) = found.select_nth_unstable_by_key(last, |(at, seq, _)| (*at, *seq));
    Some((*at, *seq))
}

/// The jobs of an entry.
pub(in crate::store::engines::postgres) fn unpack(seqs: &[u8]) -> Vec<i64> {
    seqs.as_chunks().0.iter().map(|seq| i64::from_be_bytes(*seq)).collect()
}
