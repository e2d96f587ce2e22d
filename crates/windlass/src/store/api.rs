//! The methods of [`Store`](crate::store::Store), by theme: each checks its arguments, and runs a command or a query on the engine.

pub mod auth;
pub(in crate::store) mod operations;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod own_transaction;
pub(in crate::store) mod pruning;
#[cfg(feature = "sqlite")]
pub mod restore;
pub mod snapshots;
pub(in crate::store) mod strict;
pub(in crate::store) mod verify;
pub(crate) mod work;
