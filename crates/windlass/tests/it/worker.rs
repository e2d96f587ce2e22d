//! Workers, handlers and contexts, as a program that embeds the library uses them.

mod actions;
mod batch;
mod batch_collector;
mod bench;
mod blocking;
mod builder;
mod durable;
mod follow;
mod handlers;
mod harness;
mod hosts;
pub(crate) mod job_types;
mod order;
mod pause;
mod recovery;
mod schedules;
mod shutdown;
mod steps;
mod stream;
mod waits;
