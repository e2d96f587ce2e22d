//! Turns a backup into a store: copies, checks and fences it. Between the backup and the loss, jobs were claimed that
//! the copy does not know of, and their workers may still run: a new generation makes all their fences stale.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{Clock, ManualClock, SystemClock, Timestamp};
use crate::entropy::Entropy;
use crate::error::{ActionError, RestoreError, StoreError};
use crate::job::JobState;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::documents::counters::Counts;
use crate::store::engine::RecordQuery;
use crate::store::engines::sqlite::{backup, migrate};
use crate::store::environment::{Environment, StoreOptions};
use crate::store::tx::read_tx::ReadTx;

/// The current phase of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restoring {
    /// Copying the file.
    Copying,
    /// Checking the copy.
    Checking,
    /// Beginning a new generation and releasing jobs that were running.
    Fencing,
}

/// The result of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Total number of jobs.
    pub jobs: u64,
    /// Number of jobs that are not final.
    pub open: u64,
    /// The new generation.
    pub generation: u64,
    /// Number of jobs that were running in the backup and are claimable again.
    pub released: u64,
    /// Number of invariants that were checked.
    pub invariants: usize,
}

/// Suffixes of the files that belong to a database.
const BESIDE: [&str; 5] = ["", "-wal", "-shm", "-head", "-reserve"];

/// Creates a store at `to` from the backup at `from`.
///
/// # Errors
/// [`RestoreError`] says what is in the way or wrong with the backup; nothing is created at `to` then.
pub async fn restore(
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(Restoring),
) -> Result<RestoreReport, RestoreError> {
    refuse_leftovers(to)?;
    if !from.is_file() {
        return Err(RestoreError::NoBackup(from.display().to_string()));
    }
    if migrate::is_blank_file(from)? {
        return Err(RestoreError::NotAStore(from.display().to_string()));
    }
    // Uses another name until it is complete: a store that was not checked must never be mistaken for one.
    let draft = beside(to, "-restoring");
    clear(&draft)?;
    progress(Restoring::Copying);
    copy(from, &draft)?;
    let outcome = check_and_fence(&draft, &mut progress).await.and_then(|restored| {
        refuse_leftovers(to)?;
        name(&draft, to)?;
        Ok(restored)
    });
    if outcome.is_err() {
        clear(&draft)?;
    }
    outcome
}

/// Gives the checked store its name. The database comes first and is on disk before the files beside it are named: whenever
/// that is interrupted, there is a whole store or none, and nothing that looks like the remains of one. A store without
/// its head marker only begins one more generation. The log comes before it, in case closing the store left one.
fn name(draft: &Path, to: &Path) -> Result<(), RestoreError> {
    for ending in ["-wal", "", "-head", "-reserve"] {
        let part = beside(draft, ending);
        if part.exists() {
            std::fs::rename(&part, beside(to, ending)).map_err(|error| io_error(&part, &error))?;
        }
        if ending.is_empty() {
            backup::keep_name(to)?;
        }
    }
    clear(draft)?;
    Ok(backup::keep_name(to)?)
}

async fn check_and_fence(
    draft: &Path,
    progress: &mut impl FnMut(Restoring),
) -> Result<RestoreReport, RestoreError> {
    progress(Restoring::Checking);
    let store = open(draft, Arc::new(SystemClock::new()))?;
    let written = store.read::<_, StoreError>("restore", last_moment).await?;
    store.close();
    // As of the time of the backup: timers due since then have not run, which is not an error in the copy.
    let store = open(draft, Arc::new(ManualClock::new(written.unwrap_or(Timestamp::MIN))))?;
    let reports = store.verify().await?;
    store.close();
    let broken = reports.iter().filter(|report| !report.holds());
    let broken: Vec<String> =
        broken.map(|report| format!("{}: {}", report.promise, report.findings.join(", "))).collect();
    if !broken.is_empty() {
        return Err(RestoreError::Broken { promises: broken });
    }
    let store = open(draft, Arc::new(SystemClock::new()))?;
    progress(Restoring::Fencing);
    let begun = store.begin_generation(&Caller::system(), "restored from a backup").await;
    let counted = store.read::<_, StoreError>("restore", |tx| Ok(count(tx.db.counts()?))).await;
    store.close();
    let (begun, (jobs, open)) = (begun.map_err(store_error)?, counted?);
    let (generation, released) = (begun.number, begun.released);
    Ok(RestoreReport { jobs, open, generation, released, invariants: reports.len() })
}

/// Total number of jobs, and number of jobs that are not final.
fn count(counts: &Counts) -> (u64, u64) {
    let by_state = |state: JobState| counts.lanes.values().map(|lane| lane[state as usize]).sum::<u64>();
    let open = JobState::ALL.into_iter().filter(|state| !state.is_final()).map(by_state).sum();
    (JobState::ALL.into_iter().map(by_state).sum(), open)
}

fn store_error(error: ActionError) -> StoreError {
    match error {
        ActionError::Store(error) => error,
        other => StoreError::Database(other.to_string()),
    }
}

fn open(draft: &Path, clock: Arc<dyn Clock>) -> Result<Store, RestoreError> {
    let environment = Environment::new(clock, Entropy::from_system(), StoreOptions::default());
    Ok(Store::open_in(&format!("sqlite:{}", draft.display()), environment)?)
}

/// The time of the last audit record.
fn last_moment(tx: &mut ReadTx<'_>) -> Result<Option<Timestamp>, StoreError> {
    let after = tx.db.numbers()?.record.saturating_sub(2);
    let last = tx.db.records(&RecordQuery { after, limit: 1, ..RecordQuery::default() })?;
    Ok(last.first().map(|record| record.at))
}

fn copy(from: &Path, draft: &Path) -> Result<(), RestoreError> {
    if beside(from, "-wal").exists() {
        // The database was not closed, or is in use: its log belongs to it.
        return Ok(backup::backup(from, draft)?);
    }
    std::fs::copy(from, draft).map_err(|error| io_error(from, &error))?;
    Ok(())
}

fn refuse_leftovers(to: &Path) -> Result<(), RestoreError> {
    let found =
        BESIDE.into_iter().map(|ending| beside(to, ending)).find(|part| part.symlink_metadata().is_ok());
    found.map_or(Ok(()), |part| Err(RestoreError::Exists(part.display().to_string())))
}

fn clear(draft: &Path) -> Result<(), RestoreError> {
    let parts = BESIDE.map(|ending| beside(draft, ending));
    // Also what an interrupted restore was copying.
    for part in parts.into_iter().chain([backup::partial_name(draft)]) {
        if part.exists() {
            std::fs::remove_file(&part).map_err(|error| io_error(&part, &error))?;
        }
    }
    Ok(())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn io_error(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Database(format!("cannot copy, name or remove `{}`: {error}", path.display()))
}
