//! Running the server as an operator does: settings, log, systemd, metrics, workers in other languages, and servers that
//! are killed.

mod attack;
mod away;
mod boot;
mod clock;
mod config;
mod disconnect;
mod documents;
mod frozen;
mod killed;
pub(crate) mod load;
mod log;
mod metrics;
mod nodes;
mod serve;
mod store;
mod systemd;
mod tickets;
#[cfg(feature = "otel")]
mod traces;
mod workers;
