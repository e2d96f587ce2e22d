//! Where the stores of most tests lie.

use std::path::PathBuf;

use tempfile::TempDir;

/// Bytes a disk in memory has free if it is to be used: those of containers are often small.
const FREE_MIN: u64 = 2 << 30;

/// A folder for a store whose power is not cut: where there is a disk in memory, it need not wait for a real one. A store on
/// disk reserves 24 MB when it is made, which a real disk writes for each test.
pub fn store_folder() -> TempDir {
    let memory = "/dev/shm";
    let has_space =
        rustix::fs::statvfs(memory).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= FREE_MIN);
    let place = if has_space { PathBuf::from(memory) } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("windlass-").tempdir_in(place).expect("a directory for the test")
}
