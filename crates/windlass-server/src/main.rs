//! The binary `windlass`: everything a person does with a store from the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_server::cli::run(std::env::args_os().collect())
}
