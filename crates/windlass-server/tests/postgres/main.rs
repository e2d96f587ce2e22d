//! The suites of the server once more, on PostgreSQL: the contract does not know which engine is behind it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../it/access.rs"]
mod access;
#[path = "../it/client.rs"]
mod client;
#[path = "../it/events.rs"]
mod events;
#[path = "../it/fixture.rs"]
mod fixture;
#[path = "../it/jobs.rs"]
mod jobs;
#[path = "../it/operations.rs"]
mod operations;
#[path = "../it/schedules.rs"]
mod schedules;
#[path = "../it/work.rs"]
mod work;

/// The engine behind the servers of this run.
const ENGINE: fixture::Engine = fixture::Engine::Postgres;
