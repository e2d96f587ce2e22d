//! `windlass work`: programs that do everything programs do, run by the built binary against a server.

mod command;
mod departure;
mod harness;
mod outcome;
mod output;
mod shutdown;
