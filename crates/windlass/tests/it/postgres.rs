//! What only a database server can go through: several nodes on it, connections that break, restarts, a standby that takes
//! over. What holds on every engine is in the other suites, which run here too.

mod appends;
mod bounds;
mod clock;
mod deleted_keys;
mod durability;
mod faults;
pub(crate) mod fleet;
mod forgotten;
mod lanes;
mod nodes;
mod plans;
mod pooler;
pub(crate) mod proxy;
mod restored;
mod schema;
mod skew;
mod snapshot;
mod sql_submit;
mod tls;
mod turns;

use std::time::Duration;

use windlass::internal::Timing;
use windlass::store::caller::Caller;
use windlass::store::{Environment, Store, StoreOptions, SubmitOptions};

use crate::fixture::observed::{numbered, numbers, verify};

/// Longer than anything here takes, however slow the machine.
const LONG: Duration = Duration::from_secs(120);

fn open(address: &str) -> Store {
    Store::open(address, StoreOptions::default()).expect("the store opens")
}

/// A node of which every submission waits for its turn.
fn open_in_turn(address: &str) -> Store {
    open(&in_turn(address))
}

/// The address for a node of which every submission waits for its turn.
fn in_turn(address: &str) -> String {
    format!("{address}&append=off")
}

/// A node that waits for other times than usual.
fn open_with(address: &str, timing: Timing) -> Store {
    let mut env = Environment::system(StoreOptions::default());
    env.timing = timing;
    Store::open_in(address, env).expect("the store opens")
}

/// Outages as they would be if all limits were some forty times as short.
fn hasty() -> Timing {
    Timing {
        request_max: Duration::from_millis(600),
        outage_max: Duration::from_millis(500),
        call_max: Duration::from_millis(900),
        ..Timing::default()
    }
}

async fn submit(store: &Store, number: usize) {
    store.submit(&Caller::local(), vec![numbered(number)], SubmitOptions::default()).await.expect("is taken");
}

/// How many jobs there are.
async fn numbers_of_jobs(store: &Store) -> u64 {
    store.stats(&Caller::local()).await.unwrap().states.values().sum()
}
