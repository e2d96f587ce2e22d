//! Running the server as an operator does: settings, log, systemd, metrics, and workers in other languages.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[allow(dead_code, reason = "a client for all tests; these ask less of it")]
#[path = "../it/client.rs"]
mod client;
mod config;
mod documents;
mod log;
mod metrics;
mod notify;
mod program;
mod store;
mod workers;
