//! Moving a store: everything in it, with the same ids, numbers, leases and fences, to another database. A move that ends in
//! the middle goes on where it was when it is run again; what was moved is compared, row by row, before it is served.
//!
//! Of the two ends at most one can be served at any moment: the source is shut before the first row is read, and the target
//! is opened after the source was marked for good. It does not merge: the target must be empty.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod batch;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "what is only in memory is not moved")
)]
pub(crate) mod cursor;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod digest;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "what is only in memory is not moved")
)]
pub(crate) mod mark;
pub mod rows;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod run;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use self::{
    digest::PartDigest,
    run::{End, Move, MoveOptions, MoveReport, Progress, Stage},
};
