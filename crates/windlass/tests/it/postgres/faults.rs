//! Faults of connections, servers and nodes: what was answered is there once, and callers are answered in time.

mod boundaries;
mod cut;
mod failover;
mod late;
mod outage;
mod storm;
