//! What the library's own tests of workers expect of the crate that runs them.

use std::time::Duration;

use tempfile::TempDir;

/// When the clocks of tests begin.
pub(crate) const START: i64 = 1_800_000_000_000;

/// Which engine is behind the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Memory,
    Sqlite,
}

impl On {
    /// The address of a new store, and the files that go with it.
    pub(crate) fn address(self) -> (Option<TempDir>, String) {
        match self {
            On::Memory => (None, "memory:".to_owned()),
            On::Sqlite => {
                let files = windlass_testkit::store_folder();
                let address = windlass_testkit::store_in(files.path());
                (Some(files), address)
            }
        }
    }

    /// The engine of the store that a bench with this address has.
    pub(crate) fn of(address: &str) -> On {
        if address == "memory:" { On::Memory } else { On::Sqlite }
    }
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
