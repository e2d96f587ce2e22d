//! Moving a store: everything arrives as it was, killed as often as one likes, and the two ends are never both served.

mod ends;
mod inbox;
mod kill;
mod rich;
mod tables;

use std::sync::Arc;

use windlass::clock::Clock;
use windlass::error::{MoveError, OpenError, StoreError};
use windlass::limits;
use windlass::store::engine::Page;
use windlass::store::move_store::{End, Move, MoveOptions, MoveReport};
use windlass::store::{Store, StoreOptions};

pub(crate) fn end(address: &str) -> End {
    End { address: address.to_owned(), shown: address.to_owned() }
}

fn options(clock: Arc<dyn Clock>, rows: usize) -> MoveOptions {
    let page = Page { rows, bytes: limits::MOVE_BYTES_PER_COMMIT };
    // The database ends a connection a moment after it was closed here.
    MoveOptions { page, wait: limits::MOVE_WAIT_MAX, clock }
}

/// Moves a store, so many rows at a time.
pub(crate) async fn moved(
    from: &str,
    to: &str,
    clock: Arc<dyn Clock>,
    rows: usize,
) -> Result<MoveReport, MoveError> {
    let moving = Move::open(&end(from), &end(to), &options(clock, rows))?;
    let report = moving.run(|_| {}).await;
    moving.close();
    report
}

/// Why a store is not served.
fn refusal(address: &str) -> String {
    match Store::open(address, StoreOptions::default()) {
        Err(OpenError::Store(StoreError::Moved(why))) => why,
        Err(other) => panic!("refused, but because {other}"),
        Ok(_) => panic!("it is served"),
    }
}
