//! The `windlass` binary: the command line. It has no rules of its own: commands call a server, open a store or serve one.

#[cfg(feature = "bench")]
mod bench;
mod commands;
mod config;
mod connection;
#[cfg(feature = "demo")]
mod demo;
mod error;
mod exit_code;
mod limits;
mod log;
mod output;
mod process;
mod systemd;
#[cfg(feature = "top")]
mod top;

use std::process::ExitCode;

/// musl's allocator takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::run(std::env::args_os().collect())
}
