//! Running the server as an operator does: settings, log, systemd, metrics, workers in other languages, and servers that
//! are killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod attack;
mod away;
mod binary;
mod boot;
#[allow(dead_code, reason = "a client for all tests; these ask less of it")]
#[path = "../../../windlass-server/tests/it/client.rs"]
mod client;
mod clock;
#[allow(dead_code, reason = "the library's own tests use more of it")]
#[path = "../../../windlass/tests/it/fixture/cluster.rs"]
mod cluster;
mod config;
mod disconnect;
mod documents;
#[allow(dead_code, reason = "the library's own tests use more of it")]
#[path = "../../../windlass/tests/it/fixture/faketime.rs"]
mod faketime;
mod frozen;
mod killed;
mod load;
mod log;
mod metrics;
mod nodes;
mod program;
mod serve;
mod store;
mod systemd;
mod tickets;
#[cfg(feature = "otel")]
mod traces;
mod workers;
