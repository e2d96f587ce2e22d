//! Transactions: one writer at a time across all nodes, by a lock of the whole store that is held until the commit; and
//! snapshots for readers. What others committed since is learned from the rows of `commits`.

use tokio_postgres::Row;

use super::ahead::{Look, Needs};
use super::document;
use super::door::Doorstep;
use super::link::Question;
use super::memory::{Commit, Meta};
use super::migrate;
use super::parameter::{Column, Parameter};
use super::query::by_id;
use super::tables::Tables;
use crate::error::StoreError;
use crate::limits;
use crate::store::durable::columns::code;
use crate::store::engine::EngineResult;

/// The limits are set with every transaction rather than with the connection, which a pooler may share. The plans: every
/// statement names its rows, so the plan that goes by index is the right one however small a table was when it was made.
const GATE: &str = "SELECT set_config('lock_timeout', $2, true), set_config('statement_timeout', $3, true), \
     set_config('idle_in_transaction_session_timeout', $4, true), set_config('jit', 'off', true), \
     set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), \
     set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
     set_config('enable_bitmapscan', 'off', true), set_config('enable_memoize', 'off', true), \
     set_config('max_parallel_workers_per_gather', '0', true), \
     set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
     ELSE current_setting('synchronous_commit') END, true), pg_advisory_xact_lock($1)";
const SNAPSHOT: &str = "SELECT set_config('statement_timeout', $1, true), \
     set_config('idle_in_transaction_session_timeout', $2, true), set_config('jit', 'off', true), \
     set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), \
     set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
     set_config('enable_bitmapscan', 'off', true), set_config('enable_memoize', 'off', true), \
     set_config('max_parallel_workers_per_gather', '0', true)";
const SINCE: &str = "SELECT n, nonce, at, next_seq, next_record, config_version, counts_base, lowered, timer_at, \
     has_swept, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (SELECT max(works_with) FROM @.migrations) \
     FROM @.commits WHERE n >= $1 ORDER BY n DESC LIMIT $2";
const COMMIT: &str = "INSERT INTO @.commits (n, nonce, at, next_seq, next_record, config_version, counts_base, lowered, \
     timer_at, has_swept) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const COUNTS: &str = "INSERT INTO @.counts (n, lane, state, by) \
     SELECT $1, u.lane, u.state, u.by FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) u(lane, state, by)";
const FOLD: &str = "WITH gone AS (DELETE FROM @.counts WHERE n >= $2 AND n < $1 RETURNING lane, state, by) \
     INSERT INTO @.counts (n, lane, state, by) SELECT $1, lane, state, sum(by) FROM gone GROUP BY lane, state \
     HAVING sum(by) <> 0 ON CONFLICT (n, lane, state) DO UPDATE SET by = counts.by + excluded.by";
const FORGET: &str = "DELETE FROM @.commits WHERE n < $1 AND n >= $2";

/// Commits of others that are read one by one; after more than that everything is looked up anew.
const COMMITS_READ_MAX: i64 = 256;
/// How often counts are added up and old commits forgotten, in commits.
const TIDY_EVERY: i64 = 256;
/// Commits that stay, for nodes that were away for a while.
const COMMITS_KEPT: i64 = 4_096;

impl Tables {
    /// Begins a transaction that nobody else's can come between; the answer is the database's time. What is going to be
    /// asked first in it is asked along with the beginning; beside others, who may have to be waited for, it is asked only
    /// after the wait, when more may be needed than before.
    pub(super) fn begin_write(&mut self, lock: i64, needs: impl FnOnce() -> Needs) -> EngineResult<i64> {
        self.clear_transaction();
        self.doorstep = Doorstep::default();
        self.link.send_plain("BEGIN ISOLATION LEVEL READ COMMITTED");
        let lock_wait = millis(limits::LOCK_WAIT_MAX);
        let call_max = millis(limits::CALL_MAX);
        let idle_max = millis(limits::TRANSACTION_IDLE_MAX);
        let values = vec![lock.into(), lock_wait, call_max, idle_max];
        self.link.send(GATE, values, None)?;
        if self.is_shared {
            self.link.settle()?;
        }
        let needs = needs();
        let glance = self.look_ahead(needs.claims);
        // Alone, this connection remembers what it needs of the jobs that it claimed, and when the first timer is due.
        let names = if self.is_shared { needs.names.as_slice() } else { &[] };
        let timers = self.ahead.documents().filter(|_| self.is_shared && needs.claims > 0);
        let mut questions: Vec<Question<'_>> = Vec::new();
        questions.extend(glance.iter().map(|look| (look.sql(), look.values())));
        questions.extend((!names.is_empty()).then(|| by_id(names)));
        questions.extend(timers.map(document::first));
        let (now, answers) = self.catch_up(true, questions)?;
        let mut answers = answers.into_iter();
        if let Some(look) = glance {
            self.ahead.keep(look, answers.next().unwrap_or_default());
        }
        if !names.is_empty() {
            let jobs = self.read_jobs(&answers.next().unwrap_or_default())?;
            self.ahead.keep_jobs(jobs, names);
        }
        if let Some(kind) = timers {
            let rows = answers.next().unwrap_or_default();
            // One that is damaged is told of when it is needed.
            if let Ok(first) = rows.iter().map(|row| document::read(kind, row)).collect::<EngineResult<_>>() {
                self.ahead.keep_document(kind, first);
            }
        }
        Ok(now)
    }

    /// If somebody has added to a lane before the place where the look begins, its floor shows it by the time of the
    /// claim, and the look does not count.
    fn look_ahead(&self, claims: usize) -> Option<Look> {
        let (lanes, each) = self.ahead.habit(claims)?;
        let spot = |lane: &i64| {
            let (rank, at, seq) = self.floors.before(*lane);
            [*lane, rank, at, seq]
        };
        Some(Look { spots: lanes.iter().map(spot).collect(), each })
    }

    /// Begins a snapshot.
    pub(super) fn begin_read(&mut self, is_long: bool) -> EngineResult<i64> {
        self.clear_transaction();
        self.link.send_plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let look_max = if is_long { Parameter::from("0") } else { millis(limits::SNAPSHOT_MAX) };
        self.link.send(SNAPSHOT, vec![look_max, millis(limits::SNAPSHOT_MAX)], None)?;
        Ok(self.catch_up(false, Vec::new())?.0)
    }

    /// Ends whatever was begun, without a trace.
    pub(super) fn rollback(&mut self) {
        self.clear_transaction();
        if self.link.lost().is_none() && self.link.run("ROLLBACK").is_err() {
            // Nobody knows what is open on it.
            self.link.give_up("the transaction could not be ended");
        }
    }

    /// Learns what others committed; the answer is the database's time, and the answers to `questions`.
    fn catch_up(
        &mut self,
        is_strict: bool,
        questions: Vec<Question<'_>>,
    ) -> EngineResult<(i64, Vec<Vec<Row>>)> {
        let known = self.meta;
        let since = vec![known.commit.into(), (COMMITS_READ_MAX + 1).into()];
        let has_counts = self.is_shared && self.counts.is_some();
        let moved = has_counts.then(|| super::claim::counts_since(known.commit + 1));
        let all = std::iter::once((SINCE, since)).chain(moved).chain(questions).collect();
        let mut answers = self.link.fetch_all(all)?.into_iter();
        let mut rows = answers.next().unwrap_or_default();
        let moved = if has_counts { answers.next() } else { None };
        if rows.is_empty() && !is_strict {
            rows = self.link.fetch(SINCE, vec![(-1).into(), 1.into()])?;
        }
        let commits = rows.iter().map(Commit::read).collect::<EngineResult<Vec<Commit>>>()?;
        let (Some(head), Some(oldest)) = (commits.first(), commits.last()) else {
            return Err(commits_missing(known));
        };
        migrate::refuse_newer(head.works_with)?;
        let is_seamless = oldest.meta.commit == known.commit;
        if is_strict && is_seamless && oldest.meta.nonce != known.nonce {
            return Err(commits_missing(known));
        }
        self.is_shared = head.meta.commit != known.commit || !is_seamless;
        if self.is_shared {
            self.generation += 1;
            let foreign = if is_seamless { Some(&commits[..commits.len() - 1]) } else { None };
            self.learn_commits(foreign, head.meta, moved)?;
        }
        self.meta = head.meta;
        Ok((head.now, answers.collect()))
    }

    /// Takes in what others did; everything is forgotten if it cannot be told what that was.
    fn learn_commits(
        &mut self,
        foreign: Option<&[Commit]>,
        head: Meta,
        moved: Option<Vec<Row>>,
    ) -> EngineResult<()> {
        let Some(foreign) = foreign else {
            self.counts = None;
            self.floors.clear();
            self.timers.clear();
            return Ok(());
        };
        for commit in foreign {
            self.floors.learn(commit.lowered.as_deref());
            self.timers.learn(commit.timer_at, commit.has_swept);
        }
        self.learn_counts(head, moved)
    }

    /// Writes what belongs to the commit and commits, all in one go. Nothing to be written costs no disk write.
    pub(super) fn commit(&mut self, nonce: i64, at: i64) -> EngineResult<()> {
        let is_idle = !self.has_written && self.moved.is_empty() && self.timers.is_settled();
        if is_idle {
            return self.link.run("COMMIT");
        }
        let number = self.meta.commit + 1;
        self.write_timers()?;
        self.write_counts(number)?;
        let mut meta = Meta { commit: number, nonce, at, ..self.meta };
        if number % TIDY_EVERY == 0 {
            self.write(FOLD, vec![number.into(), meta.counts_base.into()], None)?;
            meta.counts_base = number;
            let kept = number - COMMITS_KEPT;
            self.write(FORGET, vec![kept.into(), (kept - 2 * TIDY_EVERY).into()], None)?;
        }
        let (timer_at, has_swept) = self.timers.take_news();
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
        ];
        self.write(COMMIT, values, None)?;
        self.link.run("COMMIT")?;
        self.meta = meta;
        self.clear_transaction();
        Ok(())
    }

    fn write_counts(&mut self, number: i64) -> EngineResult<()> {
        let (mut lanes, mut states, mut by) = (Column::numbers(), Column::numbers(), Column::numbers());
        for ((lane, state), moved) in std::mem::take(&mut self.moved) {
            if moved != 0 {
                lanes.number(self.lane_id(&lane)?);
                states.number(code(state));
                by.number(moved);
            }
        }
        if lanes.is_empty() {
            return Ok(());
        }
        self.write(COUNTS, vec![number.into(), lanes.into(), states.into(), by.into()], None)
    }

    /// Whether a commit that nobody answered for became real. To be asked with the lock held.
    pub(super) fn has_commit(&mut self, nonce: i64) -> EngineResult<bool> {
        let sql = "SELECT n FROM @.commits WHERE nonce = $1 AND n > $2";
        let known = self.meta.commit - COMMITS_KEPT / 2;
        Ok(!self.link.fetch(sql, vec![nonce.into(), known.into()])?.is_empty())
    }
}

fn millis(limit: std::time::Duration) -> Parameter {
    Parameter::Text(Some(limit.as_millis().to_string()))
}

/// The database has less than it had acknowledged: it is another one, or a standby that had not caught up.
fn commits_missing(known: Meta) -> StoreError {
    StoreError::Stopped(format!(
        "the database does not have commit {} any more, which it had acknowledged: it was restored from a backup, or \
         a standby that had not caught up took over",
        known.commit
    ))
}
