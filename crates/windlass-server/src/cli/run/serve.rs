//! `windlass serve`: answers over HTTP and keeps a store going for all processes that use it, until it is told to stop.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass::clock::Deadline;
use windlass::key::KeySecret;
use windlass::store::caller::Caller;
use windlass::store::environment::{FileCheck, StoreOptions};
use windlass::{Store, maintenance};

use crate::cli::StoreArgs;
use crate::cli::manage::retention_args::RetentionFlags;
use crate::cli::run::outbound::OutboundArgs;
use crate::http::{Span, StorePlace};
use crate::limits;
use crate::log::LogArgs;
use crate::process::{raise_open_files, warn_of_readers};
use crate::server::{Listening, Options, TlsFiles};
use crate::systemd::Supervisor;
use crate::webhooks::{self, WebhookClient};

/// How to serve.
#[derive(Args)]
pub(in crate::cli) struct ServeArgs {
    /// A file of settings, TOML: its keys are the names of these flags, with `_` for `-`.
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Where to listen; addresses that others can reach need keys and encryption.
    #[arg(long, env = "WINDLASS_LISTEN", default_value = "127.0.0.1:7788", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The certificate chain for TLS, a PEM file.
    #[arg(long, env = "WINDLASS_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, env = "WINDLASS_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A proxy in front of this server speaks TLS.
    #[arg(long, env = "WINDLASS_BEHIND_PROXY", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    behind_proxy: bool,
    /// How long to try again if the database cannot be reached at the start, such as 60s.
    #[arg(long, env = "WINDLASS_WAIT_FOR_STORE", default_value = "0s", value_name = "DURATION")]
    wait_for_store: Span,
    /// A file with a secret from `windlass keys generate`: it becomes the admin key `bootstrap` if the store never had a key.
    #[arg(long, env = "WINDLASS_BOOTSTRAP_KEY_FILE", value_name = "FILE")]
    bootstrap_key_file: Option<PathBuf>,
    #[command(flatten)]
    outbound: OutboundArgs,
    #[command(flatten)]
    keeping: RetentionFlags,
    #[command(flatten)]
    log: LogArgs,
}

impl ServeArgs {
    /// How to listen.
    pub(in crate::cli) fn options(&self) -> anyhow::Result<Options> {
        let tls = match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            _ => anyhow::bail!("tls_cert and tls_key belong together: one of them is missing"),
        };
        let store = StorePlace::from_address(&self.store.store);
        Ok(Options { listen: self.listen, tls, behind_proxy: self.behind_proxy, store, ..Options::default() })
    }

    /// Tells a person where to look and what to try, also where the log is too quiet to.
    fn greet(&self, url: &str) {
        if !self.log.is_for_people() {
            return;
        }
        if self.log.is_quiet() {
            crate::cli::output::note(&format!("listening on {url}; stop with Ctrl-C"));
        }
        let elsewhere =
            if url == crate::cli::connection::connect::URL { String::new() } else { format!(" --url {url}") };
        crate::cli::output::note(&format!(
            "dashboard: {url}\ntry: windlass submit hello '{{\"name\": \"world\"}}'{elsewhere}"
        ));
    }

    /// The secret of the first key, if a file with one was given.
    pub(in crate::cli) fn bootstrap_secret(&self) -> anyhow::Result<Option<KeySecret>> {
        let Some(path) = &self.bootstrap_key_file else { return Ok(None) };
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the bootstrap key file {shown}"))?;
        let secret = KeySecret::parse(text.trim()).with_context(|| {
            format!("{shown} does not hold an API key; `windlass keys generate` prints one")
        })?;
        Ok(Some(secret))
    }

    /// Opens the store, and makes its first key if a file declares one.
    async fn open_store(&self, keeping: StoreOptions) -> anyhow::Result<Store> {
        // Read first: nothing is made while a setting is wrong.
        let bootstrap = self.bootstrap_secret()?;
        let store = self.store.open_when_reachable(keeping, self.wait_for_store.0).await?;
        if let Some(secret) = bootstrap {
            let id = secret.id();
            if store.bootstrap_key(&Caller::local(), secret).await? {
                tracing::info!("created the admin key `bootstrap` ({id}) from its file");
            }
        }
        Ok(store)
    }

    /// What a client is told while the store is opened.
    fn waits_for(&self, check: FileCheck) -> &'static str {
        match (self.store.store.starts_with("sqlite:"), check) {
            (false, _) => "it waits for the database",
            (true, FileCheck::BeforeServing) => "it checks the database file",
            (true, FileCheck::InBackground) => "it opens the database file",
        }
    }

    /// Says so if others may read what only this server is to read.
    fn warn_of_readers(&self) {
        let store = self.store.store.strip_prefix("sqlite:").map(Path::new);
        let files = [
            ("the file of settings", self.config.as_deref()),
            ("the private key of the certificate", self.tls_key.as_deref()),
            ("the key for tickets", self.keeping.tickets.key_file()),
            ("the store", store),
        ];
        for (what, path) in files {
            if let Some(path) = path {
                warn_of_readers(what, path);
            }
        }
    }

    /// How to keep jobs.
    pub(in crate::cli) fn store_options(&self) -> anyhow::Result<StoreOptions> {
        let targets = self.outbound.policy();
        Ok(StoreOptions { targets, ..self.keeping.store_options()? })
    }
}

pub(in crate::cli) async fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let telemetry = args.log.start()?;
    args.warn_of_readers();
    let files = raise_open_files();
    let (mut listening, keeping) = (args.options()?, args.store_options()?);
    // Connections must not take the files that the store needs.
    let files_left = files.map_or(u64::MAX, |files| files.saturating_sub(limits::FILES_KEPT_FREE).max(1));
    listening.connections_max =
        listening.connections_max.min(usize::try_from(files_left).unwrap_or(usize::MAX));
    let targets = keeping.targets.clone();
    let mut signals = Signals::listen()?;
    let listening = Listening::bind(listening).await?;
    let waits_for = args.waits_for(keeping.file_check);
    let store = tokio::select! {
        opened = listening.answer_until(waits_for, args.open_store(keeping)) => opened?,
        // Nothing was served: nobody is owed anything.
        () = signals.told_to_stop() => return Ok(ExitCode::SUCCESS),
    };
    let jobs: u64 = store.stats(&Caller::local()).await?.states.values().sum();
    let server = listening.serve(store.clone()).await?;
    let (version, address) = (env!("CARGO_PKG_VERSION"), args.store.shown());
    tracing::info!("windlass {version} keeps {address} ({jobs} jobs)");
    tracing::info!("listening on {}; stop with Ctrl-C", server.url());
    tracing::info!(
        "{} files may be open, connections among them",
        files.map_or("any number of".to_owned(), |files| files.to_string())
    );
    args.greet(&server.url());
    if !server.has_keys().await? {
        tracing::warn!(
            "no keys yet: whoever is on this machine may do everything, and nobody else can connect"
        );
    }
    let supervisor = Supervisor::from_environment();
    let stop = CancellationToken::new();
    let stopped_by: OnceCell<Deadline> = OnceCell::new();
    let stopping = async {
        signals.told_to_stop().await;
        supervisor.stopping();
        tracing::info!("stopping");
        let _once = stopped_by.set(Deadline::after(limits::STOP_MAX));
        stop.cancel();
    };
    let serving = Box::pin(server.run(stop.cancelled()));
    // Calls to others end like requests: a store that is away must not hold up the end.
    let calling = Box::pin(webhooks::run(store.clone(), WebhookClient::new(targets), stop.cancelled()));
    let calling = async {
        tokio::select! {
            () = calling => {}
            () = async { stop.cancelled().await; tokio::time::sleep(limits::DRAIN_MAX).await } => {
                tracing::warn!("some calls to others did not end in time and are cut off");
            }
        }
    };
    supervisor.ready();
    // Maintenance goes on while requests and calls are finished, and ends with them.
    let working = maintenance::run(&store, async {
        tokio::join!(stopping, serving, calling);
    });
    tokio::select! {
        () = working => {}
        () = supervisor.watch(&store) => {}
    }
    let least = Deadline::after(limits::STORE_CLOSE_MIN);
    close(store, stopped_by.get().map_or(least, |by| least.max(*by))).await;
    telemetry.finish().await;
    tracing::info!("stopped");
    // Nobody asked for it: the store has stopped, for a reason that was logged. The exit code tells the supervisor.
    Ok(if stopped_by.get().is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The signals that tell a server to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn told_to_stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Closes the store, on a thread that the process does not wait for beyond `until`: what it acknowledged is in the database,
/// and nothing else is owed to anybody.
async fn close(store: Store, until: Deadline) {
    let (closed, is_closed) = tokio::sync::oneshot::channel();
    let closing = std::thread::Builder::new().name("windlass-close".to_owned());
    let thread = closing.spawn(move || {
        store.close();
        // Nobody may wait for it any more.
        let _ = closed.send(());
    });
    if thread.is_err() {
        return;
    }
    tokio::select! {
        _ = is_closed => {}
        () = until.passed() => tracing::warn!("the database does not answer: leaving without it"),
    }
}
