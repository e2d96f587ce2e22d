//! Moving a store: everything in it, with the same ids, numbers, leases and fences, to another database. An interrupted
//! move continues where it was when it is run again; the moved rows are compared before the target is served.
//!
//! At most one of the two stores can be served at any time: the source is closed before the first row is read, and the
//! target is opened after the source was marked as moved. It does not merge: the target must be empty.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod batch;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "a store in memory cannot be moved")
)]
pub(crate) mod cursor;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod digest;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "a store in memory cannot be moved")
)]
pub(crate) mod marker;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod run;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use self::{
    digest::PartDigest,
    run::{End, Move, MoveOptions, MoveReport, Progress, Stage},
};
