//! `windlass serve`: answers over HTTP and keeps a store going for all processes that use it, until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass::maintenance;
use windlass::store::caller::Caller;
use windlass::store::environment::StoreOptions;

use super::outbound::OutboundArgs;
use super::{Missing, StoreArgs};
use crate::outbound::{self, Client};
use crate::server::{Options, Server, TlsFiles};

/// How to serve.
#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Where to listen; addresses that others can reach need keys and encryption.
    #[arg(long, env = "WINDLASS_LISTEN", default_value = "127.0.0.1:7788", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The certificate chain for TLS, a PEM file.
    #[arg(long, env = "WINDLASS_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, env = "WINDLASS_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front of this server speaks TLS.
    #[arg(long, env = "WINDLASS_BEHIND_PROXY")]
    behind_proxy: bool,
    #[command(flatten)]
    outbound: OutboundArgs,
}

impl ServeArgs {
    fn options(&self) -> Options {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = files.map(|(certificate, key)| TlsFiles { certificate, key });
        Options { listen: self.listen, tls, behind_proxy: self.behind_proxy }
    }
}

pub(super) async fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let targets = args.outbound.policy();
    let options = StoreOptions { targets: targets.clone(), ..StoreOptions::default() };
    let store = args.store.open_with(Missing::Create, options)?;
    let jobs: u64 = store.stats(&Caller::local()).await?.states.values().sum();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Server::bind(store.clone(), args.options()).await?;
    let address = &args.store.store;
    eprintln!("windlass {} keeps {address} ({jobs} jobs, checked and sound)", env!("CARGO_PKG_VERSION"));
    eprintln!("listening on {}; stop with Ctrl-C", server.url());
    if !server.has_keys().await? {
        eprintln!("no keys yet: whoever is on this machine may do everything, and nobody else can connect");
    }
    let stop = CancellationToken::new();
    let stopping = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    };
    let serving = Box::pin(server.run(stop.cancelled()));
    let calling = Box::pin(outbound::run(store.clone(), Client::new(targets), stop.cancelled()));
    // Maintenance goes on while requests and calls are finished, and ends with them.
    maintenance::run(&store, async {
        tokio::join!(stopping, serving, calling);
    })
    .await;
    store.close();
    eprintln!("stopped");
    Ok(ExitCode::SUCCESS)
}
