//! Where the stores to be measured are: a file on the disk of the current folder, or, with `--postgres`, a server of its
//! own with its files there too, with every safeguard of a real one switched on.

use std::sync::OnceLock;

use tempfile::TempDir;

use crate::cluster::{Cluster, schema_at};

static SERVER: OnceLock<Cluster> = OnceLock::new();

/// Whether PostgreSQL is to be measured.
pub(crate) fn is_postgres() -> bool {
    std::env::args().any(|argument| argument == "--postgres")
}

/// The address of the server.
pub(crate) fn server() -> String {
    SERVER.get_or_init(|| Cluster::start(&["-c max_connections=100", "-c max_wal_size=4GB"])).address()
}

/// The address of a new store, and the files that go with it.
pub(crate) fn new() -> (Option<TempDir>, String) {
    if is_postgres() {
        return (None, schema_at(&server()));
    }
    let files = tempfile::tempdir_in(".").expect("a directory on the disk to be measured");
    let address = format!("sqlite:{}", files.path().join("jobs.db").display());
    (Some(files), address)
}
