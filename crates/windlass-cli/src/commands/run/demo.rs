//! `windlass demo`: a server with sample data. The data is stored in memory unless a store is given.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use windlass::maintenance;
use windlass_server::server::{Options, Server};
use windlass_server::webhooks::{self, WebhookClient};

use crate::commands::store_args::{Missing, StoreArgs};
use crate::demo;
use crate::output;

/// Arguments of `demo`.
#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Address to listen on.
    #[arg(long, env = "WINDLASS_LISTEN", default_value = "127.0.0.1:7788", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where to store the demo's jobs, `sqlite:PATH`; in memory by default.
    #[arg(long, value_name = "ADDRESS")]
    store: Option<String>,
}

pub(crate) async fn demo(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let folder = std::env::temp_dir().join(format!("windlass-demo-{}", std::process::id()));
    let address = if let Some(address) = &args.store {
        address.clone()
    } else {
        std::fs::create_dir_all(&folder)?;
        format!("sqlite:{}", folder.join("demo.db").display())
    };
    output::note("generating an hour of history …");
    demo::play_history(&address).await?;
    let store = StoreArgs { store: address }.open(Missing::Create)?;
    demo::arrange(&store).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Server::bind(store.clone(), Options { listen: args.listen, ..Options::default() }).await?;
    output::note(&format!("open {} in a browser; stop with Ctrl-C", server.url()));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let over = |mut stopped: tokio::sync::watch::Receiver<bool>| async move {
        drop(stopped.wait_for(|is_over| *is_over).await);
    };
    let greeting = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    };
    let working = demo::run(&store, over(stopped.clone()));
    // For alerts that a visitor creates.
    let targets = store.environment().options.targets.clone();
    let calling = Box::pin(webhooks::run(store.clone(), WebhookClient::new(targets), over(stopped.clone())));
    let serving = maintenance::run(&store, server.run(over(stopped)));
    let (worked, (), (), ()) = tokio::join!(working, serving, calling, greeting);
    store.close();
    if args.store.is_none() {
        std::fs::remove_dir_all(&folder)?;
    }
    worked?;
    Ok(ExitCode::SUCCESS)
}
