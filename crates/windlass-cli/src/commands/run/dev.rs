//! `windlass dev`: a server for development, whose clock can be moved, with the programs that use it. Programs are restarted
//! when a file changes.

mod changes;
mod program;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::clock::{Clock, JumpClock, SystemClock};
use windlass::entropy::Entropy;
use windlass::store::{Environment, StoreOptions};
use windlass::{Store, maintenance};
use windlass_server::http::StorePlace;
use windlass_server::server::{Options, Server};
use windlass_server::webhooks::{self, WebhookClient};

use self::program::Program;
use crate::commands::run::serve::Signals;
use crate::output;

/// Arguments of `dev`.
#[derive(Args)]
pub(crate) struct DevArgs {
    /// Loopback address to listen on; port 0 takes a free one.
    #[arg(long, env = "WINDLASS_LISTEN", default_value = "127.0.0.1:7788", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where jobs are stored: `memory:`, or `sqlite:PATH`, whose clock cannot be moved.
    #[arg(long, default_value = "memory:", value_name = "ADDRESS")]
    store: String,
    /// The clock stands still, except for POST /dev/advance.
    #[arg(long)]
    stopped_clock: bool,
    /// Open the dashboard in a browser.
    #[arg(long)]
    open: bool,
    /// A command to run beside the server, by the shell; can be given several times.
    #[arg(long = "run", value_name = "COMMAND")]
    commands: Vec<String>,
    /// Folder whose changes restart the programs.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    watch: PathBuf,
    /// Do not restart programs when a file changes.
    #[arg(long)]
    no_restart: bool,
    /// A program to run beside the server, and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl DevArgs {
    /// The store, and its clock if that can be moved. Store time never goes back: a file whose clock was moved could not be
    /// served by anything else.
    fn open_store(&self) -> anyhow::Result<(Store, Option<Arc<JumpClock>>)> {
        let (clock, jumps): (Arc<dyn Clock>, _) = match self.store.as_str() {
            "memory:" => {
                let clock = Arc::new(JumpClock::new(!self.stopped_clock));
                (clock.clone(), Some(clock))
            }
            address if address.starts_with("sqlite:") => {
                anyhow::ensure!(!self.stopped_clock, "--stopped-clock needs a store in memory");
                (Arc::new(SystemClock::new()), None)
            }
            _ => anyhow::bail!("--store: a server for development uses `memory:` or `sqlite:PATH`"),
        };
        let env = Environment::new(clock, Entropy::from_system(), StoreOptions::default());
        Ok((Store::open_in(&self.store, env)?, jumps))
    }

    fn programs(&self) -> Vec<Program> {
        let by_shell = self.commands.iter().map(|command| Program::by_shell(command));
        by_shell.chain(Program::new(&self.program)).collect()
    }
}

pub(crate) async fn dev(args: &DevArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        args.listen.ip().is_loopback(),
        "--listen: a server for development listens on loopback addresses only"
    );
    let mut signals = Signals::listen()?;
    let (store, dev_clock) = args.open_store()?;
    let place = StorePlace::from_address(&args.store);
    let has_clock = dev_clock.is_some();
    let options = Options { listen: args.listen, store: place, dev_clock, ..Options::default() };
    let server = Server::bind(store.clone(), options).await?;
    anyhow::ensure!(!server.has_keys().await?, "a store with API keys is not for development");
    let url = server.url();
    output::note(&format!("listening on {url}; stop with Ctrl-C"));
    output::note(&format!("dashboard: {url}"));
    if has_clock {
        output::note(&format!("the clock: curl {url}/dev/advance --json '{{\"by\": \"1h\"}}'"));
    }
    if args.open {
        open_browser(&url);
    }
    let stop = CancellationToken::new();
    let (changed, restart) = watch::channel(());
    let programs = args.programs();
    let has_programs = !programs.is_empty();
    // Before the programs start, so that no change after that is missed.
    let before = changes::folder_state(args.watch.clone()).await?;
    let watching = async {
        if args.no_restart || !has_programs {
            return std::future::pending().await;
        }
        changes::watch(&args.watch, before, &changed).await
    };
    let mut running = JoinSet::new();
    for program in programs {
        running.spawn(program.run(
            url.clone(),
            args.stopped_clock.then_some("stopped"),
            restart.clone(),
            stop.clone(),
        ));
    }
    let stopping = async {
        signals.stop_signal().await;
        stop.cancel();
    };
    let targets = store.environment().options.targets.clone();
    let calling = Box::pin(webhooks::run(store.clone(), WebhookClient::new(targets), stop.cancelled()));
    let serving = Box::pin(server.run(stop.cancelled()));
    let working = maintenance::run(&store, async {
        tokio::join!(stopping, serving, calling);
        running.join_all().await;
    });
    tokio::select! {
        () = working => {}
        failed = watching => failed.context("cannot watch for changes")?,
    }
    store.close();
    Ok(ExitCode::SUCCESS)
}

/// Opens a page, if this machine has a way to.
fn open_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if tokio::process::Command::new(program).arg(url).spawn().is_err() {
        output::note(&format!("no browser: `{program}` cannot be run"));
    }
}
