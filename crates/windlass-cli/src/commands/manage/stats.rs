//! `windlass stats`: job counts, from the server or directly from the store; with `--range` what happened over time.

mod history;

use std::collections::BTreeMap;
use std::process::ExitCode;

use self::history::RangeArgs;
use clap::Args;
use serde_json::json;
use windlass::store::caller::Caller;
use windlass::store::wire::stats::counts;
use windlass_api::stats::Stats;

use crate::commands::manage::operations::{counts_table, finish};
use crate::commands::store_args::{Missing, StoreArgs};
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
    range: RangeArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn stats(args: &StatsArgs) -> anyhow::Result<ExitCode> {
    // A server named by a flag takes precedence over a store named by the environment.
    let store = args.store.as_ref().filter(|_| args.connect.url.is_none() && args.connect.profile.is_none());
    let (queues, more): (Vec<_>, _) = if let Some(store) = store {
        let store = StoreArgs { store: store.clone() }.open(Missing::Refuse)?;
        if args.range.is_given() {
            let shown = history::stored(&store, &args.range, args.connect.json).await;
            store.close();
            return shown;
        }
        let totals = store.totals(&Caller::local()).await?;
        store.close();
        let queues = totals.queues.iter().map(|(name, by_state)| (name.to_string(), counts(by_state)));
        if args.connect.json {
            let (states, queues) = (counts(&totals.states), queues.collect::<BTreeMap<_, _>>());
            output::json(&json!({"states": states, "queues": queues, "cascades": totals.cascades}))?;
            return Ok(Exit::Done.into());
        }
        (queues.collect(), 0)
    } else if args.range.is_given() {
        return history::served(&args.connect.client()?, &args.range).await;
    } else {
        let asked = args.connect.client()?.show::<Stats>(Call::get(&["stats"])).await?;
        let Some(stats) = asked else { return Ok(Exit::Done.into()) };
        let queues = stats.queues.into_iter().map(|(name, counts)| (name.to_string(), counts));
        (queues.collect(), stats.left_out.map_or(0, |left_out| left_out.queues))
    };
    if more > 0 {
        output::note(&format!("{more} more queues are not shown: see `windlass queues`"));
    }
    finish(&counts_table("QUEUE", &queues), "no jobs")
}
