//! A move from beginning to end: preconditions, copying, verification, and the marks in both stores. Each step finds
//! out from the marks whether it was done before.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batch, Rows};
use super::cursor::{Cursor, PARTS};
use super::digest::{Digests, PartDigest};
use super::marker::MoveMarker;
use crate::clock::{Clock, SystemClock, Timestamp, WaitLimit};
use crate::entropy::Entropy;
use crate::error::{MoveError, OpenError, StoreError};
use crate::job::JobState;
use crate::limits;
use crate::store::Store;
use crate::store::command::submit::inbox;
use crate::store::engine::{DocumentKind, Inbox, InboxCounts, Page, SequenceNumbers};
use crate::store::environment::{Environment, StoreOptions};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// The source or target of a move.
#[derive(Debug, Clone)]
pub struct End {
    /// Its address: `sqlite:PATH` or `postgres://…`.
    pub address: String,
    /// The address for display and for storing in the other store: without a password.
    pub shown: String,
}

/// Options of a move.
#[derive(Clone)]
pub struct MoveOptions {
    /// How much one commit holds.
    pub page: Page,
    /// How long to wait for other processes that still have one of the stores open.
    pub wait: Duration,
    /// The clock used to evaluate leases and the like.
    pub clock: Arc<dyn Clock>,
}

impl Default for MoveOptions {
    fn default() -> MoveOptions {
        let page = Page { rows: limits::MOVE_ROWS_PER_COMMIT, bytes: limits::MOVE_BYTES_PER_COMMIT };
        MoveOptions { page, wait: limits::MOVE_WAIT_MAX, clock: Arc::new(SystemClock::new()) }
    }
}

/// The current stage of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Copying rows.
    Copying,
    /// Reading and comparing both stores.
    Comparing,
    /// Checking the invariants of the target.
    Verifying,
}

/// The progress of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The current stage.
    pub stage: Stage,
    /// The current part.
    pub part: &'static str,
    /// Rows of all parts processed by this run.
    pub done: u64,
    /// Total number of jobs and audit records: most of the rows.
    pub expected: u64,
}

/// The result of a move.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveReport {
    /// The content of both stores, part by part.
    pub parts: Vec<PartDigest>,
    /// Running jobs, which were moved with their leases.
    pub leases: u64,
    /// Number of invariants that hold in the target.
    pub invariants: usize,
    /// Invariants that do not hold, and did not hold in the source either.
    pub broken_before: Vec<&'static str>,
    /// Whether everything had been done before.
    pub was_done: bool,
}

/// A move.
pub struct Move {
    from: Store,
    to: Store,
    names: [String; 2],
    page: Page,
}

/// The remaining work according to the marks.
enum Plan {
    /// Copy from here on.
    Copy(String, Cursor),
    /// Only the target still has to be opened.
    Open(String),
    /// Nothing is left to do.
    Nothing,
}

impl Move {
    /// Opens both stores for a move. The target is created if it does not exist; the source must exist.
    ///
    /// # Errors
    /// [`MoveError::InUse`] if another process has one of them open; nothing was changed.
    pub fn open(from: &End, to: &End, options: &MoveOptions) -> Result<Move, MoveError> {
        for end in [from, to] {
            refuse_in_use(end, options.wait)?;
        }
        let from_store = open_end(from, true, &options.clock)?;
        let to_store = open_end(to, false, &options.clock)?;
        let names = [from.shown.clone(), to.shown.clone()];
        Ok(Move { from: from_store, to: to_store, names, page: options.page })
    }

    /// Moves everything, and reports progress after every commit.
    ///
    /// # Errors
    /// [`MoveError`] says what is in the way. If it is interrupted in any way, including the end of the process, the
    /// same move can be run again and continues; until it has succeeded, or was undone, neither store is served.
    pub async fn run(&self, mut progress: impl FnMut(Progress)) -> Result<MoveReport, MoveError> {
        let plan = self.plan().await?;
        let expected = self.expected().await?;
        if let Plan::Copy(id, cursor) = &plan {
            self.drain_inbox().await?;
            self.copy(id, cursor.clone(), expected, &mut progress).await?;
        }
        let parts = match plan {
            Plan::Nothing => digests(&self.to, self.page, &mut |_, _| {}).await?,
            _ => self.compare(expected, &mut progress).await?,
        };
        progress(Progress { stage: Stage::Verifying, part: PARTS[2], done: expected, expected });
        let (invariants, broken_before) = self.verify().await?;
        let was_done = matches!(plan, Plan::Nothing);
        if let Plan::Copy(id, _) | Plan::Open(id) = &plan {
            self.finish(id, matches!(plan, Plan::Copy(..))).await?;
        }
        let leases = self.to.read::<_, StoreError>("move", running).await?;
        Ok(MoveReport { parts, leases, invariants, broken_before, was_done })
    }

    /// Closes both stores.
    pub fn close(&self) {
        self.from.close();
        self.to.close();
    }

    /// Takes the source back. Changes made in the target since then are not in it, so that undoing a finished move
    /// needs `is_forced`; a given target is closed permanently.
    ///
    /// # Errors
    /// [`MoveError::NotMoved`] if there is nothing to take back, [`MoveError::NeedsForce`] if it would lose something.
    pub async fn undo(from: &End, to: Option<&End>, is_forced: bool) -> Result<(), MoveError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = open_end(from, true, &clock)?;
        let (id, is_done, left_at) = match read_mark(&store).await? {
            Some(MoveMarker::Leaving { id, at, .. }) => (id, false, at),
            Some(MoveMarker::Moved { id, at, .. }) => (id, true, at),
            _ => return Err(MoveError::NotMoved(from.shown.clone())),
        };
        if is_done && !is_forced {
            return Err(MoveError::NeedsForce);
        }
        if let Some(to) = to {
            let target = open_end(to, true, &clock)?;
            match read_mark(&target).await? {
                Some(
                    MoveMarker::Arriving { id: other, from, .. }
                    | MoveMarker::Arrived { id: other, from, .. },
                ) if other == id => {
                    set(&target, Some(MoveMarker::GivenUp { id, from }), None).await?;
                }
                Some(MoveMarker::GivenUp { .. }) => {}
                _ => return Err(MoveError::OtherMove(to.shown.clone())),
            }
            target.close();
        }
        set(&store, None, Some(left_at)).await?;
        store.close();
        Ok(())
    }

    /// Marks both stores, or finds out where an earlier run has left them.
    async fn plan(&self) -> Result<Plan, MoveError> {
        let [from, to] = &self.names;
        let (source, target) = (read_mark(&self.from).await?, read_mark(&self.to).await?);
        match (source, target) {
            (Some(MoveMarker::Moved { id, .. }), Some(MoveMarker::Arrived { id: other, .. }))
                if id == other =>
            {
                Ok(Plan::Nothing)
            }
            (Some(MoveMarker::Moved { id, .. }), Some(MoveMarker::Arriving { id: other, .. }))
                if id == other =>
            {
                Ok(Plan::Open(id))
            }
            (Some(MoveMarker::Leaving { id, .. }), Some(MoveMarker::Arriving { id: other, cursor, .. }))
                if id == other =>
            {
                Ok(Plan::Copy(id, cursor))
            }
            (Some(MoveMarker::Leaving { id, to: meant, .. }), None) if meant == *to => {
                self.refuse_full_target().await?;
                self.arrive(id).await
            }
            (None | Some(MoveMarker::Arrived { .. }), None) => {
                self.refuse_full_target().await?;
                let entries = self.from.read::<_, StoreError>("move", inbox_counts).await?;
                if entries.set_aside > 0 {
                    return Err(MoveError::InboxSetAside(entries.set_aside));
                }
                let id = format!("{:032x}", self.from.environment().entropy.bits());
                let at = self.from.environment().clock.now();
                set(&self.from, Some(MoveMarker::Leaving { id: id.clone(), to: to.clone(), at }), None)
                    .await?;
                if read_mark(&self.to).await?.is_some() {
                    set(&self.from, None, None).await?;
                    return Err(MoveError::SamePlace);
                }
                self.arrive(id).await
            }
            (Some(MoveMarker::Leaving { to, .. } | MoveMarker::Moved { to, .. }), _) => {
                Err(MoveError::AlreadyMoved { from: from.clone(), to })
            }
            (Some(MoveMarker::Arriving { .. } | MoveMarker::GivenUp { .. }), _) => {
                Err(MoveError::NotWhole(from.clone()))
            }
            (None | Some(MoveMarker::Arrived { .. }), Some(_)) => Err(MoveError::OtherMove(to.clone())),
        }
    }

    async fn arrive(&self, id: String) -> Result<Plan, MoveError> {
        let cursor = Cursor::start();
        let mark =
            MoveMarker::Arriving { id: id.clone(), from: self.names[0].clone(), cursor: cursor.clone() };
        set(&self.to, Some(mark), None).await?;
        Ok(Plan::Copy(id, cursor))
    }

    async fn refuse_full_target(&self) -> Result<(), MoveError> {
        let is_blank = self.to.read::<_, StoreError>("move", is_blank).await?;
        if is_blank { Ok(()) } else { Err(MoveError::NotEmpty(self.names[1].clone())) }
    }

    /// The number of jobs and audit records.
    async fn expected(&self) -> Result<u64, StoreError> {
        let count = |tx: &mut ReadTx<'_>| {
            let jobs: u64 = tx.db.counts()?.lanes.values().flatten().sum();
            Ok(jobs + tx.db.numbers()?.record - 1)
        };
        self.from.read("move", count).await
    }

    /// Turns the entries of the SQL inbox into jobs; no more arrive, because the source is closed.
    async fn drain_inbox(&self) -> Result<(), StoreError> {
        loop {
            let take = |tx: &mut WriteTx<'_>| -> Result<bool, StoreError> {
                let Some(inbox) = tx.db()?.inbox_mut() else { return Ok(true) };
                let entries = inbox.take_inbox(limits::INBOX_ENTRIES_PER_COMMIT)?;
                entries.iter().try_for_each(|entry| inbox::deliver(tx, entry))?;
                Ok(entries.is_empty())
            };
            if self.from.write("move", Kind::Ordinary, take).await? {
                return Ok(());
            }
        }
    }

    /// Copies page by page; the next one is read while one is written.
    async fn copy(
        &self,
        id: &str,
        cursor: Cursor,
        expected: u64,
        progress: &mut impl FnMut(Progress),
    ) -> Result<(), StoreError> {
        let mut done = 0;
        let mut batch = read(&self.from, cursor, self.page).await?;
        while let Some(current) = batch {
            let (rows, part) = (current.rows.len() as u64, PARTS[current.rows.part()]);
            let next = current.next.clone();
            let mark =
                MoveMarker::Arriving { id: id.to_owned(), from: self.names[0].clone(), cursor: next.clone() };
            let written = write(&self.to, current, mark);
            let (written, following) = tokio::join!(written, read(&self.from, next, self.page));
            written?;
            done += rows;
            progress(Progress { stage: Stage::Copying, part, done, expected });
            batch = following?;
        }
        Ok(())
    }

    /// Reads both stores and compares their content.
    async fn compare(
        &self,
        expected: u64,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Vec<PartDigest>, MoveError> {
        let mut report_progress =
            |part, done| progress(Progress { stage: Stage::Comparing, part, done, expected });
        let mut ignored = |_, _| {};
        let (source, target) = tokio::join!(
            digests(&self.from, self.page, &mut ignored),
            digests(&self.to, self.page, &mut report_progress)
        );
        let (source, target) = (source?, target?);
        match source.iter().zip(&target).find(|(source, target)| source != target) {
            Some((source, target)) => {
                Err(MoveError::Differs { sent: source.to_string(), arrived: target.to_string() })
            }
            None => Ok(target),
        }
    }

    /// Checks the invariants of the target: how many hold, and which do not but did not in the source either, such as
    /// those that only maintenance restores after a long stop.
    async fn verify(&self) -> Result<(usize, Vec<&'static str>), MoveError> {
        let reports = self.to.verify().await?;
        let broken: Vec<_> = reports.iter().filter(|report| !report.holds()).collect();
        if broken.is_empty() {
            return Ok((reports.len(), Vec::new()));
        }
        let before = self.from.verify().await?;
        let was_broken = |code: &str| before.iter().any(|report| report.code == code && !report.holds());
        let new = broken.iter().filter(|report| !was_broken(report.code));
        let promises: Vec<String> =
            new.map(|report| format!("{}: {}", report.promise, report.findings.join(", "))).collect();
        if promises.is_empty() {
            let before = broken.iter().map(|report| report.promise).collect();
            return Ok((reports.len() - broken.len(), before));
        }
        Err(MoveError::Broken { promises })
    }

    /// The source first: at no time could both be served.
    async fn finish(&self, id: &str, is_source_open: bool) -> Result<(), StoreError> {
        let [from, to] = self.names.clone();
        let (id, at) = (id.to_owned(), self.to.environment().clock.now());
        let left_at = match read_mark(&self.from).await? {
            Some(MoveMarker::Leaving { at, .. }) => at,
            // It is not known any more.
            _ => Timestamp::MIN,
        };
        if is_source_open {
            set(&self.from, Some(MoveMarker::Moved { id: id.clone(), to, at }), None).await?;
        }
        set(&self.to, Some(MoveMarker::Arrived { id, from, at }), Some(left_at)).await
    }
}

/// Opens a store even if it is closed by a mark.
fn open_end(end: &End, must_exist: bool, clock: &Arc<dyn Clock>) -> Result<Store, MoveError> {
    let path = end.address.strip_prefix("sqlite:").map(Path::new);
    let is_known =
        path.is_some() || end.address.starts_with("postgres://") || end.address.starts_with("postgresql://");
    if !is_known {
        return Err(MoveError::NoDatabase(end.shown.clone()));
    }
    if must_exist && path.is_some_and(|path| !path.exists()) {
        return Err(MoveError::Missing(end.shown.clone()));
    }
    let mut environment = Environment::new(clock.clone(), Entropy::from_system(), StoreOptions::default());
    environment.is_moving = true;
    let place = end.shown.clone();
    Store::open_in(&end.address, environment).map_err(|error| {
        // A build without this database does not know the address, which may have a password.
        let error = match error {
            OpenError::UnknownAddress(_) => OpenError::UnknownAddress(place.clone()),
            error => error,
        };
        MoveError::Open { place, error }
    })
}

/// Refuses a store that other processes have open, after waiting for them to close it.
fn refuse_in_use(end: &End, wait: Duration) -> Result<(), MoveError> {
    let wait_limit = WaitLimit::for_duration(wait);
    while is_in_use(&end.address).map_err(|error| MoveError::Open { place: end.shown.clone(), error })? {
        if wait_limit.is_over() {
            return Err(MoveError::InUse(end.shown.clone()));
        }
        std::thread::sleep(limits::RECONNECT_EVERY_MIN);
    }
    Ok(())
}

fn is_in_use(address: &str) -> Result<bool, OpenError> {
    #[cfg(feature = "sqlite")]
    if let Some(path) = address.strip_prefix("sqlite:") {
        return Ok(crate::store::engines::sqlite::transfer::is_in_use(Path::new(path))?);
    }
    #[cfg(feature = "postgres")]
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        return crate::store::engines::postgres::transfer::is_in_use(address);
    }
    Err(OpenError::UnknownAddress(address.to_owned()))
}

async fn read_mark(store: &Store) -> Result<Option<MoveMarker>, StoreError> {
    store.read("move", |tx| MoveMarker::read(tx.db)).await
}

/// Marks a store, and pauses or resumes its SQL inbox. A store that is served from now on was not since `left_at`.
async fn set(store: &Store, mark: Option<MoveMarker>, left_at: Option<Timestamp>) -> Result<(), StoreError> {
    let work = move |tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
        if left_at.is_some_and(|at| tx.now.since(at) > limits::HEARTBEAT_EVERY) {
            tx.begin_service()?;
        }
        let db = tx.db()?;
        if let Some(inbox) = db.inbox_mut() {
            inbox.set_inbox_paused(mark.as_ref().is_some_and(MoveMarker::is_shut))?;
        }
        MoveMarker::write(db, mark.as_ref())
    };
    store.write("move", Kind::Ordinary, work).await
}

async fn read(store: &Store, cursor: Cursor, page: Page) -> Result<Option<Batch>, StoreError> {
    store.read("move", move |tx| Batch::read(tx.db, &cursor, page)).await
}

/// Writes rows and the mark that records it, in one commit.
async fn write(store: &Store, batch: Batch, mark: MoveMarker) -> Result<(), StoreError> {
    let work = move |tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
        let db = tx.db()?;
        batch.write(db)?;
        MoveMarker::write(db, Some(&mark))
    };
    store.write("move", Kind::Submission, work).await
}

async fn digests(
    store: &Store,
    page: Page,
    progress: &mut impl FnMut(&'static str, u64),
) -> Result<Vec<PartDigest>, StoreError> {
    let (mut digests, mut cursor, mut done) = (Digests::default(), Cursor::start(), 0);
    while let Some(batch) = read(store, cursor, page).await? {
        digests.take(&batch);
        done += batch.rows.len() as u64;
        progress(PARTS[batch.rows.part()], done);
        cursor = batch.next;
    }
    Ok(digests.finish())
}

/// Whether a store was never used.
fn is_blank(tx: &mut ReadTx<'_>) -> Result<bool, StoreError> {
    let page = Page { rows: 1, bytes: 1 };
    let numbers = tx.db.numbers()?;
    let first = Batch::read(tx.db, &Cursor::start(), page)?;
    let is_unused = matches!(first, Some(Batch { rows: Rows::Numbers(_), .. }));
    let has_mark = !tx.db.documents(DocumentKind::Transfer)?.is_empty();
    let entries = inbox_counts(tx)?;
    let is_new = numbers == (SequenceNumbers { seq: crate::job::Seq(1), record: 1, ..numbers });
    Ok(is_new && is_unused && !has_mark && entries == InboxCounts::default())
}

fn inbox_counts(tx: &mut ReadTx<'_>) -> Result<InboxCounts, StoreError> {
    tx.db.inbox().map_or(Ok(InboxCounts::default()), Inbox::inbox_counts)
}

fn running(tx: &mut ReadTx<'_>) -> Result<u64, StoreError> {
    Ok(tx.db.counts()?.sum(JobState::Running, |_| true))
}
