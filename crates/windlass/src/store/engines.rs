//! The engines: where rows are. Rules are not here; see `command` and `query`.

#[cfg(feature = "bench")]
pub mod baseline;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(in crate::store) mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
