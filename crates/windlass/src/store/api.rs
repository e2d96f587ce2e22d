//! The methods of [`Store`](crate::store::Store), by theme: each checks its arguments, and runs a command or a query on the engine.

pub mod auth;
pub(in crate::store) mod operations;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod own_transaction;
pub(in crate::store) mod proof;
pub(in crate::store) mod pruning;
pub mod reports;
#[cfg(feature = "sqlite")]
pub mod restore;
pub(in crate::store) mod strict;
pub(crate) mod work;
