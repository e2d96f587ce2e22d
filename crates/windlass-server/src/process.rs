//! What this process may have and what it uses, as the system tells.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Allows this process as many open files as the system lets it have, and says how many that is; none means no limit.
///
/// Systems start programs with a low limit for the sake of old ones; every connection is an open file.
pub(crate) fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // Then it stays as it was.
        Err(_) => limit.current,
    }
}

/// Processor time used so far.
pub(crate) fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Memory that is not swapped out, where the system tells.
pub(crate) fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    Some(resident * u64::try_from(rustix::param::page_size()).ok()?)
}

/// Files that are open, where the system tells.
pub(crate) fn open_files() -> Option<u64> {
    u64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

/// Files that may be open; none without a limit.
pub(crate) fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// When this process started, in seconds of Unix time, where the system tells.
pub(crate) fn started_at() -> Option<f64> {
    // The name of the program, in parentheses, may hold spaces; the start is the 20th field after it.
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

/// Bytes that are free on the disk of a file, for a user who is not root.
pub(crate) fn free_bytes(file: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(file).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}
