//! The suites of the server once more, on PostgreSQL: the contract does not know which engine is behind it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should say where")]

#[path = "../http/access.rs"]
mod access;
#[path = "../http/events.rs"]
mod events;
#[path = "../http/fixture.rs"]
mod fixture;
#[path = "../http/jobs.rs"]
mod jobs;
#[path = "../http/metrics.rs"]
mod metrics;
#[path = "../http/output.rs"]
mod output;
#[path = "../http/pauses.rs"]
mod pauses;
#[path = "../http/schedules.rs"]
mod schedules;
#[path = "../http/settings.rs"]
mod settings;
#[path = "../http/stats.rs"]
mod stats;
#[path = "../http/worker_protocol.rs"]
mod worker_protocol;

/// The engine behind the servers of this run.
const ENGINE: fixture::Engine = fixture::Engine::Postgres;
