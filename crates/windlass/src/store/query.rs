//! Queries of the store, each written once over a [`ReadTx`](super::tx::read_tx::ReadTx). They change nothing.

pub(crate) mod alerts;
pub mod audit;
pub mod explain;
pub mod history;
pub mod job_details;
pub mod job_types;
pub mod known;
pub mod list;
pub(crate) mod payload;
pub mod queues;
pub(crate) mod schedules;
pub mod snapshot;
pub mod stats;
pub mod stream;
