//! The one test binary of the library: each module is a suite, so that everything links once.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod aging;
mod bounds;
mod clock;
mod conformance;
mod crash;
mod deadline;
mod examples;
mod fixture;
mod move_store;
mod postgres;
mod random;
mod restore;
mod simulation;
mod tidy;
mod worker;
mod worlds;
