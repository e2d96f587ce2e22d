//! `windlass serve`: keeps a store going for all processes that use it, until it is told to stop.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use windlass::maintenance;
use windlass::store::caller::Caller;

use super::{Missing, StoreArgs};

pub(super) async fn serve(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    let store = args.open(Missing::Create)?;
    let jobs: u64 = store.stats(&Caller::local()).await?.states.values().sum();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    eprintln!("windlass {} keeps {} ({jobs} jobs, checked and sound)", env!("CARGO_PKG_VERSION"), args.store);
    eprintln!("due jobs are promoted, lost leases ended, the audit trail sealed; stop with Ctrl-C");
    eprintln!("look at it from another terminal: windlass stats --store {}", args.store);
    maintenance::run(&store, async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
    .await;
    store.close();
    eprintln!("stopped");
    Ok(ExitCode::SUCCESS)
}
