//! The command line as people and scripts use it: every command against the built program, every block of commands in the
//! documents, `windlass top` in a terminal, and `windlass work`.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should say where")]

mod commands;
mod connection;
mod dev;
mod documents;
mod every;
mod export;
mod jobs;
mod links;
mod mcp;
mod newcomer;
mod sdk_test;
mod settings;
mod terminal;
mod top;
mod work;
