//! What a command changes about its own process, and files that hold its secrets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
pub(crate) fn make_undumpable() {
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
