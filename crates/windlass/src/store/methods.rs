//! The methods of [`Store`](crate::store::Store), by theme: each checks its arguments, and runs a command or a query on
//! the engine.

mod alerts;
mod audit;
pub mod auth;
mod counts;
mod job_data;
mod jobs;
mod maintenance;
mod operations;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod own_transaction;
pub(in crate::store) mod pruning;
#[cfg(feature = "sqlite")]
pub mod restore;
mod schedules;
mod schema_checks;
pub mod snapshots;
mod stream;
mod verify;
mod webhooks;
mod work;
