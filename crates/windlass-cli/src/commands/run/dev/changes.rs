//! Notices that a file below a folder was changed, added or removed, by looking now and then.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::limits::{WATCH_EVERY, WATCHED_FILES_MAX};

/// Folders of what programs make themselves.
const SKIPPED: [&str; 6] = ["node_modules", "target", "__pycache__", "dist", "build", "venv"];

/// Ends of the names of files that programs write while they run: a restart because of them would never end.
const WRITTEN: [&str; 8] = [".db", ".db-shm", ".db-wal", ".log", ".pid", ".pyc", ".sqlite", ".tmp"];

/// Never returns, except with an error. Reports every change since `last`.
pub(super) async fn watch(folder: &Path, mut last: u64, changed: &watch::Sender<()>) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let now = folder_state(folder.to_owned()).await?;
        if now != last {
            last = now;
            changed.send_replace(());
        }
    }
}

/// The state of a folder.
pub(super) async fn folder_state(folder: PathBuf) -> anyhow::Result<u64> {
    Ok(tokio::task::spawn_blocking(move || fingerprint(&folder)).await?)
}

/// A number that differs if a file differs in name, size or time of change.
fn fingerprint(folder: &Path) -> u64 {
    let (mut hash, mut left, mut folders) =
        (DefaultHasher::new(), WATCHED_FILES_MAX, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_written = WRITTEN.iter().any(|end| name.ends_with(end));
            if name.starts_with('.') || is_written || SKIPPED.contains(&&*name) {
                continue;
            }
            // Links are not followed: they may lead round in a circle.
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_dir() {
                folders.push(path);
            } else if left > 0 {
                left -= 1;
                (path, found.len(), found.modified().ok()).hash(&mut hash);
            }
        }
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn a_changed_file_is_noticed_and_what_programs_write_themselves_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (source, cache) = (folder.path().join("worker.py"), folder.path().join("__pycache__"));
        std::fs::create_dir(&cache).unwrap();
        let empty = fingerprint(folder.path());
        std::fs::write(&source, "1").unwrap();
        let first = fingerprint(folder.path());
        std::fs::write(cache.join("worker.pyc"), "1").unwrap();
        for written in [".swp", "worker.log", "jobs.db", "jobs.db-wal"] {
            std::fs::write(folder.path().join(written), "1").unwrap();
        }
        assert_eq!(fingerprint(folder.path()), first);
        std::fs::write(&source, "22").unwrap();
        assert!(first != empty && fingerprint(folder.path()) != first);
    }
}
