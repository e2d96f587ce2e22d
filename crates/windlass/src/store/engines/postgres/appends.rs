//! Jobs that nodes append without the store's lock, and that the next commit takes in. Appends share a lock of their own,
//! which a commit takes alone if it changes what they were decided with.

mod body;

use tokio_postgres::Row;

pub(super) use self::body::encode;

use super::connection::{Question, get};
use super::parameter::{Column, Parameter};
use super::tables::{Access, Tables};
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
/// To be asked while appends are shut out: otherwise a smaller number may be on its way.
const FIRST: &str = "SELECT coalesce((SELECT min(n) FROM @.appends WHERE n >= $1 AND refusal IS NULL), \
     (SELECT last_value FROM @.appends_n))";
const FATE: &str = "SELECT EXISTS (SELECT 1 FROM @.appends WHERE n >= $3 AND nonce = $1) \
     OR EXISTS (SELECT 1 FROM @.commits WHERE n > $2 AND $1 = ANY(absorbed)), \
     EXISTS (SELECT 1 FROM @.commits WHERE n = $2)";
const APPEND: &str = "SELECT head, head_nonce, head_at FROM @.append($1, $2, $3, $4, $5, $6)";

/// What a connection knows about appended jobs.
#[derive(Default)]
pub(super) struct AppendState {
    /// The lock that appends share.
    pub(super) gate: i64,
    /// What the beginning of this transaction found: jobs to take in, or for a reader whether there are any.
    pub(super) found: Vec<Row>,
    /// The version of the configuration when this transaction began.
    pub(super) config_version: i64,
    /// Whether this transaction has shut out appends.
    is_shut_out: bool,
    /// Whether the next transaction is to shut them out from the beginning: a change of the configuration came after
    /// jobs that were decided about with the old one.
    pub(super) is_behind: bool,
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
        self.taken.clear();
        self.is_shut_out = false;
    }

    /// The nonces of what this transaction took in, for its row of `commits`.
    pub(super) fn absorbed(&self) -> Parameter {
        Column::of(self.taken.iter().copied()).into()
    }

    /// Whether a snapshot lacks jobs that were appended before it.
    pub(super) fn is_any_missing(&self) -> EngineResult<bool> {
        self.found.first().map_or(Ok(false), |row| get(row, 0))
    }
}

/// A commit that an appender knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownCommit {
    pub(super) number: i64,
    pub(super) nonce: i64,
    pub(super) at: i64,
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

    /// Takes out everything that was appended.
    pub(super) fn absorb_all(&mut self) -> EngineResult<Vec<AppendedJobs>> {
        let mut all = Vec::new();
        loop {
            let rows = std::mem::take(&mut self.appends.found);
            let Some(last) = rows.last() else { break };
            let after: i64 = get(last, 0)?;
            self.absorb(&rows, &mut all)?;
            if i64::try_from(rows.len()).unwrap_or(i64::MAX) < limits::APPENDS_READ_MAX {
                break;
            }
            let more = vec![(after + 1).into(), limits::APPENDS_READ_MAX.into()];
            self.appends.found = self.link.fetch(FOUND, more)?;
        }
        Ok(all)
    }

    fn absorb(&mut self, rows: &[Row], all: &mut Vec<AppendedJobs>) -> EngineResult<()> {
        self.begin_to_write()?;
        let mut taken = Column::numbers();
        for row in rows {
            let n: i64 = get(row, 0)?;
            let Some(jobs) = body::decode(get(row, 2)?) else {
                tracing::error!(n, "appended jobs are damaged and quarantined");
                self.write(SET_ASIDE, vec![n.into(), "cannot be read".into()], None)?;
                continue;
            };
            all.push(jobs);
            taken.number(n);
            self.appends.taken.push(get(row, 1)?);
        }
        let count = taken.rows();
        if taken.is_empty() { Ok(()) } else { self.write(TAKE, vec![taken.into()], Some((count, "appends"))) }
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

    /// Stores appended jobs; returns the last commit, or `None` if the configuration is another one by now, or the
    /// database another one.
    pub(super) fn append(
        &mut self,
        known: KnownCommit,
        nonce: i64,
        body: &[u8],
    ) -> EngineResult<Option<KnownCommit>> {
        let values = vec![
            known.number.into(),
            known.nonce.into(),
            self.meta.config_version.into(),
            self.appends.gate.into(),
            nonce.into(),
            body.into(),
        ];
        let rows = self.link.fetch(APPEND, values)?;
        let Some(row) = rows.first() else { return Ok(None) };
        let Some(number) = get::<Option<i64>>(row, 0)? else { return Ok(None) };
        Ok(Some(KnownCommit { number, nonce: get(row, 1)?, at: get(row, 2)? }))
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
