//! What survives a crash: processes killed at any moment, damaged files, failing and full disks, several processes on
//! one file. The children are this very test binary, started again with a task in the environment.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod campaign;
mod child;
mod damage;
mod disk;
mod files;
mod fingerprint;
mod freeze;
mod kill;
mod ledger;
mod load;
mod powerloss;
mod process;
mod processes;
mod server;
mod sync;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::error::OpenError;
use windlass::store::{Environment, Store, StoreOptions};

/// Not a test of its own: what a child process does. Started without a task it has nothing to do.
#[test]
fn child() {
    if let Some(task) = process::Task::from_environment() {
        child::run(&task);
    }
}

/// The address of the database in a folder.
fn address(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("jobs.db").display())
}

/// Opens a store whose clock stands still.
fn open_at(address: &str, now: i64) -> Result<(Store, Arc<ManualClock>), OpenError> {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(now)));
    let env = Environment::new(clock.clone(), Entropy::from_system(), StoreOptions::default());
    Ok((Store::open_in(address, env)?, clock))
}

/// Lets a store that is about to be made find its reserve, which takes longer to write than all the rest.
fn lend_reserve(from: &Path, to: &Path) {
    fs::hard_link(from.join("jobs.db-reserve"), to.join("jobs.db-reserve")).expect("both are on one disk");
}

/// Every invariant holds, once time has acted.
async fn verify(store: &Store, context: &str) {
    while store.tick().await.unwrap_or_else(|error| panic!("{context}: {error}")).has_more {}
    let results = store.verify().await.unwrap_or_else(|error| panic!("{context}: {error}"));
    for result in results {
        assert!(result.holds(), "{context}: {}: {}: {:#?}", result.code, result.promise, result.findings);
    }
}
