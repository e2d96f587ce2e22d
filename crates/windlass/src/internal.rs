//! What the server, the command line and the tests of Windlass use beside the public API. It is hidden from the
//! documentation and not covered by semantic versioning: other programs use [`store`](crate::store).

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use crate::store::command::submit::inbox::REFUSED as REFUSED_SUBMISSION;
pub use crate::store::documents::minute_stats::minute_of;
pub use crate::store::environment::Timing;
pub use crate::store::read_source::ReadSource;

/// Conversions between the store's types and those of the HTTP API.
#[cfg(feature = "api")]
pub mod wire {
    pub use crate::store::wire::*;
}
