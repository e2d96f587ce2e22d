//! Workers, handlers and contexts, as a program that embeds the library uses them.

mod ahead;
mod assertions;
mod bench;
mod blocking;
mod builder;
mod callers;
mod crashes;
mod follow;
mod handlers;
pub(crate) mod kinds;
mod operate;
mod order;
mod pause;
mod processes;
mod recovery;
mod run;
mod schedules;
mod shutdown;
mod steps;
mod transaction;
mod trouble;
mod virtual_time;
mod waits;
