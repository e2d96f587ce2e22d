//! `windlass serve`: serves a store over HTTP and runs its maintenance until a signal stops it.

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
use windlass::store::{FileCheck, StoreOptions};
use windlass::{Store, maintenance};
use windlass_api::time::Span;
use windlass_server::http::StorePlace;
use windlass_server::server::{Listening, Options, TlsFiles};
use windlass_server::webhooks::{self, WebhookClient};

use crate::commands::manage::retention_args::RetentionFlags;
use crate::commands::run::webhook_args::WebhookArgs;
use crate::commands::store_args::StoreArgs;
use crate::limits;
use crate::log::LogArgs;
use crate::process::{raise_open_files, warn_of_readers};
use crate::systemd::Supervisor;

/// Arguments of `serve`.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Configuration file, TOML: its keys are the names of these flags, with `_` for `-`.
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Address to listen on; non-loopback addresses require API keys and TLS.
    #[arg(long, env = "WINDLASS_LISTEN", default_value = "127.0.0.1:7788", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Certificate chain for TLS, a PEM file.
    #[arg(long, env = "WINDLASS_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, a PEM file.
    #[arg(long, env = "WINDLASS_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A proxy in front of this server terminates TLS.
    #[arg(long, env = "WINDLASS_BEHIND_PROXY", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    behind_proxy: bool,
    /// Sites whose pages may read jobs with tokens, each with scheme and host; several are separated by commas.
    #[arg(long, env = "WINDLASS_BROWSER_ORIGINS", value_delimiter = ',', value_parser = origin, value_name = "ORIGIN")]
    browser_origins: Vec<String>,
    /// How long to retry if the database cannot be reached at startup, such as 60s.
    #[arg(long, env = "WINDLASS_WAIT_FOR_STORE", default_value = "0s", value_name = "DURATION")]
    wait_for_store: Span,
    /// A file with a secret from `windlass keys generate`: it becomes the admin key `bootstrap` if the store never had a
    /// key.
    #[arg(long, env = "WINDLASS_BOOTSTRAP_KEY_FILE", value_name = "FILE")]
    bootstrap_key_file: Option<PathBuf>,
    #[command(flatten)]
    webhooks: WebhookArgs,
    #[command(flatten)]
    keeping: RetentionFlags,
    #[command(flatten)]
    log: LogArgs,
}

/// Reads an origin as browsers send it: a scheme and a host, without a path.
fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_origin =
        host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', '?', '#', ' ', '@']));
    if is_origin && text == text.to_ascii_lowercase() {
        return Ok(text.to_owned());
    }
    Err("an origin has a scheme and a host, in lower case and without a path: https://shop.example"
        .to_owned())
}

impl ServeArgs {
    /// The listener's options.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let tls = match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            _ => anyhow::bail!("tls_cert and tls_key must be set together: one of them is missing"),
        };
        let store = StorePlace::from_address(&self.store.store);
        let browser_origins = self.browser_origins.clone();
        let (listen, behind_proxy) = (self.listen, self.behind_proxy);
        Ok(Options { listen, tls, behind_proxy, store, browser_origins, ..Options::default() })
    }

    /// Prints the dashboard's address and a first command for a person at a terminal.
    fn print_hint(&self, url: &str) {
        if !self.log.is_for_people() {
            return;
        }
        if self.log.is_quiet() {
            crate::output::note(&format!("listening on {url}; stop with Ctrl-C"));
        }
        let url_flag =
            if url == crate::connection::connect::URL { String::new() } else { format!(" --url {url}") };
        crate::output::note(&format!(
            "dashboard: {url}\ntry: windlass submit hello '{{\"name\": \"world\"}}'{url_flag}"
        ));
    }

    /// The bootstrap key, if a file is configured.
    pub(crate) fn bootstrap_secret(&self) -> anyhow::Result<Option<KeySecret>> {
        let Some(path) = &self.bootstrap_key_file else { return Ok(None) };
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the bootstrap key file {shown}"))?;
        let secret = KeySecret::parse(text.trim()).with_context(|| {
            format!("{shown} does not contain an API key; `windlass keys generate` prints one")
        })?;
        Ok(Some(secret))
    }

    /// Opens the store, and creates the bootstrap key if one is configured.
    async fn open_store(&self, keeping: StoreOptions) -> anyhow::Result<Store> {
        // Read first: an invalid setting must not leave a new store behind.
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

    /// What the server is doing while it opens the store; part of the 503 responses.
    fn waits_for(&self, check: FileCheck) -> &'static str {
        match (self.store.store.starts_with("sqlite:"), check) {
            (false, _) => "it is waiting for the database",
            (true, FileCheck::BeforeServing) => "it is checking the database file",
            (true, FileCheck::InBackground) => "it is opening the database file",
        }
    }

    /// Logs a warning for each private file that other users can read.
    fn warn_of_readers(&self) {
        let store = self.store.store.strip_prefix("sqlite:").map(Path::new);
        let files = [
            ("the configuration file", self.config.as_deref()),
            ("the private key of the certificate", self.tls_key.as_deref()),
            ("the ticket signing key", self.keeping.tickets.key_file()),
            ("the store", store),
        ];
        for (what, path) in files {
            if let Some(path) = path {
                warn_of_readers(what, path);
            }
        }
    }

    /// The store's options.
    pub(crate) fn store_options(&self) -> anyhow::Result<StoreOptions> {
        let targets = self.webhooks.policy();
        Ok(StoreOptions { targets, ..self.keeping.store_options()? })
    }
}

pub(crate) async fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let telemetry = args.log.start()?;
    args.warn_of_readers();
    let files = raise_open_files();
    let (mut listening, keeping) = (args.options()?, args.store_options()?);
    // Connections must not use up the file descriptors that the store needs.
    let files_left = files.map_or(u64::MAX, |files| files.saturating_sub(limits::FILES_KEPT_FREE).max(1));
    listening.connections_max =
        listening.connections_max.min(usize::try_from(files_left).unwrap_or(usize::MAX));
    let targets = keeping.targets.clone();
    let mut signals = Signals::listen()?;
    let listening = Listening::bind(listening)?;
    let waits_for = args.waits_for(keeping.file_check);
    let store = tokio::select! {
        opened = listening.answer_until(waits_for, args.open_store(keeping)) => opened?,
        // Nothing was served yet, so there is nothing to finish.
        () = signals.stop_signal() => return Ok(ExitCode::SUCCESS),
    };
    let jobs: u64 = store.stats(&Caller::local()).await?.states.values().sum();
    let server = listening.serve(store.clone()).await?;
    let (version, address) = (env!("CARGO_PKG_VERSION"), args.store.shown());
    tracing::info!("windlass {version} opened {address} ({jobs} jobs)");
    tracing::info!("listening on {}; stop with Ctrl-C", server.url());
    tracing::info!(
        "open file limit: {}, including connections",
        files.map_or("none".to_owned(), |files| files.to_string())
    );
    args.print_hint(&server.url());
    if !server.has_keys().await? {
        tracing::warn!(
            "no API keys yet: every process on this machine has full access, and connections from other \
             machines are refused"
        );
    }
    let supervisor = Supervisor::from_environment();
    let stop = CancellationToken::new();
    let stopped_by: OnceCell<Deadline> = OnceCell::new();
    let stopping = async {
        signals.stop_signal().await;
        supervisor.stopping();
        tracing::info!("stopping");
        let _once = stopped_by.set(Deadline::after(limits::STOP_MAX));
        stop.cancel();
    };
    let serving = Box::pin(server.run(stop.cancelled()));
    let calling = call_webhooks(store.clone(), WebhookClient::new(targets), &stop);
    supervisor.ready();
    // Maintenance continues while requests and webhook calls finish.
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
    // No signal arrived: the store stopped, for a reason that was logged. The supervisor sees it by the exit code.
    Ok(if stopped_by.get().is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Delivers webhooks until the server stops. Their calls are drained like requests: an unreachable store must not delay the
/// shutdown.
async fn call_webhooks(store: Store, client: WebhookClient, stop: &CancellationToken) {
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(windlass_server::limits::DRAIN_MAX).await;
    };
    tokio::select! {
        () = Box::pin(webhooks::run(store, client, stop.cancelled())) => {}
        () = late => tracing::warn!("some webhook calls did not finish in time and are aborted"),
    }
}

/// The signals that stop a server.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn stop_signal(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Closes the store on a thread that the process waits for only until `until`. Everything acknowledged is already in the
/// database.
async fn close(store: Store, until: Deadline) {
    let (closed, is_closed) = tokio::sync::oneshot::channel();
    let closing = std::thread::Builder::new().name("windlass-close".to_owned());
    let thread = closing.spawn(move || {
        store.close();
        // The receiver may be gone already.
        let _ = closed.send(());
    });
    if thread.is_err() {
        return;
    }
    tokio::select! {
        _ = is_closed => {}
        () = until.passed() => tracing::warn!("the database does not respond: exiting without closing it"),
    }
}
