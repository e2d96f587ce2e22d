//! `windlass stats`: job counts, from the server or directly from the store; with `--range` what happened over time.

mod history;

use std::collections::BTreeMap;
use std::process::ExitCode;

use self::history::RangeArgs;
use clap::Args;
use serde_json::json;
use windlass::internal::wire::stats::counts;
use windlass::job::JobState;
use windlass::store::caller::Caller;
use windlass_api::stats::{Counts, Stats};

use crate::commands::store_args::{Missing, StoreArgs};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::Colour;
use crate::output::table::{Cell, Column, Table};

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
    counts_table("QUEUE", &queues).print_or("no jobs")
}

/// Counts by name and state; unused states have no column.
fn counts_table(title: &'static str, rows: &[(String, Counts)]) -> Table {
    let is_used = |state: &JobState| rows.iter().any(|(_, counts)| counts.sum(&[*state]) > 0);
    let states: Vec<JobState> = JobState::ALL.into_iter().filter(is_used).collect();
    let mut columns = vec![Column::new(title, 0).cut(10)];
    columns.extend(states.iter().map(|state| Column::new(state.as_str().to_uppercase(), 1).right()));
    let mut table = Table::new(columns);
    for (name, counts) in rows {
        let mut cells = vec![Cell::from(name.as_str())];
        cells.extend(states.iter().map(|state| {
            let count = counts.sum(&[*state]);
            let colour = if count > 0 { Colour::of_state(*state) } else { Some(Colour::Faint) };
            Cell::painted(count.to_string(), colour)
        }));
        table.row(cells);
    }
    table
}
