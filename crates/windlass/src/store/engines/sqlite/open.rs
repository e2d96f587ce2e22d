//! The database file: found or created, opened with the settings that durability depends on, checked before it is
//! served, and monitored for being replaced. Its content is handled by the tables.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::busy;
use super::filesystem;
use super::head_marker::{self, Head};
use super::tables::store_error;
use crate::error::{OpenError, StoreError};
use crate::limits;
use crate::store::engine::EngineResult;

/// The first SQLite version whose log cannot lose commits when it restarts from its beginning (the "WAL-reset bug").
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// Files are private to their owner: jobs contain user data.
pub(super) const PRIVATE: u32 = 0o600;

/// The location of a database.
#[derive(Debug, Clone)]
pub(super) struct Location {
    path: PathBuf,
    /// Permissions of the database, also used for the files next to it.
    pub(super) mode: u32,
    /// Whether the file existed before.
    pub(super) was_there: bool,
}

impl Location {
    /// The path of the database.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file next to the database with this suffix.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        beside(&self.path, ending)
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Finds the file or creates an empty one; refuses locations where a database would not be safe.
pub(super) fn locate(path: &Path) -> Result<Location, OpenError> {
    assert_version(rusqlite::version_number())?;
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        return Err(OpenError::UnknownAddress(path.display().to_string()));
    }
    let path = resolve(path)?;
    if let Some(kind) = filesystem::network_file_system(&path) {
        return Err(OpenError::NetworkFileSystem(path.display().to_string(), kind));
    }
    refuse_remains(&path)?;
    let is_new = create(&path).map_err(|error| cannot("create", &path, &error))?;
    let file = fs::metadata(&path).map_err(|error| cannot("look at", &path, &error))?;
    if !file.is_file() {
        return Err(StoreError::Database(format!("`{}` is not a file", path.display())).into());
    }
    Ok(Location { path, mode: file.mode() & 0o666, was_there: !is_new })
}

/// Refuses a database that is missing or empty where files of an earlier one remain: SQLite would delete the log, and the
/// new store would look as if nothing had ever been submitted. A database has its first page before it has a log.
pub(super) fn refuse_remains(path: &Path) -> Result<(), OpenError> {
    // A link to nowhere is reported where its target is created.
    let is_there = || fs::metadata(path).map_or(path.is_symlink(), |file| !file.is_file() || file.len() > 0);
    if is_there() {
        return Ok(());
    }
    let (head, log) = (beside(path, "-head"), beside(path, "-wal"));
    let commits = head_marker::read_head(&head).map_or(0, |head| head.commits);
    let has_log = fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    // Checked again: another process may have created the database and committed between the two checks.
    if (commits == 0 && !has_log) || is_there() {
        return Ok(());
    }
    let found = if has_log { log } else { head };
    Err(OpenError::DatabaseMissing {
        path: path.display().to_string(),
        found: found.display().to_string(),
        commits,
    })
}

fn assert_version(found: i32) -> EngineResult<()> {
    if found >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    Err(StoreError::Database(format!(
        "SQLite {found} can lose commits, at least {SQLITE_VERSION_MIN} is needed"
    )))
}

pub(super) fn cannot(what: &str, path: &Path, error: &io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full,
        _ => StoreError::Database(format!("cannot {what} `{}`: {error}", path.display())),
    }
}

/// The canonical absolute path of the file: all processes must find the files next to it.
fn resolve(path: &Path) -> EngineResult<PathBuf> {
    if let Ok(whole) = path.canonicalize() {
        return Ok(whole);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| cannot("find the directory", folder, &error))?;
    let name = path
        .file_name()
        .ok_or_else(|| StoreError::Database(format!("`{}` does not name a file", path.display())))?;
    Ok(folder.join(name))
}

/// Creates an empty file that only its owner can read, unless there is one; returns whether it did.
pub(super) fn create(path: &Path) -> io::Result<bool> {
    // Closing a file drops every lock that this process has on it, including SQLite's. Under this mutex, the new file
    // cannot have been opened with SQLite before it is closed here; an existing file is not opened at all.
    static CREATING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    match OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path) {
        Ok(_) => sync_folder(path).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the name of a file survive a power cut; SQLite does so for its log, but not for the database.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    // The parent of a bare name is the empty path, which cannot be opened.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The connection that writes; it does not touch the log until [`own_log`] is called.
pub(super) fn connect_writer(path: &Path) -> EngineResult<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, limits::WRITER_CACHE_KIB)?;
    // Until the file has passed every check: a damaged log must not be moved or removed.
    leave_log(&connection)?;
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(store_error)?;
    if mode != "wal" {
        return Err(StoreError::Database(format!("journal mode is {mode}, wal was asked for")));
    }
    Ok(connection)
}

/// A read-only connection with a cache of up to `cache_kib`.
pub(super) fn connect_reader(path: &Path, cache_kib: i64) -> EngineResult<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, cache_kib)?;
    connection.pragma_update(None, "query_only", true).map_err(store_error)?;
    leave_log(&connection)?;
    Ok(connection)
}

fn connect(path: &Path, access: OpenFlags, cache_kib: i64) -> EngineResult<Connection> {
    let connection =
        Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(store_error)?;
    busy::wait_for_locks(&connection)?;
    let settings: [(&str, i64); 9] = [
        // Only applies to a new file.
        ("page_size", limits::PAGE_BYTES),
        // Every commit is on disk before it is acknowledged.
        ("synchronous", 2),
        ("foreign_keys", 0),
        // With a mapped file, a disk error becomes a signal that ends the process.
        ("mmap_size", 0),
        ("cache_size", -cache_kib),
        ("temp_store", 2),
        ("journal_size_limit", i64::try_from(limits::LOG_BYTES_KEPT).unwrap_or(i64::MAX)),
        // SQLite's own checkpoints ignore a failed fsync and retry, by when the pages may be lost.
        ("wal_autocheckpoint", 0),
        ("trusted_schema", 0),
    ];
    for (name, value) in settings {
        connection.pragma_update(None, name, value).map_err(store_error)?;
    }
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Closing this connection then neither moves the log nor removes it.
pub(super) fn leave_log(connection: &Connection) -> EngineResult<()> {
    let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(config, true).map(drop).map_err(store_error)
}

/// Closing this connection, if it is the last, then moves the log and removes it.
pub(super) fn own_log(connection: &Connection) -> EngineResult<()> {
    let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(config, false).map(drop).map_err(store_error)
}

/// Refuses a file that SQLite reports as damaged.
pub(super) fn quick_check(connection: &Connection) -> EngineResult<()> {
    let finding: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(store_error)?;
    if finding == "ok" { Ok(()) } else { Err(StoreError::Damaged(finding)) }
}

/// Refuses a file with an inconsistent index on jobs, which [`quick_check`] does not compare with the rows: a job
/// missing in the index would look as if it never existed. Takes about 2 µs per job. The index of the audit trail would
/// take twice that and loses no job; verification checks it.
pub(super) fn check_indexes(connection: &Connection) -> EngineResult<()> {
    for table in ["lanes", "policies", "jobs", "hot", "edges"] {
        let check = format!("PRAGMA integrity_check({table})");
        let finding: String = connection.query_row(&check, [], |row| row.get(0)).map_err(store_error)?;
        if finding != "ok" {
            return Err(StoreError::Damaged(finding));
        }
    }
    Ok(())
}

/// The store's id and its last commit.
pub(super) fn head(connection: &Connection) -> EngineResult<Head> {
    connection
        .query_row("SELECT store_id, commits FROM meta", [], |row| {
            Ok(Head { store: row.get(0)?, commits: row.get::<_, i64>(1)?.unsigned_abs() })
        })
        .map_err(store_error)
}

/// The opened files, to detect when their names refer to other files or the database is truncated.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    files: [(PathBuf, Option<(u64, u64)>); 3],
    /// The greatest length of the database file seen so far.
    longest: u64,
}

impl Identity {
    /// The identity of the database, its log and the shared memory with the locks of the log; a connection must have
    /// read from it. If the shared memory were replaced, another process would lock another file and overwrite the log.
    pub(super) fn read(location: &Location) -> Identity {
        let files = [location.path.clone(), location.beside("-wal"), location.beside("-shm")];
        Identity { longest: length(&files[0]), files: files.map(|path| (path.clone(), inode(&path))) }
    }

    /// Returns an error if one of the files was removed or replaced, or the database was truncated: anything written
    /// from then on would be lost.
    pub(super) fn check(&mut self) -> EngineResult<()> {
        for (path, opened) in &self.files {
            if inode(path) != *opened {
                let reason = format!(
                    "the file `{}` was replaced or removed; put it back, then restart",
                    path.display()
                );
                return Err(StoreError::Stopped(reason));
            }
        }
        let path = &self.files[0].0;
        let found = length(path);
        // A `VACUUM` by another program makes the file shorter too; its header shows it then.
        if found < self.longest && length_by_header(path).is_none_or(|length| found < length) {
            let reason = format!(
                "the file `{}` was truncated: it has {found} bytes instead of {}; restore a backup",
                path.display(),
                self.longest
            );
            return Err(StoreError::Stopped(reason));
        }
        self.longest = found;
        Ok(())
    }
}

/// The length of a database file according to its header: the page size is at byte 16 (1 means 65536), the number of
/// pages at byte 28.
fn length_by_header(path: &Path) -> Option<u64> {
    let mut header = [0; 32];
    // Left open: closing it would release SQLite's locks on the file in this process. It happens once per `VACUUM`.
    let file = ManuallyDrop::new(File::open(path).ok()?);
    file.read_exact_at(&mut header, 0).ok()?;
    let size = u16::from_be_bytes(*header[16..].first_chunk()?);
    let size = if size == 1 { 1 << 16 } else { u64::from(size) };
    Some(size * u64::from(u32::from_be_bytes(*header[28..].first_chunk()?)))
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_sqlite_is_refused() {
        assert_eq!(assert_version(rusqlite::version_number()), Ok(()));
        assert!(assert_version(3_051_002).is_err());
    }

    #[test]
    fn a_place_that_holds_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("none/jobs.db"), folder.path().to_owned(), PathBuf::from(":memory:")]
        {
            assert!(locate(&path).is_err(), "{}", path.display());
        }
        let missing = locate(&folder.path().join("none/jobs.db")).unwrap_err().to_string();
        assert!(missing.contains("cannot find the directory"), "{missing}");
    }

    #[test]
    fn a_new_file_is_distinguished_from_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        assert!(!locate(&path).unwrap().was_there);
        assert!(locate(&path).unwrap().was_there);
    }
}
