//! What is stored beside jobs: settings, pauses, workers, schedules, counters and attempts.

pub(crate) mod alerts;
pub(crate) mod attempt;
pub(crate) mod budget;
pub(crate) mod cascade;
pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod error_stats;
pub(crate) mod history;
pub(crate) mod key_counts;
pub(in crate::store) mod key_holder;
pub(crate) mod latency;
pub(crate) mod liveness;
pub(crate) mod minute_stats;
pub(crate) mod schedules;
pub(crate) mod shares;
pub(in crate::store) mod stats_cache;
pub(crate) mod tenant_object;
#[cfg(test)]
mod tests;
pub(crate) mod webhook;
