//! The commands and their flags. Data goes to standard output, talk to standard error.

mod color;
pub(crate) mod connection;
pub(crate) mod error;
mod exit_code;
mod help;
mod jobs;
mod manage;
mod output;
mod progress;
mod run;
mod stores;
mod table;
mod text;
mod top;

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use windlass::Store;
use windlass::clock::Deadline;
use windlass::error::{OpenError, StoreError};
use windlass::store::environment::StoreOptions;
use windlass::store::schema::Schema;

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
    /// Serve a store over HTTP and keep it going
    ///
    /// It promotes due jobs, ends lost leases and lifetimes, seals the audit trail, prunes, and has a dashboard.
    Serve(Box<run::serve::ServeArgs>),
    /// Look around: a server with a store full of made-up work
    Demo(run::demo::DemoArgs),
    /// Run a program for every job: payload in, result out, exit code as outcome
    Work(Box<run::work::WorkArgs>),
    /// End what a worker that was killed has left behind; started by `work` itself.
    #[command(hide = true)]
    WorkGuard(run::work::GuardArgs),
    /// Check whether a server is ready; exits with 0 only if it is
    ///
    /// For the health checks of containers and load balancers. Needs no key.
    Health(connection::connect::ConnectArgs),
    /// Watch a server in the terminal, and intervene
    Top(top::TopArgs),

    /// Submit a job; prints its id, or with --wait its result
    Submit(Box<jobs::submit::SubmitArgs>),
    /// Submit many jobs from lines of JSON
    Batch(jobs::batch::BatchArgs),
    /// List jobs
    List(Box<jobs::list::ListArgs>),
    /// All about a job: facts, why, attempts, timeline, graph
    Show(jobs::show::ShowArgs),
    /// Every reason why a job does not run
    Explain(jobs::show::ShowArgs),
    /// What a job wrote to its log
    Logs(jobs::logs::LogsArgs),
    /// Hold jobs
    Suspend(Box<jobs::actions::SuspendArgs>),
    /// Let go of suspended jobs, or of a paused queue, worker, type or tenant
    ///
    /// `windlass resume ID…` is about jobs, `windlass resume queue NAME` about a queue.
    Resume(Box<jobs::actions::ResumeArgs>),
    /// Do not run jobs any more
    Cancel(Box<jobs::actions::ReasonedArgs>),
    /// Change how urgent jobs are
    Priority(Box<jobs::actions::PriorityArgs>),
    /// Submit final jobs again
    Redrive(Box<jobs::actions::RedriveArgs>),
    /// Remove final jobs
    Delete(Box<jobs::actions::ActArgs>),

    /// Every queue: what waits, what runs, how fast; and its settings
    #[command(args_conflicts_with_subcommands = true)]
    Queues(Box<manage::queues::QueuesArgs>),
    /// Start nothing of a queue, worker, type or tenant
    Pause(Box<manage::pause::PauseArgs>),
    /// Start nothing at all, or look whether anything starts
    #[command(args_conflicts_with_subcommands = true)]
    Gate(Box<manage::operations::GateArgs>),
    /// How store time stands to the wall clock; exits with 1 if that is not believed
    #[command(args_conflicts_with_subcommands = true)]
    Clock(Box<stores::clock::ClockArgs>),
    /// For how long the store keeps jobs after their end
    #[command(args_conflicts_with_subcommands = true)]
    Retention(Box<manage::retention::RetentionArgs>),
    /// Every worker: alive, paused or lost
    Workers(connection::connect::ConnectArgs),
    /// Every type of job: how many, how fast, how well; and its settings
    #[command(args_conflicts_with_subcommands = true)]
    Types(Box<manage::types::TypesArgs>),
    /// Every tenant: what it has and costs; and its settings
    #[command(args_conflicts_with_subcommands = true)]
    Tenants(Box<manage::tenants::TenantsArgs>),
    /// Work at times of the day, every so often or once
    #[command(args_conflicts_with_subcommands = true)]
    Schedules(Box<manage::schedules::SchedulesArgs>),
    /// Count jobs by queue and state
    ///
    /// Asks the server; with `--store` or `WINDLASS_STORE` it looks into the store itself.
    Stats(manage::stats::StatsArgs),
    /// What happened, and with -f what happens now
    Events(Box<manage::audit_list::EventsArgs>),
    /// Read the audit trail, or prove that it is whole
    #[command(args_conflicts_with_subcommands = true)]
    Audit(Box<manage::audit::AuditArgs>),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Keys(Box<manage::keys::KeysCommand>),

    /// Check every invariant on what is stored; exits with 1 if one is broken
    Verify(ReportArgs),
    /// Copy a store to a new file while it is in use
    Backup(stores::backup::BackupArgs),
    /// Make a store of a backup, checked
    Restore(stores::restore::RestoreArgs),
    /// Bring a store to the schema of this version
    Migrate(stores::migrate::MigrateArgs),
    /// Move a store to another database, with everything in it
    Move(stores::move_store::MoveArgs),
    /// Measure how fast it is: a store, or a server over HTTP
    Bench(run::bench::BenchArgs),
    /// Look at the settings of `serve`
    #[command(subcommand)]
    Config(run::config::ConfigCommand),
    /// Look after what callbacks and pushes are signed with
    #[command(subcommand)]
    Webhooks(manage::webhooks::WebhooksCommand),
    /// Make what tickets are signed with
    #[command(subcommand)]
    Tickets(manage::tickets::TicketsCommand),

    /// Print completions for a shell
    Completions(help::CompletionsArgs),
    /// Print or write pages for `man`
    Man(help::ManArgs),
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
        if missing == Missing::Refuse {
            self.refuse_what_is_no_store()?;
        }
        Store::open(&self.store, options).map_err(|error| self.cannot_open(&error))
    }

    /// Fails if there is nothing of a store at the address: to look at one must not make one, least of all of an empty backup
    /// or of another program's database.
    fn refuse_what_is_no_store(&self) -> anyhow::Result<()> {
        let schema = Schema::read(&self.store).map_err(|error| self.cannot_open(&error))?;
        let marker = self.store.strip_prefix("sqlite:").map(|path| format!("{path}-head"));
        // A file that was emptied is a store that has lost everything, and opening it says so.
        let has_been_one = marker.is_some_and(|marker| std::path::Path::new(&marker).exists());
        anyhow::ensure!(
            schema.found > 0 || has_been_one,
            "there is no store at {}: it is empty, or another program's; start one with `windlass serve --store {}`",
            self.shown(),
            self.shown()
        );
        Ok(())
    }

    /// Opens the store, or makes it; a database that cannot be reached is tried again until `wait` is over.
    async fn open_when_reachable(&self, options: StoreOptions, wait: Duration) -> anyhow::Result<Store> {
        let deadline = Deadline::after(wait);
        let mut is_told = false;
        loop {
            let (address, options) = (self.store.clone(), options.clone());
            // Checking a large file takes seconds, in which requests are answered and signals heard.
            let opened = apart("windlass-open", move || Store::open(&address, options)).await;
            let error = match opened? {
                Ok(store) => return Ok(store),
                Err(error) => error,
            };
            if deadline.is_over() || !matches!(error, OpenError::Store(StoreError::Away(_))) {
                return Err(self.cannot_open(&error));
            }
            if !is_told {
                tracing::warn!("{:#}; trying again for {wait:?}", self.cannot_open(&error));
                is_told = true;
            }
            tokio::time::sleep(crate::limits::STORE_RETRY_INTERVAL).await;
        }
    }

    /// The error without the password that the address may hold.
    fn cannot_open(&self, error: &OpenError) -> anyhow::Error {
        let error = error.to_string().replace(&self.store, &self.shown());
        anyhow::anyhow!("cannot open {}: {error}", self.shown())
    }
}

/// Does work on a thread that the process does not wait for once nobody asks for the outcome.
async fn apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _nobody_waits = done.send(work());
    })?;
    outcome.await.map_err(|_| anyhow::anyhow!("the thread `{name}` has failed"))
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
        let command = help::arranged(Cli::command());
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
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    attempt(arguments).unwrap_or_else(|error| {
        let exit = exit_code::Exit::of(&error);
        // Whoever has gone is not told so.
        if exit != exit_code::Exit::NobodyReads {
            output::note(&format!("windlass: {error:#}"));
        }
        exit.into()
    })
}

fn attempt(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let Invocation { cli, settings } = Invocation::read(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Boxed, so that the future of every command is compiled once, here, and not again for each scheduler and caller.
    let work: Pin<Box<dyn Future<Output = anyhow::Result<ExitCode>> + '_>> =
        Box::pin(perform(cli.command, &settings));
    runtime.block_on(work)
}

async fn perform(command: Command, settings: &[Setting]) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => run::serve::serve(&args).await,
        Command::Demo(args) => run::demo::demo(&args).await,
        Command::Work(args) => run::work::work(&args).await,
        Command::WorkGuard(args) => run::work::guard(&args).await,
        Command::Health(args) => run::health::health(&args).await,
        Command::Top(args) => top::top(&args).await,
        Command::Submit(args) => jobs::submit::submit(&args).await,
        Command::Batch(args) => jobs::batch::batch(&args).await,
        Command::List(args) => jobs::list::list(&args).await,
        Command::Show(args) => jobs::show::show(&args).await,
        Command::Explain(args) => jobs::show::explain(&args).await,
        Command::Logs(args) => jobs::logs::logs(&args).await,
        Command::Suspend(args) => jobs::actions::suspend(&args).await,
        Command::Resume(args) => jobs::actions::resume(&args).await,
        Command::Cancel(args) => jobs::actions::cancel(&args).await,
        Command::Priority(args) => jobs::actions::priority(&args).await,
        Command::Redrive(args) => jobs::actions::redrive(&args).await,
        Command::Delete(args) => jobs::actions::delete(&args).await,
        Command::Queues(args) => manage::queues::queues(&args).await,
        Command::Pause(args) => manage::pause::pause(&args).await,
        Command::Gate(args) => manage::operations::gate(&args).await,
        Command::Clock(args) => stores::clock::clock(&args).await,
        Command::Retention(args) => manage::retention::retention(&args).await,
        Command::Workers(connect) => manage::operations::workers(&connect).await,
        Command::Types(args) => manage::types::types(&args).await,
        Command::Tenants(args) => manage::tenants::tenants(&args).await,
        Command::Schedules(args) => manage::schedules::schedules(&args).await,
        Command::Stats(args) => manage::stats::stats(&args).await,
        Command::Events(args) => manage::audit_list::events(&args).await,
        Command::Audit(args) => manage::audit::audit(&args).await,
        Command::Keys(command) => manage::keys::keys(&command).await,
        Command::Verify(report) => stores::verify::verify(&report).await,
        Command::Backup(args) => stores::backup::backup(&args).await,
        Command::Restore(args) => stores::restore::restore(&args).await,
        Command::Migrate(args) => stores::migrate::migrate(&args),
        Command::Move(args) => stores::move_store::move_store(&args).await,
        Command::Bench(args) => run::bench::bench(&args).await,
        Command::Config(run::config::ConfigCommand::Check(args)) => run::config::check(&args, settings),
        Command::Webhooks(command) => manage::webhooks::webhooks(&command).await,
        Command::Tickets(command) => manage::tickets::tickets(&command),
        Command::Completions(args) => help::completions(&args, Cli::command()),
        Command::Man(args) => help::man(&args, help::arranged(Cli::command())),
    }
}
