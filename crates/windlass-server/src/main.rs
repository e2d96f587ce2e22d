//! The `windlass` binary.

use std::process::ExitCode;

/// musl's allocator takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    windlass_server::cli::run(std::env::args_os().collect())
}
