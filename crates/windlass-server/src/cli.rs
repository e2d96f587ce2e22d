//! The commands and their flags. Data goes to standard output, talk to standard error.

mod audit;
mod backup;
mod bench;
mod client;
mod config;
mod connect;
mod demo;
mod exit;
mod failure;
mod id;
mod keeping;
mod keys;
mod migrate;
mod move_store;
mod outbound;
mod output;
mod paint;
mod profile;
mod progress;
mod restore;
mod serve;
mod stats;
mod stream;
mod table;
mod text;
mod tickets;
mod top;
mod verify;
mod webhooks;
mod work;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use windlass::Store;
use windlass::store::environment::StoreOptions;

use crate::config::{ConfigFile, Setting, in_force, shown};

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
    Serve(Box<serve::ServeArgs>),
    /// Look at the settings of `serve`.
    #[command(subcommand)]
    Config(config::ConfigCommand),
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
    /// Run a program for every job: payload in, result out, exit code as outcome.
    Work(Box<work::WorkArgs>),
    /// End what a worker that was killed has left behind; started by `work` itself.
    #[command(hide = true)]
    WorkGuard(work::GuardArgs),
    /// Look after what callbacks and pushes are signed with.
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// Make what tickets are signed with.
    #[command(subcommand)]
    Tickets(tickets::TicketsCommand),
    /// Count jobs by queue and state.
    Stats(ReportArgs),
    /// Watch a server in the terminal, and intervene.
    Top(top::TopArgs),
    /// Measure how fast it is: a store, or a server over HTTP.
    Bench(bench::BenchArgs),
    /// Copy a store to a new file while it is in use.
    Backup {
        #[command(flatten)]
        store: StoreArgs,
        /// The file to be written; it must not exist.
        to: PathBuf,
    },
    /// Make a store of a backup: checked, and safe from workers that were busy when it was lost.
    Restore(restore::RestoreArgs),
    /// Bring a store to the schema that this version knows, or say what that would take.
    Migrate(migrate::MigrateArgs),
    /// Move a store to another database: everything, with the same ids; run again it goes on where it ended.
    Move(move_store::MoveArgs),
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Check that no record was edited, removed, added or moved; exits with 1 if one was.
    Verify(ReportArgs),
}

/// Which store.
#[derive(Args)]
struct StoreArgs {
    /// Where the jobs are: `sqlite:PATH` or `postgres://HOST/DATABASE`.
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
    /// The address without a password.
    fn shown(&self) -> String {
        shown(&self.store)
    }

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
        Store::open(&self.store, options).map_err(|error| {
            let error = error.to_string().replace(&self.store, &self.shown());
            anyhow::anyhow!("cannot open {}: {error}", self.shown())
        })
    }
}

/// What to do when there is no store at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Refuse,
}

/// What was asked for on the command line, with the environment and a file of settings behind it.
struct Invocation {
    cli: Cli,
    /// The settings of `serve` in force, if the command has any.
    settings: Vec<Setting>,
}

/// The commands that take settings, as words on the command line.
const CONFIGURED: [&[&str]; 2] = [&["serve"], &["config", "check"]];

impl Invocation {
    fn read(arguments: Vec<OsString>) -> anyhow::Result<Invocation> {
        let command = Cli::command();
        let mut matches = parse(&command, arguments.clone());
        let words = CONFIGURED.into_iter().find(|words| below(&matches, words).is_some());
        let mut settings = Vec::new();
        if let Some(words) = words {
            let path =
                below(&matches, words).and_then(|matches| matches.get_one::<PathBuf>("config")).cloned();
            let file = path.map(|path| ConfigFile::read(&path, &command, words)).transpose()?;
            if let Some(file) = &file {
                let informed = change(command.clone(), words, &|command| file.apply(command));
                matches = parse(&informed, arguments);
            }
            let configured = words.iter().fold(&command, |command, word| {
                command.find_subcommand(word).expect("it was asked for, so it is there")
            });
            let matches = below(&matches, words).expect("the same words were asked for");
            settings = in_force(configured, matches, file.as_ref());
        }
        let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        Ok(Invocation { cli, settings })
    }
}

/// Reads the command line, or says what is wrong with it and ends the process.
fn parse(command: &clap::Command, arguments: Vec<OsString>) -> ArgMatches {
    command.clone().try_get_matches_from(arguments).unwrap_or_else(|error| error.exit())
}

/// What was given to the command at `words`, if that is the one.
fn below<'a>(matches: &'a ArgMatches, words: &[&str]) -> Option<&'a ArgMatches> {
    words.iter().try_fold(matches, |matches, word| matches.subcommand_matches(word))
}

/// Changes the command at `words`.
fn change(
    command: clap::Command,
    words: &[&str],
    with: &dyn Fn(clap::Command) -> clap::Command,
) -> clap::Command {
    match words {
        [] => with(command),
        [word, rest @ ..] => command.mut_subcommand(*word, |command| change(command, rest, with)),
    }
}

/// Runs the command that was given, and says on standard error what went wrong.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    attempt(arguments).unwrap_or_else(|error| {
        let exit = exit::Exit::of(&error);
        // Whoever has gone is not told so.
        if exit != exit::Exit::NobodyReads {
            output::note(&format!("windlass: {error:#}"));
        }
        exit.into()
    })
}

fn attempt(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let Invocation { cli, settings } = Invocation::read(arguments.collect())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::serve(&args).await,
            Command::Config(config::ConfigCommand::Check(args)) => config::check(&args, &settings),
            Command::Demo(args) => demo::demo(&args).await,
            Command::Verify(report) => verify::verify(&report).await,
            Command::Audit(AuditCommand::Verify(report)) => audit::verify(&report).await,
            Command::Keys(command) => keys::keys(&command).await,
            Command::Webhooks(command) => webhooks::webhooks(&command).await,
            Command::Tickets(command) => Ok(tickets::tickets(&command)),
            Command::Work(args) => work::work(&args).await,
            Command::WorkGuard(args) => work::guard(&args).await,
            Command::Stats(report) => stats::stats(&report).await,
            Command::Top(args) => top::top(&args).await,
            Command::Bench(args) => bench::bench(&args).await,
            Command::Backup { store, to } => backup::backup(&store, &to).await,
            Command::Restore(args) => restore::restore(&args).await,
            Command::Migrate(args) => migrate::migrate(&args),
            Command::Move(args) => move_store::move_store(&args).await,
        }
    })
}
