//! Windlass.
pub mod audit;
pub mod clock;
pub mod entropy;
pub mod error;
pub mod job;
pub mod limits;
pub mod maintenance;
pub mod store;
