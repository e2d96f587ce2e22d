//! The commands and their flags. Data goes to standard output, messages to standard error.

mod help;
mod jobs;
mod manage;
mod run;
mod stores;

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

use crate::commands::manage::named::NamedArgs;
use crate::config::{ConfigFile, Setting, in_force, shown};
use crate::{connection, exit_code, output, top};

/// Durable background jobs.
#[derive(Parser)]
#[command(name = "windlass", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a store over HTTP, with a dashboard
    ///
    /// Also runs the store's maintenance: promotes due jobs, expires leases and lifetimes, extends the audit chain and
    /// prunes old jobs.
    Serve(Box<run::serve::ServeArgs>),
    /// Start a server with sample data
    Demo(run::demo::DemoArgs),
    /// Run a program for each job: payload on stdin, result on stdout, exit code as outcome
    Work(Box<run::work::WorkArgs>),
    /// Kill the programs of a worker that was killed. Started by `work` itself.
    #[command(hide = true)]
    WorkGuard(run::work::GuardArgs),
    /// Check whether a server is ready; exits with 0 only if it is
    ///
    /// For the health checks of containers and load balancers. Requires no API key.
    Health(connection::connect::ConnectArgs),
    /// Monitor a server in the terminal, with keys to pause, cancel and redrive
    Top(top::TopArgs),

    /// Submit a job; prints its id, or with --wait its result
    Submit(Box<jobs::submit::SubmitArgs>),
    /// Submit many jobs from a file of JSON lines
    Batch(jobs::batch::BatchArgs),
    /// List jobs
    List(Box<jobs::list::ListArgs>),
    /// Show a job: details, reasons, attempts, timeline, graph
    Show(jobs::show::ShowArgs),
    /// List the reasons why a job is not running
    Explain(jobs::show::ShowArgs),
    /// Print a job's log
    Logs(jobs::logs::LogsArgs),
    /// Schedule jobs that were submitted with --hold
    Release(jobs::signal::ReleaseArgs),
    /// Send a signal to a job that waits for one, or will
    Signal(jobs::signal::SignalArgs),
    /// Suspend jobs
    Suspend(Box<jobs::actions::SuspendArgs>),
    /// Resume suspended jobs, or a paused queue, worker, type or tenant
    ///
    /// `windlass resume ID…` resumes jobs, `windlass resume queue NAME` resumes a queue.
    Resume(Box<jobs::actions::ResumeArgs>),
    /// Cancel jobs
    Cancel(Box<jobs::actions::ReasonedArgs>),
    /// Change the priority of jobs
    Priority(Box<jobs::actions::PriorityArgs>),
    /// Retry final jobs as new jobs
    #[command(visible_alias = "retry")]
    Redrive(Box<jobs::actions::RedriveArgs>),
    /// Delete final jobs
    Delete(Box<jobs::actions::ActArgs>),

    /// List queues with depth and throughput; show and change their settings
    #[command(args_conflicts_with_subcommands = true)]
    Queues(Box<NamedArgs<manage::queues::QueueFlags>>),
    /// Pause a queue, worker, type or tenant
    Pause(Box<manage::pause::PauseArgs>),
    /// Pause all job processing, or show whether it is paused
    #[command(args_conflicts_with_subcommands = true)]
    Gate(Box<manage::operations::GateArgs>),
    /// Compare store time with the wall clock; exits with 1 if the wall clock is not trusted
    #[command(args_conflicts_with_subcommands = true)]
    Clock(Box<stores::clock::ClockArgs>),
    /// Show or change how long final jobs are kept
    #[command(args_conflicts_with_subcommands = true)]
    Retention(Box<manage::retention::RetentionArgs>),
    /// List workers: alive, paused or lost
    Workers(connection::connect::ConnectArgs),
    /// List job types with counts, durations and failures; show and change their settings
    #[command(args_conflicts_with_subcommands = true)]
    Types(Box<NamedArgs<manage::types::TypeFlags>>),
    /// List tenants with job counts and costs; show and change their settings
    #[command(args_conflicts_with_subcommands = true)]
    Tenants(Box<NamedArgs<manage::tenants::TenantFlags>>),
    /// Manage schedules: cron, interval or one time
    #[command(args_conflicts_with_subcommands = true)]
    Schedules(Box<manage::schedules::SchedulesArgs>),
    /// Count jobs by queue and state
    ///
    /// Queries the server; with `--store` or `WINDLASS_STORE` it reads the store directly.
    Stats(manage::stats::StatsArgs),
    /// List recent events; -f follows new ones
    Events(Box<manage::audit_list::EventsArgs>),
    /// Read the audit trail, or verify its hash chain
    #[command(args_conflicts_with_subcommands = true)]
    Audit(Box<manage::audit::AuditArgs>),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(Box<manage::keys::KeysCommand>),

    /// Check every invariant of the stored data; exits with 1 if one is broken
    Verify(ReportArgs),
    /// Copy a SQLite store to a new file while it is in use
    Backup(stores::backup::BackupArgs),
    /// Restore a store from a backup and check it
    Restore(stores::restore::RestoreArgs),
    /// Migrate a store to this version's schema
    Migrate(stores::migrate::MigrateArgs),
    /// Move a store with all its data to another database
    Move(stores::move_store::MoveArgs),
    /// Benchmark a store, or a server over HTTP
    Bench(run::bench::BenchArgs),
    /// Be one node of a benchmark of several. Started by `bench` itself.
    #[command(hide = true)]
    BenchNode,
    /// Check the settings of `serve`
    #[command(subcommand)]
    Config(run::config::ConfigCommand),
    /// Manage webhook signing secrets
    #[command(subcommand)]
    Webhooks(manage::webhooks::WebhooksCommand),
    /// Create signing keys for tickets
    #[command(subcommand)]
    Tickets(manage::tickets::TicketsCommand),

    /// Print shell completions
    Completions(help::CompletionsArgs),
    /// Print or write man pages
    Man(help::ManArgs),
}

/// The store to open.
#[derive(Args)]
struct StoreArgs {
    /// The store: `sqlite:PATH` or `postgres://HOST/DATABASE`.
    #[arg(long, env = "WINDLASS_STORE", default_value = "sqlite:windlass.db", value_name = "ADDRESS")]
    store: String,
}

/// The store to open and the output format.
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

    /// Opens the store. `Missing::Create` creates it if it does not exist; only `serve` and `keys create` use that.
    fn open(&self, missing: Missing) -> anyhow::Result<Store> {
        self.open_with(missing, StoreOptions::default())
    }

    /// Like [`StoreArgs::open`], with options.
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

    /// Fails if the address does not hold a store. Commands that read a store must not create one, especially not in an
    /// empty backup file or in another program's database.
    fn refuse_what_is_no_store(&self) -> anyhow::Result<()> {
        let schema = Schema::read(&self.store).map_err(|error| self.cannot_open(&error))?;
        let marker = self.store.strip_prefix("sqlite:").map(|path| format!("{path}-head"));
        // An emptied file with a head marker is a store that lost its data; opening it reports that.
        let has_been_one = marker.is_some_and(|marker| std::path::Path::new(&marker).exists());
        anyhow::ensure!(
            schema.found > 0 || has_been_one,
            "no store at {}: the database is empty or belongs to another program; start one with `windlass \
             serve --store {}`",
            self.shown(),
            self.shown()
        );
        Ok(())
    }

    /// Opens the store or creates it. Retries until `wait` has passed while the database cannot be reached.
    async fn open_when_reachable(&self, options: StoreOptions, wait: Duration) -> anyhow::Result<Store> {
        let deadline = Deadline::after(wait);
        let mut is_told = false;
        loop {
            let (address, options) = (self.store.clone(), options.clone());
            // Checking a large file takes seconds; requests and signals are handled meanwhile.
            let opened = apart("windlass-open", move || Store::open(&address, options)).await;
            let error = match opened? {
                Ok(store) => return Ok(store),
                Err(error) => error,
            };
            if deadline.is_over() || !matches!(error, OpenError::Store(StoreError::Away(_))) {
                return Err(self.cannot_open(&error));
            }
            if !is_told {
                tracing::warn!("{:#}; retrying for {wait:?}", self.cannot_open(&error));
                is_told = true;
            }
            tokio::time::sleep(crate::limits::STORE_RETRY_INTERVAL).await;
        }
    }

    /// The error, without the password that the address may contain.
    fn cannot_open(&self, error: &OpenError) -> anyhow::Error {
        let error = error.to_string().replace(&self.store, &self.shown());
        anyhow::anyhow!("cannot open {}: {error}", self.shown())
    }
}

/// Runs `work` on its own thread. The process does not wait for the thread if the returned future is dropped.
async fn apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _nobody_waits = done.send(work());
    })?;
    outcome.await.map_err(|_| anyhow::anyhow!("the thread `{name}` failed"))
}

/// What to do if there is no store at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Refuse,
}

/// The parsed command line, merged with the environment and a configuration file.
struct Invocation {
    cli: Cli,
    /// The effective settings of `serve`, if the command has any.
    settings: Vec<Setting>,
}

/// The commands that take settings, as paths of subcommand names.
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
                command.find_subcommand(word).expect("the subcommand was parsed, so it exists")
            });
            let matches = below(&matches, words).expect("the same subcommands were parsed");
            settings = in_force(configured, matches, file.as_ref());
        }
        let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        Ok(Invocation { cli, settings })
    }
}

/// Parses the command line; prints the error and exits the process if it is invalid.
fn parse(command: &clap::Command, arguments: Vec<OsString>) -> ArgMatches {
    command.clone().try_get_matches_from(arguments).unwrap_or_else(|error| error.exit())
}

/// The matches of the subcommand at the path `words`, if it was given.
fn below<'a>(matches: &'a ArgMatches, words: &[&str]) -> Option<&'a ArgMatches> {
    words.iter().try_fold(matches, |matches, word| matches.subcommand_matches(word))
}

/// Changes the subcommand at the path `words`.
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

/// Runs the given command and prints its error to standard error.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    attempt(arguments).unwrap_or_else(|error| {
        let exit = exit_code::Exit::of(&error);
        // Nothing reads the output any more, so there is no one to report this to.
        if exit != exit_code::Exit::NobodyReads {
            output::note(&format!("windlass: {error:#}"));
        }
        exit.into()
    })
}

fn attempt(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let Invocation { cli, settings } = Invocation::read(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Boxed, so that the future of every command is compiled once and not again for each scheduler and caller.
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
        Command::Release(args) => jobs::signal::release(&args).await,
        Command::Signal(args) => jobs::signal::signal(&args).await,
        Command::Suspend(args) => jobs::actions::suspend(&args).await,
        Command::Resume(args) => jobs::actions::resume(&args).await,
        Command::Cancel(args) => jobs::actions::cancel(&args).await,
        Command::Priority(args) => jobs::actions::priority(&args).await,
        Command::Redrive(args) => jobs::actions::redrive(&args).await,
        Command::Delete(args) => jobs::actions::delete(&args).await,
        Command::Queues(args) => manage::named::run(&args).await,
        Command::Pause(args) => manage::pause::pause(&args).await,
        Command::Gate(args) => manage::operations::gate(&args).await,
        Command::Clock(args) => stores::clock::clock(&args).await,
        Command::Retention(args) => manage::retention::retention(&args).await,
        Command::Workers(connect) => manage::operations::workers(&connect).await,
        Command::Types(args) => manage::named::run(&args).await,
        Command::Tenants(args) => manage::named::run(&args).await,
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
        Command::BenchNode => crate::bench::be_a_node().await,
        Command::Config(run::config::ConfigCommand::Check(args)) => run::config::check(&args, settings),
        Command::Webhooks(command) => manage::webhooks::webhooks(&command).await,
        Command::Tickets(command) => manage::tickets::tickets(&command),
        Command::Completions(args) => help::completions(&args, Cli::command()),
        Command::Man(args) => help::man(&args, help::arranged(Cli::command())),
    }
}
