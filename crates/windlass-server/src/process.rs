//! Limits and resource usage of this process.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Raises the limit of open files to the maximum, and returns it; None means no limit.
///
/// The default limit is low for the sake of old programs; every connection is an open file.
pub(crate) fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // The limit stays as it was.
        Err(_) => limit.current,
    }
}

/// Prevents programs of the same user, such as those it starts, from reading this process's environment and memory, which
/// contain its key.
pub(crate) fn hide_from_others() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(%error, "programs that this worker runs may be able to read its key");
    }
}

/// Warns if other users can read or change a file with a secret.
pub(crate) fn warn_of_readers(what: &str, path: &Path) {
    let Ok(found) = std::fs::metadata(path) else { return };
    let mode = found.permissions().mode();
    if is_for_others(mode) {
        let (path, mode) = (path.display(), mode & 0o777);
        tracing::warn!(
            "{what} {path} can be read or written by others (mode {mode:03o}); run: chmod 600 \
            {path}"
        );
    }
}

/// Whether anyone but the owner may write a file, or anyone but owner and group may read it. Keys are often given to a
/// program by its group.
fn is_for_others(mode: u32) -> bool {
    mode & 0o026 != 0
}

/// CPU time used so far.
pub(crate) fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Resident memory, if the system reports it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    Some(resident * u64::try_from(rustix::param::page_size()).ok()?)
}

/// Number of open files, if the system reports it.
pub(crate) fn open_files() -> Option<u64> {
    u64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

/// Limit of open files; None without a limit.
pub(crate) fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Start time of this process in Unix time, if the system reports it.
pub(crate) fn started_at() -> Option<f64> {
    // The program's name, in parentheses, may contain spaces; the start is the 20th field after it.
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    #[allow(clippy::cast_precision_loss, reason = "some hundred ticks a second")]
    Some(booted + ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Bytes of a SQLite database and its write-ahead log.
pub(crate) fn store_bytes(file: &Path) -> u64 {
    let log = format!("{}-wal", file.display());
    [file, Path::new(&log)].iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum()
}

/// Free bytes on the disk of a file, for users other than root.
pub(crate) fn free_bytes(file: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(file).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::is_for_others;

    #[test]
    fn a_secret_is_for_its_owner_and_perhaps_a_group() {
        for safe in [0o600, 0o400, 0o640, 0o440, 0o100_600] {
            assert!(!is_for_others(safe), "{safe:o}");
        }
        for open in [0o644, 0o604, 0o660, 0o666, 0o602, 0o620, 0o100_644] {
            assert!(is_for_others(open), "{open:o}");
        }
    }
}
