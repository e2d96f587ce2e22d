//! The data of one measurement: two schemas in the database, of a store and of a table without Windlass, and round trips
//! to it.

use std::time::Duration;

use windlass::bench::endpoint::with_schema;
use windlass::bench::plain::{CONNECTIONS_OF_A_STORE, PlainConnection};
use windlass::clock::{Stopwatch, machine_time};

use super::{CALLERS, blocking};
use crate::error::Failure;

/// Round trips that are measured at most, and for how long.
const ROUND_TRIPS: usize = 500;
const ROUND_TRIPS_TIME: Duration = Duration::from_secs(1);
/// Connections besides those of nodes: the coordinator's store, and the one that creates and removes the schemas.
const CONNECTIONS_BESIDE: usize = CONNECTIONS_OF_A_STORE + 2;

/// Schemas that no other program uses.
pub(super) struct Scratch {
    /// The address of the store.
    pub(super) store: String,
    /// The address of the table without Windlass.
    pub(super) plain: String,
}

impl Scratch {
    /// Creates the schema of the table; the store creates its own.
    pub(super) async fn create(address: &str) -> anyhow::Result<Scratch> {
        let name = format!("windlass_bench_{}_{}", std::process::id(), machine_time().as_millis());
        let store = with_schema(address, &name);
        let plain = with_schema(address, &format!("{name}_plain"));
        let scratch = Scratch { store, plain: plain.clone() };
        blocking(move || Ok(PlainConnection::open(&plain)?.create()?)).await?;
        Ok(scratch)
    }

    /// Removes both schemas.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        blocking(move || {
            PlainConnection::open(&self.store)?.drop_schema()?;
            Ok(PlainConnection::open(&self.plain)?.drop_schema()?)
        })
        .await
    }
}

/// Times of round trips to the database at an address.
pub(super) async fn round_trips(address: &str) -> anyhow::Result<Vec<Duration>> {
    let address = address.to_owned();
    blocking(move || {
        let mut connection = PlainConnection::open(&address)?;
        // The statement is prepared at its first use.
        connection.round_trip()?;
        let (watch, mut times) = (Stopwatch::start(), Vec::with_capacity(ROUND_TRIPS));
        while times.is_empty() || times.len() < ROUND_TRIPS && watch.elapsed() < ROUND_TRIPS_TIME {
            let one = Stopwatch::start();
            connection.round_trip()?;
            times.push(one.elapsed());
        }
        Ok(times)
    })
    .await
}

/// Fails if the database does not accept as many connections as so many nodes need.
pub(super) async fn refuse_too_many(address: &str, nodes: usize) -> anyhow::Result<()> {
    let address = address.to_owned();
    let spare = blocking(move || Ok(PlainConnection::open(&address)?.spare_connections()?)).await?;
    let needed = nodes * (CONNECTIONS_OF_A_STORE + CALLERS) + CONNECTIONS_BESIDE;
    match spare {
        Some(spare) if spare < needed => Err(Failure::usage(format!(
            "{nodes} nodes need up to {needed} connections, and PostgreSQL accepts {spare} more; raise its \
             max_connections, or measure fewer nodes"
        ))),
        _ => Ok(()),
    }
}
