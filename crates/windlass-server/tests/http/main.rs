//! The server from outside: every route over a real connection, on a store of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should say where")]

mod access;
mod alerts;
mod description;
mod events;
mod fixture;
mod jobs;
mod mcp;
mod metrics;
mod output;
mod pauses;
mod payload;
mod permission_matrix;
mod requests;
mod schedules;
mod settings;
mod slow;
mod stats;
mod worker_protocol;

/// The engine behind the servers of this run.
const ENGINE: fixture::Engine = fixture::Engine::Sqlite;
