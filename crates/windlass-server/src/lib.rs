//! The `windlass` server: the library's API over HTTP and on the command line. It uses only the library's public API and
//! has no rules of its own; it adds decoding, authentication, limits and error responses.

mod bench;
pub mod cli;
mod config;
mod dashboard;
mod demo;
mod exec;
pub mod http;
pub mod limits;
mod log;
mod number;
mod process;
pub mod server;
mod systemd;
mod telemetry;
pub mod webhooks;
