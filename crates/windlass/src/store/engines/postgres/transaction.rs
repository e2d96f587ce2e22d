//! Transactions: one writer at a time across all nodes, by a lock of the whole store that is held until the commit; and
//! snapshots for readers. Commits of other nodes are read from `commits`.

mod counts;
pub(super) mod durability;

use std::time::Duration;

use tokio_postgres::Row;

use super::connection::cluster::Loss;
use super::connection::{Asked, Question, get};
use super::migrate;
use super::node_cache::{Commit, Meta};
use super::parameter::Parameter;
use super::prefetch::{ClaimPrefetch, Plan, PrefetchHints};
use super::sql_submit::InboxState;
use super::tables::document;
use super::tables::{Access, Tables};
use crate::clock::{Deadline, whole_millis};
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::{EngineResult, WriteTask};
use crate::store::engines::sql::columns::limit;
use crate::store::engines::sql::task_queue::TaskQueue;

/// The limits are set with every transaction rather than with the connection, which a pooler may share. Generic plans:
/// every statement names its rows, so the plan that uses the index is the right one however small a table was when it
/// was planned.
const BEGIN_WRITE: &str = "SELECT set_config('lock_timeout', $2, true), set_config('statement_timeout', $3, true), \
     set_config('idle_in_transaction_session_timeout', $4, true), set_config('jit', 'off', true), \
     set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), \
     set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
     set_config('enable_bitmapscan', 'off', true), set_config('enable_memoize', 'off', true), \
     set_config('max_parallel_workers_per_gather', '0', true), \
     set_config('synchronous_commit', CASE WHEN $5 AND current_setting('synchronous_standby_names') = '' THEN 'off' \
     WHEN current_setting('synchronous_commit') = 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true), \
     pg_advisory_xact_lock($1)";
const SNAPSHOT: &str = "SELECT set_config('statement_timeout', $1, true), \
     set_config('idle_in_transaction_session_timeout', $2, true), set_config('jit', 'off', true), \
     set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), \
     set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
     set_config('enable_bitmapscan', 'off', true), set_config('enable_memoize', 'off', true), \
     set_config('max_parallel_workers_per_gather', '0', true)";
/// The latest commits after a known one, and that one itself, however many there are in between.
const SINCE: &str = "SELECT n, nonce, at, next_seq, next_record, config_version, counts_base, lowered, timer_at, \
     has_swept, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (SELECT max(works_with) FROM @.migrations), \
     generation, is_early, appends_from, running FROM ((SELECT * FROM @.commits WHERE n > $1 ORDER BY n DESC LIMIT $2) \
     UNION ALL (SELECT * FROM @.commits WHERE n = $1)) latest ORDER BY n DESC";
const FATE: &str = "SELECT nonce FROM @.commits WHERE n = $1";
const COMMIT: &str = "INSERT INTO @.commits (n, nonce, at, next_seq, next_record, config_version, counts_base, lowered, \
     timer_at, has_swept, generation, is_early, absorbed, appends_from, running) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
/// The first existing row from a number on, and the first one that is too young to be removed, or else the one after
/// the last row read.
const OLDEST: &str = "SELECT min(n), coalesce(min(n) FILTER (WHERE at >= $2), max(n) + 1) \
     FROM (SELECT n, at FROM @.commits WHERE n >= $1 ORDER BY n LIMIT $3) oldest";
const FORGET: &str = "DELETE FROM @.commits WHERE n >= $1 AND n < $2";

/// Maximum number of other nodes' commits that are read one by one; after more than that everything is read again.
const COMMITS_READ_MAX: i64 = 256;
/// How often old commits are removed, in commits.
const TIDY_EVERY: i64 = 256;

/// How often reads are sent behind the first ones for tasks that join; after that all others get one more message.
const JOINED_MAX: usize = 4;

/// The outcome of a commit whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitFate {
    /// It is in the database.
    Made,
    /// It never will be: its number belongs to another commit, or is unused while the lock is held.
    NotMade,
    /// Commits of that time were removed: the outcome cannot be determined.
    Forgotten,
}

impl Tables {
    /// Begins a transaction that holds the store's lock; returns the database's time. The first reads are sent along
    /// with the beginning: no round trip passes between the lock and what is read under it. If other nodes are active,
    /// `needs` is asked again whenever something is `arriving` during the wait for the lock, and what that needs is
    /// sent at once, behind the first reads.
    pub(super) fn begin_write(
        &mut self,
        lock: i64,
        arriving: Option<&TaskQueue<Box<dyn WriteTask>>>,
        mut needs: impl FnMut() -> PrefetchHints,
    ) -> EngineResult<i64> {
        self.clear_transaction();
        self.inbox_state = InboxState::default();
        let is_contended = self.is_shared;
        self.durability.is_early = self.durability.can_release_early && is_contended;
        if self.durability.is_early {
            self.prepare_barrier()?;
        }
        self.link.send_plain("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
        // A waiter for the lock must be answered in time; 0 would mean no limit.
        let wait_limit = self.link.waits.until.map_or(limits::LOCK_WAIT_MAX, Deadline::left);
        let lock_wait = wait_limit.clamp(Duration::from_millis(1), limits::LOCK_WAIT_MAX);
        let (call_max, idle_max) = (millis(limits::CALL_MAX), millis(self.idle_max));
        let values = vec![
            lock.into(),
            millis(lock_wait),
            call_max,
            idle_max,
            Parameter::Truth(self.durability.is_early),
        ];
        self.link.send(BEGIN_WRITE, values, None)?;
        self.begin_appends()?;
        let mut known = needs();
        let first = self.plan(known.clone());
        let arriving = arriving.filter(|_| is_contended);
        let mut joined: Vec<(Plan, Asked)> = Vec::new();
        let (now, answers) = self.apply_foreign_commits(true, first.questions(), |tables, mut asked| {
            while let Some(arriving) = arriving
                && joined.len() < JOINED_MAX
                && !tables.link.are_answered_before(&mut asked, arriving.arrival())
            {
                joined.extend(tables.ask_beyond(&mut known, needs())?);
            }
            tables.link.answers(asked)
        })?;
        self.is_shared |= std::mem::take(&mut self.has_looked_past_others);
        self.keep(first, answers);
        if joined.len() == JOINED_MAX {
            // More may have come than was asked for.
            joined.extend(self.ask_beyond(&mut known, needs())?);
        }
        for (plan, asked) in joined {
            // The last answer is what was appended. Tasks that joined may come after submissions that were appended and
            // answered since the first look. No other node takes those in while the lock is held, so a later look finds
            // what an earlier one did.
            let mut answers = self.link.answers(asked)?;
            self.appends.found = answers.pop().unwrap_or_default();
            self.keep(plan, answers);
        }
        Ok(now)
    }

    /// Sends the reads of tasks that have joined since `known`, if there are any.
    fn ask_beyond(
        &mut self,
        known: &mut PrefetchHints,
        all: PrefetchHints,
    ) -> EngineResult<Option<(Plan, Asked)>> {
        let late = all.beyond(known);
        *known = all;
        if late.tasks == 0 {
            return Ok(None);
        }
        let plan = self.plan(late);
        let mut questions = plan.questions();
        questions.push(self.ask_for_appends());
        let asked = self.link.ask(questions)?;
        Ok(Some((plan, asked)))
    }

    /// What to read first for these tasks. Without other nodes, this connection has cached what it needs of the jobs that it
    /// claimed, and when the first timer is due.
    fn plan(&self, needs: PrefetchHints) -> Plan {
        let PrefetchHints { claims, names, .. } = needs;
        Plan {
            claim: self.plan_prefetch(claims),
            names: if self.is_shared { names } else { Vec::new() },
            timers: self.ahead.documents().filter(|_| self.is_shared && claims > 0),
        }
    }

    /// Stores the answers to what was planned.
    fn keep(&mut self, plan: Plan, answers: Vec<Vec<Row>>) {
        let mut answers = answers.into_iter();
        if let Some(prefetch) = plan.claim {
            self.ahead.keep(prefetch, answers.next().unwrap_or_default());
        }
        if !plan.names.is_empty() {
            // A damaged one is reported to the command that looks for it.
            let rows = answers.next().unwrap_or_default();
            if let Ok(jobs) = self.read_jobs(&rows) {
                self.ahead.keep_jobs(jobs, &plan.names);
            }
        }
        if let Some(kind) = plan.timers {
            let rows = answers.next().unwrap_or_default();
            // A damaged one is reported when it is needed.
            if let Ok(first) = rows.iter().map(|row| document::read(kind, row)).collect::<EngineResult<_>>() {
                self.ahead.keep_document(kind, first);
            }
        }
    }

    /// If another node has added to a lane before the position where the prefetch begins, the lane's bound shows it by
    /// the time of the claim, and the prefetch is not used.
    fn plan_prefetch(&self, claims: usize) -> Option<ClaimPrefetch> {
        let (lanes, each) = self.ahead.habit(claims)?;
        Some(ClaimPrefetch { spots: lanes.iter().map(|lane| self.floors.spot(*lane)).collect(), each })
    }

    /// Begins a snapshot of the writer, to find out without the lock whether there is anything to write.
    pub(super) fn begin_writer_snapshot(&mut self) -> EngineResult<i64> {
        self.inbox_state = InboxState::default();
        self.begin_snapshot(false)?;
        let (now, _) =
            self.apply_foreign_commits(true, Vec::new(), |tables, asked| tables.link.answers(asked))?;
        self.has_looked_past_others |= self.is_shared;
        self.access = Access::WriterSnapshot;
        Ok(now)
    }

    /// Begins a snapshot.
    pub(super) fn begin_read(&mut self, is_long: bool) -> EngineResult<i64> {
        self.begin_snapshot(is_long)?;
        Ok(self.apply_foreign_commits(false, Vec::new(), |tables, asked| tables.link.answers(asked))?.0)
    }

    fn begin_snapshot(&mut self, is_long: bool) -> EngineResult<()> {
        self.clear_transaction();
        self.link.send_plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let wait_limit = self.link.waits.until.map_or(limits::SNAPSHOT_MAX, Deadline::left);
        let wait_limit = wait_limit.clamp(Duration::from_millis(1), limits::SNAPSHOT_MAX);
        let statement_max = if is_long { Parameter::from("0") } else { millis(wait_limit) };
        self.link.send(SNAPSHOT, vec![statement_max, millis(limits::SNAPSHOT_MAX)], None)
    }

    /// Rolls back whatever was begun.
    pub(super) fn rollback(&mut self) {
        self.clear_transaction();
        if self.link.lost().is_none() && self.link.run("ROLLBACK").is_err() {
            // What is open on it is unknown.
            self.link.mark_lost("the transaction could not be ended");
        }
    }

    /// Applies what other nodes committed; returns the database's time, and the answers to `questions`. `wait` waits for all
    /// answers.
    fn apply_foreign_commits(
        &mut self,
        is_strict: bool,
        questions: Vec<Question<'_>>,
        wait: impl FnOnce(&mut Tables, Asked) -> EngineResult<Vec<Vec<Row>>>,
    ) -> EngineResult<(i64, Vec<Vec<Row>>)> {
        let known = self.meta;
        let since = vec![known.commit.into(), COMMITS_READ_MAX.into()];
        let has_counts = self.is_shared && self.counts.is_some();
        let moved = has_counts.then(|| super::tables::claim::counts_since(known.commit + 1));
        let expected = self.ask_for_answered();
        let is_expecting = expected.is_some();
        let first = [(SINCE, since), self.ask_for_appends()].into_iter().chain(expected);
        let asked = self.link.ask(first.chain(moved).chain(questions).collect())?;
        let mut answers = wait(self, asked)?.into_iter();
        let mut rows = answers.next().unwrap_or_default();
        self.appends.found = answers.next().unwrap_or_default();
        let expected = if is_expecting { answers.next().unwrap_or_default() } else { Vec::new() };
        let moved = if has_counts { answers.next() } else { None };
        if rows.is_empty() && !is_strict {
            rows = self.link.fetch(SINCE, vec![(-1).into(), 1.into()])?;
        }
        let commits = rows.iter().map(Commit::read).collect::<EngineResult<Vec<Commit>>>()?;
        let is_unflushed = known.commit > self.durability.durable.commit;
        let Some(head) = commits.first() else {
            return Err(if is_unflushed {
                self.unflushed_missing(known)
            } else {
                self.commits_missing(known)
            });
        };
        migrate::refuse_newer(head.works_with)?;
        let kept = commits.last().filter(|oldest| oldest.meta.commit == known.commit);
        let is_gone = is_lost(known, kept.map(|commit| commit.meta), head.meta);
        if is_gone && is_unflushed {
            return Err(self.unflushed_missing(known));
        }
        if is_strict && is_gone {
            return Err(self.commits_missing(known));
        }
        self.durability.observe(head);
        self.is_shared = head.meta.commit != known.commit || kept.is_none();
        if self.is_shared {
            self.generation += 1;
            let foreign = &commits[..commits.len() - usize::from(kept.is_some())];
            let is_seamless = kept.is_some() && limit(foreign.len()) == head.meta.commit - known.commit;
            self.apply_commits(is_seamless.then_some(foreign), moved)?;
        }
        self.meta = head.meta;
        self.appends.config_version = head.meta.config_version;
        self.check_answered(&expected)?;
        Ok((head.now, answers.collect()))
    }

    /// The database lacks acknowledged commits: it is another one, or a standby that had not caught up.
    fn commits_missing(&mut self, known: Meta) -> StoreError {
        let reason = format!(
            "the database lost commit {}, which it had acknowledged: it was restored from a backup, or \
             a standby that had not caught up took over",
            known.commit
        );
        self.identity.loss = Some(Loss { reason: reason.clone(), generation: known.generation });
        StoreError::Stopped(reason)
    }

    /// A server that crashed may lack the last commits of other nodes, which it had not acknowledged. What this
    /// connection has read since is not valid any more; a new one begins with what is certain.
    fn unflushed_missing(&mut self, known: Meta) -> StoreError {
        let why = format!("the database restarted without commit {}, which was not on disk", known.commit);
        self.link.mark_lost(&why);
        StoreError::Unavailable(why)
    }

    /// Applies other nodes' commits; clears all caches if it is unknown what they did.
    fn apply_commits(&mut self, foreign: Option<&[Commit]>, moved: Option<Vec<Row>>) -> EngineResult<()> {
        let Some(foreign) = foreign else {
            self.counts = None;
            self.floors.clear();
            self.running.forget();
            self.timers.clear();
            return Ok(());
        };
        for commit in foreign {
            self.floors.apply_commit(commit.lowered.as_deref());
            self.running.apply_commit(commit.running.as_deref());
            self.timers.apply_commit(commit.timer_at, commit.has_swept);
        }
        self.update_counts(moved)
    }

    /// Whether this transaction has nothing to write.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_written && self.moved.is_empty() && self.timers.is_settled()
    }

    /// Writes what belongs to the commit and commits, in one round trip. If there is nothing to write, it costs no disk
    /// write.
    pub(super) fn commit(&mut self, nonce: i64, at: i64) -> EngineResult<()> {
        if self.is_idle() {
            // What was read is part of the answers, so it must be on disk as well.
            return self.end_and_flush("COMMIT");
        }
        self.shut_out_appends()?;
        let number = self.meta.commit + 1;
        self.write_timers()?;
        let counts_base = self.write_counts(number, self.meta.counts_base)?;
        let mut meta = Meta { commit: number, nonce, at, counts_base, ..self.meta };
        if number % TIDY_EVERY == 0 {
            self.forget_commits(number, at)?;
            meta.appends_from = self.first_append()?;
        }
        let (timer_at, has_swept) = self.timers.take_announcement();
        let values = vec![
            number.into(),
            nonce.into(),
            at.into(),
            meta.next_seq.into(),
            meta.next_record.into(),
            meta.config_version.into(),
            meta.counts_base.into(),
            Parameter::Bytes(self.floors.take_lowered()),
            Parameter::Number(timer_at),
            Parameter::Truth(has_swept),
            meta.generation.into(),
            Parameter::Truth(self.durability.is_early),
            self.appends.absorbed(),
            meta.appends_from.into(),
            Parameter::Bytes(self.running.take_own()),
        ];
        self.write(COMMIT, values, None)?;
        // From here on the server may commit, even if no answer arrives.
        self.tried = Some((number, nonce));
        if self.durability.is_early {
            self.release_and_flush(meta)?;
        } else {
            self.link.run("COMMIT")?;
        }
        self.meta = meta;
        self.durability.durable = meta;
        self.clear_transaction();
        Ok(())
    }

    /// Removes old rows of `commits`. They are kept by time, not by number: after an outage a node looks for one of its
    /// own, and the others may have made any number of commits meanwhile.
    fn forget_commits(&mut self, number: i64, at: i64) -> EngineResult<()> {
        let young = at.saturating_sub(whole_millis(limits::COMMITS_KEPT_FOR));
        let most = limits::COMMITS_FORGOTTEN_MAX;
        let found = self.link.fetch(OLDEST, vec![self.forgotten_to.into(), young.into(), most.into()])?;
        let Some(row) = found.first() else { return Ok(()) };
        let (first, end): (Option<i64>, Option<i64>) = (get(row, 0)?, get(row, 1)?);
        let (Some(first), Some(end)) = (first, end) else { return Ok(()) };
        let end = end.min(number - limits::COMMITS_KEPT_MIN);
        if first < end {
            self.write(FORGET, vec![first.into(), end.into()], None)?;
        }
        // Dead entries before this are not scanned again.
        self.forgotten_to = first;
        Ok(())
    }

    /// The outcome of a commit whose answer was lost. The caller must hold the lock: the transaction in question held
    /// it, so it has ended. Whether it is on disk is another question: see [`Tables::end_and_flush`].
    pub(super) fn fate(&mut self, (number, nonce): (i64, i64)) -> EngineResult<CommitFate> {
        let rows = self.link.fetch(FATE, vec![number.into()])?;
        match rows.first() {
            Some(row) if get::<i64>(row, 0)? == nonce => Ok(CommitFate::Made),
            Some(_) => Ok(CommitFate::NotMade),
            None if self.meta.commit < number => Ok(CommitFate::NotMade),
            None => Ok(CommitFate::Forgotten),
        }
    }
}

/// Whether acknowledged commits that this node knows of were lost. `kept` is the row of the last commit it knows,
/// `head` the latest one.
///
/// Rows are removed only when they are old and many more came after them. Then the store's generation, which changes
/// whenever any node notices a loss, and the numbers that never decrease are compared.
fn is_lost(known: Meta, kept: Option<Meta>, head: Meta) -> bool {
    if known.commit < 0 {
        return false;
    }
    match kept {
        Some(kept) => kept.nonce != known.nonce,
        None => {
            head.commit - known.commit < limits::COMMITS_KEPT_MIN
                || head.generation != known.generation
                || head.next_seq < known.next_seq
                || head.next_record < known.next_record
                || head.at < known.at
        }
    }
}

fn millis(limit: std::time::Duration) -> Parameter {
    Parameter::Text(Some(limit.as_millis().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(commit: i64, nonce: i64, next_record: i64) -> Meta {
        Meta { commit, nonce, next_record, ..Meta::default() }
    }

    #[test]
    fn a_known_commit_must_be_there_unless_it_was_forgotten() {
        let known = meta(1_000, 7, 50);
        assert!(!is_lost(known, Some(known), meta(1_400, 9, 60)));
        assert!(
            is_lost(known, Some(meta(1_000, 8, 50)), meta(1_400, 9, 60)),
            "another commit has its number"
        );
        let late = 1_000 + limits::COMMITS_KEPT_MIN;
        assert!(is_lost(known, None, meta(late - 1, 9, 60)), "it is not old enough to be forgotten");
        assert!(!is_lost(known, None, meta(late, 9, 60)));
        assert!(is_lost(known, None, meta(late, 9, 40)), "records are missing");
        let restored = Meta { generation: 2, ..meta(late, 9, 60) };
        assert!(is_lost(known, None, restored), "others have noticed a loss");
        assert!(!is_lost(known, Some(known), restored), "its own commits were not among it");
        assert!(!is_lost(Meta::default(), None, meta(5, 1, 2)), "nothing was known");
    }
}
