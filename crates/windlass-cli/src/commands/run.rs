//! Commands that keep running: servers, workers, benchmark, demo.

#[cfg(feature = "bench")]
pub(crate) mod bench;
pub(crate) mod config;
#[cfg(feature = "demo")]
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod docs;
pub(crate) mod health;
pub(crate) mod mcp;
pub(crate) mod open;
pub(crate) mod sdk_test;
pub(crate) mod serve;
pub(crate) mod webhook_args;
pub(crate) mod work;
