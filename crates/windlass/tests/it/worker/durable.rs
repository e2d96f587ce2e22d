//! Durable steps: replay, changed code, crashes at every point.

pub(in crate::worker) mod changes;
pub(in crate::worker) mod contract;
pub(in crate::worker) mod corners;
pub(in crate::worker) mod crashes;
pub(in crate::worker) mod dropped;
pub(in crate::worker) mod nested;
pub(in crate::worker) mod programs;
pub(in crate::worker) mod refused;
pub(in crate::worker) mod reopened;
pub(in crate::worker) mod replay;
pub(in crate::worker) mod vectors;

use super::{harness, job_types};
