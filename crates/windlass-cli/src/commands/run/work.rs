//! `windlass work`: a worker that runs a program for each job. The first signal stops it from taking jobs and lets running
//! ones finish; the second stops them.

mod report;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass::error::{StoreError, WorkError};
use windlass::store::StoreOptions;
use windlass::{Client, PauseMode, Worker, WorkerControl, limits};
use windlass_api::client::error::ErrorResponse;
use windlass_api::time::Span;
use windlass_server::exec::{self, Guard, Program, RunOptions, is_runnable, parse_signal};

use self::report::Reporter;
use crate::commands::manage::retention_args::payload_bytes;
use crate::commands::manage::tickets::TicketArgs;
use crate::commands::store_args::{Missing, StoreArgs};
use crate::connection::connect::{ConnectArgs, Connection};
use crate::error::Failure;
use crate::limits::PROGRAM_GRACE_MARGIN;
use crate::log::warn_only;
use crate::output;
use crate::output::text::counted;

/// The argument that means all types.
const ANY_TYPE: &str = "*";

/// Arguments of `work`.
#[derive(Args)]
pub(crate) struct WorkArgs {
    /// Job types to run; '*' for all types in the queues.
    #[arg(required = true, value_name = "TYPE")]
    types: Vec<String>,
    /// The program to run for each job, and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Queue to take jobs from, as NAME or NAME=N with its own concurrency; may be repeated.
    #[arg(long = "queue", short = 'q', value_name = "NAME[=N]", default_value = "default", value_parser = QueueArg::parse)]
    queues: Vec<QueueArg>,
    #[command(flatten)]
    tickets: TicketArgs,
    /// Maximum number of programs running at once per queue.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    concurrency: u32,
    /// Maximum run time of a program, if shorter than the job allows.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// How long a program may take to exit after the stop signal before it is killed.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    grace: Span,
    /// How long running programs may continue once the worker stops.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    drain: Span,
    /// Signal for a program whose job was suspended: TERM, INT, HUP, QUIT, USR1 or USR2.
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = parse_signal)]
    suspend_signal: Signal,
    /// Maximum size of a result in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = limits::PAYLOAD_BYTES_DEFAULT, value_parser = payload_bytes)]
    result_bytes_max: usize,
    /// The worker's display name; program and host name by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The worker's version, which jobs may require; that of windlass by default.
    #[arg(long, value_name = "VERSION", default_value = env!("CARGO_PKG_VERSION"), hide_default_value = true)]
    worker_version: String,
    /// Pass the worker's key to programs as `WINDLASS_KEY`; by default they get none.
    #[arg(long)]
    pass_key: bool,
    /// Open a store directly, without a server: `sqlite:PATH` or `postgres://HOST/DATABASE`.
    #[arg(long, value_name = "ADDRESS")]
    store: Option<String>,
    #[command(flatten)]
    server: ConnectArgs,
}

/// A queue, and its concurrency if it has its own.
#[derive(Clone)]
struct QueueArg {
    name: String,
    concurrency: Option<u32>,
}

impl QueueArg {
    fn parse(text: &str) -> Result<QueueArg, String> {
        let (name, number) = text.split_once('=').map_or((text, None), |(name, number)| (name, Some(number)));
        let number = number.map(|number| match number.parse() {
            Ok(number @ 1..=1000) => Ok(number),
            _ => Err(format!("`{number}` is not a number from 1 to 1000")),
        });
        windlass::job::QueueName::new(name).map_err(|problem| problem.to_string())?;
        Ok(QueueArg { name: name.to_owned(), concurrency: number.transpose()? })
    }
}

impl WorkArgs {
    /// How many programs may run at once in all queues.
    fn concurrency(&self) -> u32 {
        self.queues.iter().map(|queue| queue.concurrency.unwrap_or(self.concurrency)).sum()
    }

    /// How programs are run; without a server they get no address.
    fn conduct(&self, server: Option<Connection>) -> RunOptions {
        let (url, key) = server.map(|server| (server.url, server.key)).unzip();
        RunOptions {
            command: self.command[0].clone(),
            arguments: self.command[1..].to_vec(),
            timeout: self.timeout.map(|Span(timeout)| timeout),
            grace: self.grace.0,
            suspend_signal: self.suspend_signal,
            result_bytes_max: self.result_bytes_max,
            url,
            key: key.flatten().filter(|_| self.pass_key),
        }
    }

    /// Opens the client, and the connection if it uses a server.
    async fn open(&self) -> anyhow::Result<(Client, Option<Connection>)> {
        if let Some(store) = &self.store {
            let store = StoreArgs { store: store.clone() };
            let options = StoreOptions { tickets: self.tickets.options()?, ..StoreOptions::default() };
            return Ok((Client::from_store(store.open_with(Missing::Refuse, options)?), None));
        }
        let server = self.server.connection()?;
        let options = StoreOptions { tickets_trusted: self.tickets.trusted()?, ..StoreOptions::default() };
        Ok((Client::open_with(&server.store_address(), options).await?, Some(server)))
    }

    fn worker(&self, client: &Client, program: &Arc<Program>) -> Worker {
        let command = Path::new(&self.command[0]).file_name().unwrap_or(&self.command[0]).to_string_lossy();
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = self.name.clone().unwrap_or_else(|| format!("{command}@{machine}"));
        let mut worker = Worker::new(client)
            .name(&name)
            .version(&self.worker_version)
            .drain(self.drain.0)
            .grace(self.grace.0.saturating_add(PROGRAM_GRACE_MARGIN));
        for queue in &self.queues {
            let concurrency = queue.concurrency.unwrap_or(self.concurrency);
            worker = worker.queue(&queue.name, concurrency as usize);
        }
        for job_type in &self.types {
            let program = program.clone();
            let run = move |cx| program.clone().handle(cx);
            worker =
                if job_type == ANY_TYPE { worker.handle_any(run) } else { worker.handle_type(job_type, run) };
        }
        worker
    }

    fn guard(&self) -> anyhow::Result<Guard> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        // The guard needs nothing from this process's environment, least of all the key.
        command.env_clear().args(["work-guard", "--grace", &self.grace.to_string()]);
        Ok(Guard::start(command)?)
    }
}

/// Arguments of the hidden command `work-guard`.
#[derive(Args)]
pub(crate) struct GuardArgs {
    #[arg(long)]
    grace: Span,
}

pub(crate) async fn guard(args: &GuardArgs) -> anyhow::Result<ExitCode> {
    exec::guard(args.grace.0).await?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn work(args: &WorkArgs) -> anyhow::Result<ExitCode> {
    crate::process::make_undumpable();
    let command = Path::new(&args.command[0]);
    anyhow::ensure!(is_runnable(command), "no program {}: give a path, or a name in PATH", command.display());
    let telemetry = warn_only()?;
    let (queue, server) = args.open().await?;
    let had_key = server.as_ref().is_some_and(|server| server.key.is_some());
    let place = server.as_ref().map_or_else(String::new, |server| server.place().to_owned());
    let reporter = Reporter::new(args.server.quiet, args.server.json, &args.types);
    let said = move |summary: exec::Summary| reporter.say(&summary);
    let program = Arc::new(Program::new(args.conduct(server), args.concurrency(), args.guard()?, said));
    let worker = args.worker(&queue, &program);
    let (control, stop) = (worker.control(), CancellationToken::new());
    let running = worker.run_until(stop.cancelled());
    let left = tokio::select! {
        left = running => left,
        failed = stop_on_signals(args, &program, &control, &stop) => return failed,
    };
    // No started process may stay behind.
    let is_empty = tokio::time::timeout(args.grace.0 + PROGRAM_GRACE_MARGIN, program.emptied()).await.is_ok();
    if !is_empty {
        program.kill();
        program.emptied().await;
    }
    let shutdown = left.map_err(|error| explained(&place, had_key, error))?;
    queue.close();
    telemetry.finish().await;
    if !args.server.quiet && shutdown.released > 0 {
        output::note(&format!("windlass: released {}", counted(shutdown.released as u64, "job")));
    }
    let is_broken = tokio::time::timeout(Duration::ZERO, program.broken()).await.is_ok();
    anyhow::ensure!(!is_broken, "{} can no longer be started", command.display());
    Ok(ExitCode::SUCCESS)
}

/// Handles the signals and other events that stop a worker; returns only on an error.
async fn stop_on_signals(
    args: &WorkArgs,
    program: &Program,
    control: &WorkerControl,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut signalled = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    if !args.server.quiet {
        tokio::select! {
            _ = control.started() => print_hint(args),
            () = signalled() => {}
        }
    }
    tokio::select! {
        () = signalled() => {}
        () = program.broken() => {}
    }
    program.leave();
    stop.cancel();
    if !args.server.quiet && program.running() > 0 {
        let running = counted(program.running() as u64, "job");
        output::note(&format!(
            "windlass: {running} may continue for {}; press Ctrl-C again to stop them now",
            args.drain
        ));
    }
    signalled().await;
    program.kill();
    // Stop the programs before the jobs are released: the next worker must not run beside them.
    let _gone_or_stuck = tokio::time::timeout(PROGRAM_GRACE_MARGIN, program.emptied()).await;
    control.pause(PauseMode::Aggressive);
    std::future::pending().await
}

/// The error that stops the worker, in the same words as other commands.
fn explained(place: &str, had_key: bool, error: WorkError) -> anyhow::Error {
    match error {
        WorkError::Store(StoreError::Unreachable(cause)) => {
            Failure::NoServer { place: place.to_owned(), cause }.into()
        }
        WorkError::Forbidden(denied) => {
            // A role error without a role means that the key is unknown.
            let (status, code) =
                if denied.role == "none" { (401, "unauthorized") } else { (403, "forbidden") };
            let refusal = ErrorResponse {
                status,
                code: code.to_owned(),
                message: denied.to_string(),
                details: serde_json::Map::new(),
                retry_after: None,
                had_key,
            };
            Failure::Refused(Box::new(refusal)).into()
        }
        error => error.into(),
    }
}

fn print_hint(args: &WorkArgs) {
    let queues: Vec<&str> = args.queues.iter().map(|queue| queue.name.as_str()).collect();
    output::note(&format!(
        "windlass: runs {} from {}, {} at once; stop with Ctrl-C",
        args.types.join(", "),
        queues.join(", "),
        args.concurrency()
    ));
}
