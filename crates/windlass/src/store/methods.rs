//! The methods of [`Store`](crate::store::Store), by theme: each checks its arguments, and runs a command or a query on
//! the engine.

mod alerts;
mod audit;
pub(crate) mod auth;
mod clock;
mod counts;
mod job_data;
mod jobs;
mod maintenance;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod own_transaction;
mod pauses;
pub(in crate::store) mod pruning;
#[cfg(feature = "sqlite")]
pub(crate) mod restore;
mod schedules;
mod schema_checks;
mod settings;
pub(crate) mod snapshots;
mod stream;
mod verify;
mod webhooks;
mod worker_protocol;
