//! `windlass docs`: the guides as a static site, or their address at a server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::exit_code::Exit;
use crate::output;
use crate::output::text::counted;

/// Arguments of `docs`.
#[derive(Args)]
pub(crate) struct DocsArgs {
    #[command(subcommand)]
    command: DocsCommand,
}

#[derive(Subcommand)]
enum DocsCommand {
    /// Write the guides as a static site, with search, that needs no server and nothing from the network
    Build {
        /// Folder to write into; it is created, and files of the same names are replaced
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

pub(crate) fn docs(args: &DocsArgs) -> anyhow::Result<ExitCode> {
    let DocsCommand::Build { folder } = &args.command;
    let pages = windlass_server::guides::build(folder)?;
    let index = folder.join("index.html");
    output::note(&format!("{} written; open {}", counted(pages as u64, "page"), index.display()));
    Ok(Exit::Done.into())
}
