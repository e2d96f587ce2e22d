//! The command line as people and scripts use it: every command against the built program, and every block of commands in
//! the documents.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../operating/binary.rs"]
mod binary;
#[allow(dead_code, reason = "a client for all tests; these ask less of it")]
#[path = "../../../windlass-server/tests/it/client.rs"]
mod client;
mod commands;
mod connection;
mod documents;
mod every;
mod fixture;
mod jobs;
mod links;
#[allow(dead_code, reason = "a program for all tests; these ask less of it")]
#[path = "../operating/program.rs"]
mod program;
mod settings;
mod terminal;
