//! Commands that keep running: server, workers, benchmark, demo.

pub(in crate::cli) mod bench;
pub(in crate::cli) mod config;
pub(in crate::cli) mod demo;
pub(in crate::cli) mod health;
pub(in crate::cli) mod outbound;
pub(in crate::cli) mod serve;
pub(in crate::cli) mod work;
