//! The server `windlass`: the library's verbs over HTTP and on the command line. It sees only the library's public API and
//! holds no rule of its own; what it adds is the door: decoding, authentication, limits, and answers in one shape.

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
