//! What is stored beside jobs: settings, pauses, workers, schedules, counters and attempts.

pub mod alerts;
pub mod attempt;
pub(crate) mod budget;
pub(crate) mod cascade;
pub mod config;
pub mod counters;
pub mod error_stats;
pub mod history;
pub mod key_counts;
pub(in crate::store) mod key_holder;
pub mod latency;
pub(crate) mod liveness;
pub mod minute_stats;
pub mod schedules;
pub(crate) mod shares;
pub(in crate::store) mod stats_cache;
#[cfg(test)]
mod tests;
pub mod webhook;
