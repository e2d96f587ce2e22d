//! The binary `windlass`: everything a person does with a store from the command line.

use std::process::ExitCode;

use windlass_server::cli;

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("windlass: {error:#}");
            ExitCode::FAILURE
        }
    }
}
