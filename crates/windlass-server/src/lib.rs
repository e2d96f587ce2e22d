//! The `windlass` server: the library's API over HTTP, a dashboard, webhooks, and programs as handlers. It uses only the
//! library's public API and has no rules of its own; it adds decoding, authentication, limits and error responses. The
//! binary is in the crate `windlass-cli`.

mod dashboard;
pub mod dev;
pub mod exec;
pub mod guides;
pub mod http;
pub mod limits;
pub mod number;
mod process;
pub mod server;
pub mod telemetry;
pub mod webhooks;
