//! Resource usage of this process.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

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
