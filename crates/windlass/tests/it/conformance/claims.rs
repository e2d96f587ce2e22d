//! Claims: order, fairness, limits, leases, fences and workers.

pub(in crate::conformance) mod backlog;
pub(in crate::conformance) mod budget;
pub(in crate::conformance) mod claim;
pub(in crate::conformance) mod concurrency;
pub(in crate::conformance) mod due;
pub(in crate::conformance) mod fairness;
pub(in crate::conformance) mod fence;
pub(in crate::conformance) mod fleet;
pub(in crate::conformance) mod lease;
pub(in crate::conformance) mod rate;
pub(in crate::conformance) mod registry;
pub(in crate::conformance) mod starvation;
pub(in crate::conformance) mod worker_key;
