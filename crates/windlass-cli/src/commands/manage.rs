//! Commands that operate a server: queues, types, tenants, schedules, alerts, keys, pauses, retention and the audit trail.

pub(crate) mod alerts;
pub(crate) mod audit;
pub(crate) mod context;
pub(crate) mod gate;
pub(crate) mod keys;
pub(crate) mod named;
pub(crate) mod pause;
pub(crate) mod queues;
pub(crate) mod retention;
pub(crate) mod retention_args;
pub(crate) mod schedules;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod tenant_object;
pub(crate) mod tenants;
pub(crate) mod tickets;
pub(crate) mod types;
pub(crate) mod webhooks;
pub(crate) mod workers;
