//! A copy of the database while it is in use: one snapshot, complete or not present at all. It has no schedule and
//! removes no old copies.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::open::{cannot, connect_reader, create, sync_folder};
use super::tables::store_error;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::EngineResult;

/// Copies the database at `from` to a new file that only its owner can read.
pub(crate) fn backup(from: &Path, to: &Path) -> EngineResult<()> {
    let exists = || cannot("write a backup to", to, &io::Error::from(ErrorKind::AlreadyExists));
    if fs::symlink_metadata(to).is_ok() {
        return Err(exists());
    }
    // Uses another name until it is complete: a partial backup must never be mistaken for a complete one.
    let partial = partial_name(to);
    let _lock = begin_partial(&partial).map_err(|error| cannot("create", &partial, &error))?;
    let outcome = copy(from, &partial).and_then(|()| {
        if fs::symlink_metadata(to).is_ok() {
            return Err(exists());
        }
        fs::rename(&partial, to).and_then(|()| sync_folder(to)).map_err(|error| cannot("name", to, &error))
    });
    if outcome.is_err()
        && let Err(error) = fs::remove_file(&partial)
    {
        tracing::warn!(path = %partial.display(), %error, "cannot remove an incomplete backup");
    }
    outcome
}

/// Creates the file of an incomplete backup, or empties the one that an interrupted backup left behind. Refuses one that
/// another backup is writing: it has locked it, and the system releases the lock when a process ends in any way.
fn begin_partial(partial: &Path) -> io::Result<File> {
    create(partial)?;
    let file = OpenOptions::new().write(true).open(partial)?;
    let is_same = |file: &File| Ok::<_, io::Error>(file.metadata()?.ino() == fs::metadata(partial)?.ino());
    // The other backup may have been completed between opening and locking; then this is no longer the file of that name.
    if file.try_lock().is_err() || !is_same(&file).unwrap_or(false) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "another backup to this file is in progress"));
    }
    file.set_len(0)?;
    Ok(file)
}

/// The name of a backup until it is complete.
pub(crate) fn partial_name(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push("-partial");
    PathBuf::from(name)
}

fn copy(from: &Path, to: &Path) -> EngineResult<()> {
    let source = connect_reader(from, limits::READER_CACHE_KIB)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(to, flags).map_err(store_error)?;
    // The file is useless before it is complete, and is synced then.
    target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").map_err(store_error)?;
    {
        let backup = Backup::new(&source, &mut target).map_err(store_error)?;
        // In one step: otherwise every commit would make it start over.
        match backup.step(-1).map_err(store_error)? {
            StepResult::Done => {}
            _ => return Err(StoreError::Database("the backup could not get a lock".to_owned())),
        }
    }
    target.close().map_err(|(_, error)| store_error(error))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|error| cannot("sync", to, &error))
}

/// Makes sure that a file and its name are on disk.
pub(crate) fn keep_name(path: &Path) -> EngineResult<()> {
    let kept = File::open(path).and_then(|file| file.sync_all()).and_then(|()| sync_folder(path));
    kept.map_err(|error| cannot("sync", path, &error))
}
