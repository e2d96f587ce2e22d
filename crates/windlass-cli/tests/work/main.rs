//! `windlass work`: programs that do everything programs do, run by the built binary against a server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../operating/binary.rs"]
mod binary;
#[allow(dead_code, reason = "a client for all tests; these ask less of it")]
#[path = "../../../windlass-server/tests/it/client.rs"]
mod client;
#[allow(dead_code, reason = "the library's own tests use more of it")]
#[path = "../../../windlass/tests/it/fixture/cluster.rs"]
mod cluster;
mod command;
mod departure;
mod harness;
mod outcome;
mod output;
mod shutdown;
