//! Workers as parts of programs: callers, processes, transactions, outages, virtual time.

pub(in crate::worker) mod assertions;
pub(in crate::worker) mod callers;
pub(in crate::worker) mod lost;
pub(in crate::worker) mod outage;
pub(in crate::worker) mod prefetch;
pub(in crate::worker) mod processes;
pub(in crate::worker) mod run;
pub(in crate::worker) mod transaction;
pub(in crate::worker) mod virtual_time;
