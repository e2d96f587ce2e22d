//! The binary `windlass`: everything a person does with a store from the command line.

use std::process::ExitCode;

use clap::Parser;
use windlass_server::cli;

fn main() -> ExitCode {
    match cli::run(cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("windlass: {error:#}");
            ExitCode::FAILURE
        }
    }
}
