//! The handlers: decode, ask the store, encode.

pub(in crate::http) mod alerts;
pub(in crate::http) mod audit;
pub(in crate::http) mod clock;
pub(in crate::http) mod events;
pub(in crate::http) mod gate;
pub(in crate::http) mod health;
pub(in crate::http) mod history;
pub(in crate::http) mod jobs;
pub(in crate::http) mod keys;
pub(in crate::http) mod metrics;
pub(in crate::http) mod queues;
pub(in crate::http) mod retention;
pub(in crate::http) mod schedules;
pub(in crate::http) mod stats;
pub(in crate::http) mod tenants;
pub(in crate::http) mod types;
pub(in crate::http) mod worker_protocol;
pub(in crate::http) mod workers;
