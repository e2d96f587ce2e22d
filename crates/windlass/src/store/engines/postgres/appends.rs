//! Jobs that nodes append without the store's lock, and that the next commit takes in. Appends share a lock of their
//! own, which a commit takes alone if it changes what they were decided with.

pub(super) mod appender;
pub(super) mod backlog;
mod body;
pub(super) mod gathering;

use tokio_postgres::Row;

pub(super) use self::body::encode;

use self::backlog::Answered;
use super::connection::cluster::Loss;
use super::connection::{Question, get};
use super::node_cache::Meta;
use super::parameter::{Column, Parameter};
use super::tables::{Access, Tables};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::{AppendedJobs, EngineResult};

const FOUND: &str =
    "SELECT n, nonce, body FROM @.appends WHERE n >= $1 AND refusal IS NULL ORDER BY n LIMIT $2";
const IS_ANY: &str = "SELECT EXISTS (SELECT 1 FROM @.appends WHERE n >= $1 AND refusal IS NULL)";
const TAKE: &str = "DELETE FROM @.appends WHERE n = ANY($1)";
const SET_ASIDE: &str = "UPDATE @.appends SET refusal = $2 WHERE n = $1";
const ASIDE: &str = "SELECT n, refusal FROM @.appends WHERE refusal IS NOT NULL ORDER BY n LIMIT $1";
const SHUT_OUT: &str = "SELECT pg_advisory_xact_lock($1)";
/// Correct only while appends are shut out: otherwise an append with a smaller number may not be visible yet.
const FIRST: &str = "SELECT coalesce((SELECT min(n) FROM @.appends WHERE n >= $1 AND refusal IS NULL), \
     (SELECT last_value FROM @.appends_n))";
const FATE: &str = "SELECT EXISTS (SELECT 1 FROM @.appends WHERE n >= $3 AND nonce = $1) \
     OR EXISTS (SELECT 1 FROM @.commits WHERE n > $2 AND $1 = ANY(absorbed)), \
     EXISTS (SELECT 1 FROM @.commits WHERE n = $2)";
const APPEND: &str =
    "SELECT head, head_nonce, head_at, number FROM @.append($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const ARE_THERE: &str = "SELECT EXISTS (SELECT 1 FROM @.appends a WHERE a.n = u.n AND a.nonce = u.nonce) \
     OR EXISTS (SELECT 1 FROM @.commits c WHERE c.n > u.since AND u.nonce = ANY(c.absorbed)), \
     EXISTS (SELECT 1 FROM @.commits c WHERE c.n = u.since) \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY u(n, nonce, since, place) ORDER BY u.place";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";
const HAS_COMMIT: &str = "SELECT EXISTS (SELECT 1 FROM @.commits WHERE n = $1 AND nonce = $2)";

/// What a connection knows about appended jobs.
#[derive(Default)]
pub(super) struct AppendState {
    /// The lock that appends share.
    pub(super) gate: i64,
    /// What the beginning of this transaction found: jobs to take in, or for a reader whether there are any.
    pub(super) found: Vec<Row>,
    /// Those jobs, once they were read.
    read: Vec<AppendRow>,
    /// The version of the configuration when this transaction began.
    pub(super) config_version: i64,
    /// Whether this transaction has shut out appends.
    is_shut_out: bool,
    /// Whether the next transaction is to shut them out from the beginning: a change of the configuration came after
    /// jobs that were decided about with the old one.
    pub(super) is_behind: bool,
    /// Answered appends that the next transaction must find.
    pub(super) expected: Vec<Answered>,
    /// The nonces of what this transaction took in.
    taken: Vec<i64>,
}

impl AppendState {
    /// Nothing is known but the lock that appends share.
    pub(super) fn behind(gate: i64) -> AppendState {
        AppendState { gate, ..AppendState::default() }
    }

    /// Forgets the state of one transaction.
    pub(super) fn clear_transaction(&mut self) {
        self.found.clear();
        self.read.clear();
        self.taken.clear();
        self.is_shut_out = false;
    }

    /// The nonces of what this transaction took in, for its row of `commits`.
    pub(super) fn absorbed(&self) -> Parameter {
        Column::from_numbers(self.taken.iter().copied()).into()
    }

    /// Whether a snapshot lacks jobs that were appended before it.
    pub(super) fn is_any_missing(&self) -> EngineResult<bool> {
        self.found.first().map_or(Ok(false), |row| get(row, 0))
    }
}

/// A row of `appends`.
struct AppendRow {
    n: i64,
    nonce: i64,
    /// `None` if they cannot be read.
    jobs: Option<AppendedJobs>,
}

/// A commit that an appender knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownCommit {
    pub(super) number: i64,
    pub(super) nonce: i64,
    pub(super) at: i64,
}

impl KnownCommit {
    /// The later one.
    pub(super) fn max(self, other: KnownCommit) -> KnownCommit {
        if self.number >= other.number { self } else { other }
    }
}

impl Default for KnownCommit {
    /// Before anything is known.
    fn default() -> KnownCommit {
        KnownCommit::from(Meta::default())
    }
}

impl From<Meta> for KnownCommit {
    fn from(meta: Meta) -> KnownCommit {
        KnownCommit { number: meta.commit, nonce: meta.nonce, at: meta.at }
    }
}

impl Tables {
    /// Sent after the lock was taken, before anything is read.
    pub(super) fn begin_appends(&mut self) -> EngineResult<()> {
        if !self.appends.is_behind {
            return Ok(());
        }
        self.appends.is_shut_out = true;
        self.link.send(SHUT_OUT, vec![self.appends.gate.into()], None)
    }

    /// What every transaction asks first.
    pub(super) fn ask_for_appends(&self) -> Question<'static> {
        let from = self.meta.appends_from.into();
        if self.access == Access::Read {
            (IS_ANY, vec![from])
        } else {
            (FOUND, vec![from, limits::APPENDS_READ_MAX.into()])
        }
    }

    /// Reads what was appended before this transaction; returns the time of the last of it, or of the last commit. Time
    /// continues from there: submissions were answered with these times.
    pub(super) fn read_appends(&mut self) -> EngineResult<Timestamp> {
        let mut last = Timestamp::from_millis(self.meta.at);
        let mut recent = body::Recent::default();
        loop {
            let rows = std::mem::take(&mut self.appends.found);
            let Some(after) = rows.last() else { return Ok(last) };
            let after: i64 = get(after, 0)?;
            for row in &rows {
                let (n, nonce, jobs) = (get(row, 0)?, get(row, 1)?, body::decode(get(row, 2)?, &mut recent));
                last = jobs.as_ref().map_or(last, |jobs| jobs.at.max(last));
                self.appends.read.push(AppendRow { n, nonce, jobs });
            }
            if i64::try_from(rows.len()).unwrap_or(i64::MAX) < limits::APPENDS_READ_MAX {
                return Ok(last);
            }
            let more = vec![(after + 1).into(), limits::APPENDS_READ_MAX.into()];
            self.appends.found = self.link.fetch(FOUND, more)?;
        }
    }

    /// Takes out everything that was read.
    pub(super) fn absorb_all(&mut self) -> EngineResult<Vec<AppendedJobs>> {
        let read = std::mem::take(&mut self.appends.read);
        let (mut all, mut taken) = (Vec::with_capacity(read.len()), Column::numbers());
        if read.is_empty() {
            return Ok(all);
        }
        self.begin_to_write()?;
        for AppendRow { n, nonce, jobs } in read {
            let Some(jobs) = jobs else {
                tracing::error!(n, "appended jobs are damaged and quarantined");
                self.write(SET_ASIDE, vec![n.into(), "cannot be read".into()], None)?;
                continue;
            };
            all.push(jobs);
            taken.number(n);
            self.appends.taken.push(nonce);
        }
        let count = taken.rows();
        if !taken.is_empty() {
            self.write(TAKE, vec![taken.into()], Some((count, "appends")))?;
        }
        Ok(all)
    }

    /// Before a commit that changes the configuration: nothing that was decided about with the old one may follow it.
    pub(super) fn shut_out_appends(&mut self) -> EngineResult<()> {
        if self.meta.config_version == self.appends.config_version || self.appends.is_shut_out {
            return Ok(());
        }
        let questions = vec![self.shut_out(), (IS_ANY, vec![self.meta.appends_from.into()])];
        let rows = self.link.fetch_all(questions)?.pop().unwrap_or_default();
        if rows.first().map_or(Ok(false), |row| get(row, 0))? {
            self.appends.is_behind = true;
            return Err(StoreError::Database("jobs were appended before this change: try again".to_owned()));
        }
        Ok(())
    }

    fn shut_out(&mut self) -> Question<'static> {
        self.appends.is_shut_out = true;
        (SHUT_OUT, vec![self.appends.gate.into()])
    }

    /// The first number that may be left to be taken in after this commit.
    pub(super) fn first_append(&mut self) -> EngineResult<i64> {
        let questions = vec![self.shut_out(), (FIRST, vec![self.meta.appends_from.into()])];
        let rows = self.link.fetch_all(questions)?.pop().unwrap_or_default();
        rows.first().map_or(Ok(self.meta.appends_from), |row| get(row, 0))
    }

    /// Whether jobs were appended with a nonce; `None` if that is not known any more.
    pub(super) fn find_append(&mut self, nonce: i64, since: i64) -> EngineResult<Option<bool>> {
        if self.appends.taken.contains(&nonce) {
            return Ok(Some(true));
        }
        let values = vec![nonce.into(), since.into(), self.meta.appends_from.into()];
        let questions = vec![self.shut_out(), (FATE, values)];
        let rows = self.link.fetch_all(questions)?.pop().unwrap_or_default();
        let Some(row) = rows.first() else { return Ok(None) };
        let (is_made, is_kept): (bool, bool) = (get(row, 0)?, get(row, 1)?);
        if is_made || !is_kept {
            return Ok(is_made.then_some(true));
        }
        // The server may not have received it yet: it is decided about with a version that is past by then.
        self.begin_to_write()?;
        self.meta.config_version += 1;
        Ok(Some(false))
    }

    /// Has the next transaction look for answered appends, unless it fences off a loss.
    pub(super) fn expect(&mut self, answered: Vec<Answered>) {
        self.appends.expected = if self.identity.loss.is_some() { Vec::new() } else { answered };
    }

    /// Whether the answered appends are there that this transaction must find; nothing is asked if there are none.
    pub(super) fn ask_for_answered(&self) -> Option<Question<'static>> {
        let expected = &self.appends.expected;
        let column =
            |value: fn(&Answered) -> i64| Parameter::from(Column::from_numbers(expected.iter().map(value)));
        let columns = [
            column(|append| append.number),
            column(|append| append.nonce),
            column(|append| append.since.number),
        ];
        (!expected.is_empty()).then(|| (ARE_THERE, columns.into()))
    }

    /// Fails if one of them is lost: the database was put back, or a standby that had not caught up took over. If the
    /// commits of that time are forgotten, the store's generation is compared, as for commits.
    pub(super) fn check_answered(&mut self, rows: &[Row]) -> EngineResult<()> {
        for (append, row) in self.appends.expected.iter().zip(rows) {
            let (is_there, is_kept): (bool, bool) = (get(row, 0)?, get(row, 1)?);
            let since = append.since.number;
            let is_forgotten = !is_kept
                && self.meta.commit >= since.saturating_add(limits::COMMITS_KEPT_MIN)
                && self.meta.generation == append.generation;
            if is_there || is_forgotten {
                continue;
            }
            let reason = format!(
                "the database lost commit {since} or submissions after it, which it had acknowledged: it was \
                 restored from a backup, or a standby that had not caught up took over"
            );
            self.identity.loss = Some(Loss { reason: reason.clone(), generation: append.generation });
            return Err(StoreError::Stopped(reason));
        }
        Ok(())
    }

    /// Whether the database has a commit; true if none is known yet.
    pub(super) fn has_commit(&mut self, known: KnownCommit) -> EngineResult<bool> {
        if known.number < 0 {
            return Ok(true);
        }
        let rows = self.link.fetch(HAS_COMMIT, vec![known.number.into(), known.nonce.into()])?;
        rows.first().map_or(Ok(false), |row| get(row, 0))
    }

    /// Stores appended jobs; returns the last commit and their place, or `None` if the configuration is another one by
    /// now, or the database another one. `last` is what this connection appended before. With a notification, which is a
    /// channel and a message, others receive that once the jobs are on disk, or if they are refused.
    pub(super) fn append(
        &mut self,
        known: KnownCommit,
        last: Option<Answered>,
        nonce: i64,
        (body, notification): (&[u8], Option<(String, String)>),
    ) -> EngineResult<Option<(KnownCommit, i64)>> {
        let values = vec![
            known.number.into(),
            known.nonce.into(),
            self.meta.config_version.into(),
            self.appends.gate.into(),
            nonce.into(),
            body.into(),
            Parameter::Number(last.map(|last| last.number)),
            Parameter::Number(last.map(|last| last.nonce)),
            Parameter::Number(last.map(|last| last.since.number)),
        ];
        let rows = match notification {
            None => self.link.fetch(APPEND, values)?,
            Some((channel, message)) => {
                // One message, and one transaction.
                self.link.send_plain("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
                let notify = vec![channel.as_str().into(), message.as_str().into()];
                let asked = self.link.ask(vec![(APPEND, values), (NOTIFY, notify)])?;
                self.link.send_plain("COMMIT");
                let mut answers = self.link.answers(asked)?;
                answers.swap_remove(0)
            }
        };
        let Some(row) = rows.first() else { return Ok(None) };
        let Some(number) = get::<Option<i64>>(row, 0)? else { return Ok(None) };
        Ok(Some((KnownCommit { number, nonce: get(row, 1)?, at: get(row, 2)? }, get(row, 3)?)))
    }

    /// Descriptions of quarantined appends.
    pub(super) fn quarantined_appends(&mut self, max: i64) -> EngineResult<Vec<String>> {
        let rows = self.link.fetch(ASIDE, vec![max.into()])?;
        let describe = |row: &Row| {
            Ok(format!("appends: row {} was quarantined: {}", get::<i64>(row, 0)?, get::<&str>(row, 1)?))
        };
        rows.iter().map(describe).collect()
    }
}
