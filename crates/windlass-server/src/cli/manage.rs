//! Commands that look after a server: queues, types, tenants, schedules, keys, pauses, retention and the audit trail.

pub(in crate::cli) mod audit;
pub(in crate::cli) mod audit_list;
pub(in crate::cli) mod keys;
pub(in crate::cli) mod operations;
pub(in crate::cli) mod pause;
pub(in crate::cli) mod queues;
pub(in crate::cli) mod retention;
pub(in crate::cli) mod retention_args;
pub(in crate::cli) mod schedules;
pub(in crate::cli) mod settings;
pub(in crate::cli) mod stats;
pub(in crate::cli) mod tenants;
pub(in crate::cli) mod tickets;
pub(in crate::cli) mod types;
pub(in crate::cli) mod webhooks;
