//! The library against a server: its own worker tests once more, over HTTP, and what only a network can do to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "../operating/binary.rs"]
mod binary;
mod fixture;
mod worker;
