//! The commands and their flags. Data goes to standard output, talk to standard error.

mod audit;
mod backup;
mod demo;
mod keys;
mod outbound;
mod serve;
mod stats;
mod verify;
mod webhooks;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use windlass::Store;
use windlass::store::environment::StoreOptions;

/// Durable background jobs.
#[derive(Parser)]
#[command(name = "windlass", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a store over HTTP and keep it going: promote due jobs, end lost leases and lifetimes, seal, prune.
    Serve(serve::ServeArgs),
    /// Look around: a server with a store full of made-up work.
    Demo(demo::DemoArgs),
    /// Check every invariant on what is stored; exits with 1 if one is broken.
    Verify(ReportArgs),
    /// Look after the audit trail.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Make API keys.
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Look after what callbacks and pushes are signed with.
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// Count jobs by queue and state.
    Stats(ReportArgs),
    /// Copy a store to a new file while it is in use.
    Backup {
        #[command(flatten)]
        store: StoreArgs,
        /// The file to be written; it must not exist.
        to: PathBuf,
    },
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Check that no record was edited, removed, added or moved; exits with 1 if one was.
    Verify(ReportArgs),
}

/// Which store.
#[derive(Args)]
struct StoreArgs {
    /// Where the jobs are: `sqlite:PATH`.
    #[arg(long, env = "WINDLASS_STORE", default_value = "sqlite:windlass.db", value_name = "ADDRESS")]
    store: String,
}

/// Which store, and how to report on it.
#[derive(Args)]
struct ReportArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl StoreArgs {
    /// Opens the store; only `serve` makes one that is not there.
    fn open(&self, missing: Missing) -> anyhow::Result<Store> {
        self.open_with(missing, StoreOptions::default())
    }

    /// The same with options.
    fn open_with(&self, missing: Missing, options: StoreOptions) -> anyhow::Result<Store> {
        if let (Missing::Refuse, Some(path)) = (missing, self.store.strip_prefix("sqlite:")) {
            let is_there = std::path::Path::new(path).exists();
            anyhow::ensure!(
                is_there,
                "no store at {path}; start one with `windlass serve --store {}`",
                self.store
            );
        }
        Store::open(&self.store, options).with_context(|| format!("cannot open {}", self.store))
    }
}

/// What to do when there is no store at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Refuse,
}

/// Runs the command that was given.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::serve(&args).await,
            Command::Demo(args) => demo::demo(&args).await,
            Command::Verify(report) => verify::verify(&report).await,
            Command::Audit(AuditCommand::Verify(report)) => audit::verify(&report).await,
            Command::Keys(command) => keys::keys(&command).await,
            Command::Webhooks(command) => webhooks::webhooks(&command).await,
            Command::Stats(report) => stats::stats(&report).await,
            Command::Backup { store, to } => backup::backup(&store, &to).await,
        }
    })
}
