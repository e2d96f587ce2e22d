//! The binary `windlass`: everything a person does with a store from the command line.

use std::process::ExitCode;

/// The allocator of musl takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    windlass_server::cli::run(std::env::args_os().collect())
}
