//! Claims: order, fairness, limits, leases, fences and workers.

pub mod backlog;
pub mod budget;
pub mod claim;
pub mod concurrency;
pub mod due;
pub mod fairness;
pub mod fence;
pub mod fleet;
pub mod lease;
pub mod rate;
pub mod registry;
pub mod starvation;
pub mod version;
pub mod worker_key;
