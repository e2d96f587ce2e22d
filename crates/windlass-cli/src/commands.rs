//! The commands: which there are, and which function runs each. Data goes to standard output, messages to standard error.

mod help;
mod invocation;
mod jobs;
pub(crate) mod manage;
mod run;
mod store_args;
mod stores;
mod suggestion;
mod watch;

use std::ffi::OsString;
use std::pin::Pin;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::invocation::Invocation;
use crate::commands::manage::named::NamedArgs;
use crate::config::Setting;
#[cfg(feature = "top")]
use crate::top;
use crate::{connection, exit_code, output};

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
    #[cfg(feature = "demo")]
    Demo(run::demo::DemoArgs),
    /// Start a server for development, with programs that are restarted when a file changes
    ///
    /// Jobs are stored in memory unless a store is given. The clock can be moved: POST /dev/advance lets a month pass
    /// in milliseconds. Programs get the server's address in `WINDLASS_URL`.
    Dev(Box<run::dev::DevArgs>),
    /// Run a program for each job: payload on stdin, result on stdout, exit code as outcome
    Work(Box<run::work::WorkArgs>),
    /// Kill the programs of a worker that was killed. Started by `work` itself.
    #[command(hide = true)]
    WorkGuard(run::work::GuardArgs),
    /// Check whether a server is ready; exits with 0 only if it is
    ///
    /// For the health checks of containers and load balancers. Requires no API key.
    Health(connection::connect::ConnectArgs),
    /// Show whether a server works well; exits with 1 if something needs attention
    #[command(visible_alias = "doctor")]
    Status(connection::connect::ConnectArgs),
    /// Offer a server's tools to agents (Model Context Protocol)
    ///
    /// Messages are lines on standard input and output. Agents start this command themselves. They act as the key
    /// that --key or the environment names.
    Mcp(run::mcp::McpArgs),
    /// Open the dashboard in a browser
    Open(run::open::OpenArgs),
    /// Monitor a server in the terminal, with keys to pause, cancel and redrive
    #[cfg(feature = "top")]
    Top(top::TopArgs),

    /// Submit a job; prints its id, or with --wait its result
    Submit(Box<jobs::submit::SubmitArgs>),
    /// Submit many jobs from a file of JSON lines
    #[command(visible_alias = "import")]
    Batch(jobs::batch::BatchArgs),
    /// List jobs
    List(Box<jobs::list::ListArgs>),
    /// Show a job: details, reasons, attempts, timeline, graph
    Show(jobs::show::ShowArgs),
    /// List the reasons why a job is not running
    Explain(jobs::show::ShowArgs),
    /// Print the log of a job, or of all jobs of a type, queue or tenant; -f follows
    Logs(jobs::logs::LogsArgs),
    /// Print the partial output of a job
    Stream(jobs::stream::StreamArgs),
    /// Schedule jobs that were submitted with --hold
    Release(jobs::signal::ReleaseArgs),
    /// Send a signal to a job that waits for one, or will
    Signal(jobs::signal::SignalArgs),
    /// Make a token that reads one job and its result, for a page in a browser
    Token(jobs::signal::TokenArgs),
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
    /// Print jobs as JSON lines that `import` submits again
    Export(Box<jobs::export::ExportArgs>),
    /// Delete final jobs
    ///
    /// Asks first on a terminal, also for ids. In a script it does what was asked for; a filter needs --yes there.
    Delete(Box<jobs::actions::ActArgs>),

    /// List queues with depth and throughput; show and change their settings
    #[command(args_conflicts_with_subcommands = true)]
    Queues(Box<NamedArgs<manage::queues::QueueFlags>>),
    /// Pause a queue, worker, type or tenant
    Pause(Box<manage::pause::PauseArgs>),
    /// Pause all job processing, or show whether it is paused
    #[command(args_conflicts_with_subcommands = true)]
    Gate(Box<manage::gate::GateArgs>),
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
    /// Manage alerts: dead letters, delays, failures, missed schedules, clock
    #[command(args_conflicts_with_subcommands = true)]
    Alerts(Box<manage::alerts::AlertsArgs>),
    /// Count jobs by queue and state; with --range show what happened over time
    ///
    /// Queries the server; with `--store` or `WINDLASS_STORE` it reads the store directly.
    Stats(manage::stats::StatsArgs),
    /// List recent events; -f follows new ones
    Events(Box<manage::audit::list::EventsArgs>),
    /// Read the audit trail, or verify its hash chain
    #[command(args_conflicts_with_subcommands = true)]
    Audit(Box<manage::audit::AuditArgs>),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(Box<manage::keys::KeysCommand>),

    /// Check every invariant of the stored data; exits with 1 if one is broken
    ///
    /// With --repair it says for each finding what would be done and from what that follows, or, where nothing follows, what a
    /// person can do. It asks on a terminal, and changes nothing in a script without --yes.
    Verify(stores::verify::VerifyArgs),
    /// Copy a SQLite store to a new file while it is in use
    Backup(stores::backup::BackupArgs),
    /// Restore a store from a backup and check it
    Restore(stores::restore::RestoreArgs),
    /// Migrate a store to this version's schema
    Migrate(stores::migrate::MigrateArgs),
    /// Move a store with all its data to another database
    Move(stores::move_store::MoveArgs),
    /// Benchmark a store, or a server over HTTP
    #[cfg(feature = "bench")]
    Bench(run::bench::BenchArgs),
    /// Be one node of a benchmark of several. Started by `bench` itself.
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    BenchNode,
    /// Drive a worker program in any language through the cases of the worker protocol
    SdkTest(run::sdk_test::SdkTestArgs),
    /// Check the settings of `serve`
    #[command(subcommand)]
    Config(run::config::ConfigCommand),
    /// Manage webhook signing secrets
    #[command(subcommand)]
    Webhooks(manage::webhooks::WebhooksCommand),
    /// Create signing keys for tickets
    #[command(subcommand)]
    Tickets(manage::tickets::TicketsCommand),

    /// List the servers that profiles name, and choose one
    #[command(args_conflicts_with_subcommands = true)]
    Context(Box<manage::context::ContextArgs>),
    /// Print the version of this program
    Version(connection::connect::ConnectArgs),
    /// Write the guides as a static site
    Docs(run::docs::DocsArgs),
    /// Print shell completions
    Completions(help::CompletionsArgs),
    /// Print or write man pages
    Man(help::ManArgs),
}

/// Runs the given command and prints its error to standard error.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    attempt(arguments).unwrap_or_else(|error| {
        let exit = exit_code::Exit::from_error(&error);
        // Nothing reads the output any more, so there is no one to report this to.
        if exit != exit_code::Exit::NobodyReads {
            output::complain(&format!("windlass: {error:#}"));
        }
        exit.into()
    })
}

fn attempt(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    if arguments.len() <= 1 {
        output::text(help::FIRST_STEPS)?;
        return Ok(exit_code::Exit::Usage.into());
    }
    let Invocation { cli, settings, watch } = Invocation::read(arguments.clone())?;
    if let Some(every) = watch {
        return watch::repeat(arguments, every);
    }
    start(cli, &settings)
}

/// Runs a command to its end.
fn start(cli: Cli, settings: &[Setting]) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Boxed, so that the future of every command is compiled once and not again for each scheduler and caller.
    let work: Pin<Box<dyn Future<Output = anyhow::Result<ExitCode>> + '_>> =
        Box::pin(perform(cli.command, settings));
    runtime.block_on(work)
}

async fn perform(command: Command, settings: &[Setting]) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => run::serve::serve(&args).await,
        #[cfg(feature = "demo")]
        Command::Demo(args) => run::demo::demo(&args).await,
        Command::Dev(args) => run::dev::dev(&args).await,
        Command::Work(args) => run::work::work(&args).await,
        Command::WorkGuard(args) => run::work::guard(&args).await,
        Command::Health(args) => run::health::health(&args).await,
        Command::Status(connect) => manage::status::status(&connect).await,
        Command::Mcp(args) => run::mcp::mcp(&args).await,
        Command::Open(args) => run::open::open(&args).await,
        Command::Docs(args) => run::docs::docs(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::top(&args).await,
        Command::Submit(args) => jobs::submit::submit(&args).await,
        Command::Batch(args) => jobs::batch::batch(&args).await,
        Command::List(args) => jobs::list::list(&args).await,
        Command::Show(args) => jobs::show::show(&args).await,
        Command::Explain(args) => jobs::show::explain(&args).await,
        Command::Logs(args) => jobs::logs::logs(&args).await,
        Command::Stream(args) => jobs::stream::stream(&args).await,
        Command::Release(args) => jobs::signal::release(&args).await,
        Command::Signal(args) => jobs::signal::signal(&args).await,
        Command::Token(args) => jobs::signal::token(&args).await,
        Command::Suspend(args) => jobs::actions::suspend(&args).await,
        Command::Resume(args) => jobs::actions::resume(&args).await,
        Command::Cancel(args) => jobs::actions::cancel(&args).await,
        Command::Priority(args) => jobs::actions::priority(&args).await,
        Command::Redrive(args) => jobs::actions::redrive(&args).await,
        Command::Export(args) => jobs::export::export(&args).await,
        Command::Delete(args) => jobs::actions::delete(&args).await,
        Command::Queues(args) => manage::named::run(&args).await,
        Command::Pause(args) => manage::pause::pause(&args).await,
        Command::Gate(args) => manage::gate::gate(&args).await,
        Command::Clock(args) => stores::clock::clock(&args).await,
        Command::Retention(args) => manage::retention::retention(&args).await,
        Command::Workers(connect) => manage::workers::workers(&connect).await,
        Command::Types(args) => manage::named::run(&args).await,
        Command::Tenants(args) => manage::named::run(&args).await,
        Command::Schedules(args) => manage::schedules::schedules(&args).await,
        Command::Alerts(args) => manage::alerts::alerts(&args).await,
        Command::Stats(args) => manage::stats::stats(&args).await,
        Command::Events(args) => manage::audit::list::events(&args).await,
        Command::Audit(args) => manage::audit::audit(&args).await,
        Command::Keys(command) => manage::keys::keys(&command).await,
        Command::Verify(args) => stores::verify::verify(&args).await,
        Command::Backup(args) => stores::backup::backup(&args).await,
        Command::Restore(args) => stores::restore::restore(&args).await,
        Command::Migrate(args) => stores::migrate::migrate(&args),
        Command::Move(args) => stores::move_store::move_store(&args).await,
        #[cfg(feature = "bench")]
        Command::Bench(args) => run::bench::bench(&args).await,
        #[cfg(feature = "bench")]
        Command::BenchNode => crate::bench::be_a_node().await,
        Command::SdkTest(args) => run::sdk_test::sdk_test(&args).await,
        Command::Config(run::config::ConfigCommand::Check(args)) => run::config::check(&args, settings),
        Command::Webhooks(command) => manage::webhooks::webhooks(&command).await,
        Command::Tickets(command) => manage::tickets::tickets(&command),
        Command::Context(args) => manage::context::context(&args),
        Command::Version(connect) => run::open::version(&connect),
        Command::Completions(args) => help::completions(&args, help::arranged(Cli::command())),
        Command::Man(args) => help::man(&args, help::arranged(Cli::command())),
    }
}
