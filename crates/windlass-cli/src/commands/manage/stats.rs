//! `windlass stats`: job counts, from the server or directly from the store.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use windlass::store::caller::Caller;
use windlass::store::query::stats::ByState;

use crate::commands::manage::operations::{counts_table, finish};
use crate::commands::{Missing, StoreArgs};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;

/// Arguments of `stats`.
#[derive(Args)]
pub(crate) struct StatsArgs {
    /// Read this store instead of querying a server
    #[arg(long, env = "WINDLASS_STORE", value_name = "ADDRESS")]
    store: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn stats(args: &StatsArgs) -> anyhow::Result<ExitCode> {
    // A server named by a flag takes precedence over a store named by the environment.
    let store = args.store.as_ref().filter(|_| args.connect.url.is_none() && args.connect.profile.is_none());
    let stats = match store {
        Some(store) => stored(&StoreArgs { store: store.clone() }).await?,
        None => args.connect.client()?.value(Call::get(&["stats"])).await?,
    };
    if args.connect.json {
        output::json(&stats)?;
        return Ok(Exit::Done.into());
    }
    if let Some(more) = stats["left_out"]["queues"].as_u64().filter(|more| *more > 0) {
        output::note(&format!("{more} more queues are not shown: see `windlass queues`"));
    }
    finish(&counts_table("QUEUE", &stats["queues"]), "no jobs")
}

async fn stored(store: &StoreArgs) -> anyhow::Result<Value> {
    let store = store.open(Missing::Refuse)?;
    let stats = store.totals(&Caller::local()).await?;
    store.close();
    let words = |counts: &ByState| -> BTreeMap<&'static str, u64> {
        counts.iter().map(|(state, count)| (state.as_str(), *count)).collect()
    };
    let queues: BTreeMap<&str, _> =
        stats.queues.iter().map(|(queue, counts)| (queue.as_str(), words(counts))).collect();
    Ok(json!({"states": words(&stats.states), "queues": queues, "cascades": stats.cascades}))
}
