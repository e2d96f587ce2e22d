//! Queries of the store, each written once over a [`ReadTx`](super::tx::read_tx::ReadTx). They change nothing.

pub(crate) mod alerts;
pub(crate) mod audit;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod job_details;
pub(crate) mod known;
pub(crate) mod list;
pub(crate) mod payload;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod stream;
pub(crate) mod types;
