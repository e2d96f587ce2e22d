//! What the tests of the server and the command line start from: a server in this process or in one of its own, an HTTP
//! client that hides nothing, a PostgreSQL server, a terminal, a browser, and a receiver of webhooks.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test that cannot continue should say where")]

mod binary;
pub mod browser;
pub mod client;
pub mod cluster;
pub mod faketime;
mod program;
pub mod receiver;
mod server;
mod site;
mod store_folder;
mod terminal;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::binary::binary;
pub use self::program::{ServerProcess, store_in, terminate, windlass};
pub use self::server::InProcessServer;
pub use self::site::{CommandOutput, Site, run, run_with};
pub use self::store_folder::store_folder;
pub use self::terminal::{Terminal, at_terminal};

/// Longer than anything takes that a test waits for, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A certificate or key for tests: `certificate.pem` and `key.pem` of a server at `localhost`, `authority.pem`,
/// `receiver.pem` and `receiver.key` of a receiver of webhooks.
pub fn certificate(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("certificates").join(name);
    assert!(file.is_file(), "{} does not exist", file.display());
    file
}
