//! Benchmark workloads of this library, for `windlass bench` and `cargo bench`; feature `bench`.
//!
//! They use only the public API, on any address that [`Client::open`](crate::Client::open) accepts.
//! They are not covered by semantic versioning.

pub mod figure;
pub mod handlers;
pub mod limited;
#[cfg(feature = "postgres")]
pub mod node;
pub mod workflow;
pub mod workload;

pub use crate::store::engines::baseline::Baseline;
#[cfg(feature = "postgres")]
pub use crate::store::engines::postgres::baseline::{self as postgres_floor, endpoint, plain};
#[cfg(feature = "sqlite")]
pub use crate::store::engines::sqlite::baseline as sqlite_floor;
pub use figure::{Figure, Times, rate};
pub use workload::BenchWorker;

/// The type of jobs that do nothing.
pub const NOTHING: &str = "bench.nothing";
