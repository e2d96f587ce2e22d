//! `windlass clock`: compares store time with the wall clock, and accepts a wall clock that jumped.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::clock::ClockReport;
use windlass::store::caller::Caller;
use windlass_api::time::Span;

use crate::commands::{Missing, StoreArgs};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::{Colour, Paint};
use crate::output::text::field;

/// Arguments of `clock`.
#[derive(Args)]
pub(crate) struct ClockArgs {
    #[command(subcommand)]
    command: Option<ClockCommand>,
    #[command(flatten)]
    from: FromArgs,
}

#[derive(Subcommand)]
enum ClockCommand {
    /// Show store time, the wall clock, and whether the wall clock is trusted
    Show(FromArgs),
    /// Accept the wall clock as it is now, although it jumped
    ///
    /// If it is ahead, store time moves there at once: delays and schedules in between come due, lifetimes expire. If it is
    /// behind, store time runs at half speed until they meet.
    Accept(FromArgs),
}

/// The server or store to query.
#[derive(Args)]
struct FromArgs {
    /// Open this store instead of querying a server
    #[arg(long, env = "WINDLASS_STORE", value_name = "ADDRESS")]
    store: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn clock(args: &ClockArgs) -> anyhow::Result<ExitCode> {
    let (from, is_accepted) = match &args.command {
        None => (&args.from, false),
        Some(ClockCommand::Show(from)) => (from, false),
        Some(ClockCommand::Accept(from)) => (from, true),
    };
    // A server named by a flag takes precedence over a store named by the environment.
    let store = from.store.as_ref().filter(|_| from.connect.url.is_none() && from.connect.profile.is_none());
    let clock = match store {
        Some(store) => stored(&StoreArgs { store: store.clone() }, is_accepted).await?,
        None if is_accepted => from.connect.client()?.value(Call::post(&["clock", "accept"])).await?,
        None => from.connect.client()?.value(Call::get(&["clock"])).await?,
    };
    if from.connect.json {
        output::json(&clock)?;
    } else {
        print(&clock)?;
    }
    let is_believed = clock["believed"] == true;
    Ok(if is_believed { Exit::Done.into() } else { Exit::No.into() })
}

async fn stored(store: &StoreArgs, is_accepted: bool) -> anyhow::Result<Value> {
    let store = store.open(Missing::Refuse)?;
    let report = if is_accepted { store.accept_clock(&Caller::local()).await? } else { store.clock() };
    store.close();
    let ClockReport { now, wall, ahead_ms, is_believed, doubted_since, lifetimes_from } = report;
    Ok(json!({
        "store_time": now.to_string(),
        "wall_clock": wall.to_string(),
        "difference_ms": ahead_ms,
        "believed": is_believed,
        "not_believed_since": doubted_since.map(|at| at.to_string()),
        "lifetimes_wait_until": lifetimes_from.map(|at| at.to_string()),
    }))
}

fn print(clock: &Value) -> anyhow::Result<()> {
    let paint = Paint::for_data();
    let difference = clock["difference_ms"].as_i64().unwrap_or(0);
    let by = Span(Duration::from_millis(difference.unsigned_abs()));
    let stands = match difference {
        0 => "the same".to_owned(),
        1.. => format!("{by} ahead"),
        _ => format!("{by} behind"),
    };
    output::line(&format!("store time  {}", field(&clock["store_time"])))?;
    output::line(&format!("wall clock  {}  {stands}", field(&clock["wall_clock"])))?;
    if clock["believed"] == true {
        output::line(&paint.paint("believed", Some(Colour::Good)))?;
    } else {
        let since = field(&clock["not_believed_since"]);
        output::line(&format!("{} since {since}", paint.paint("not trusted", Some(Colour::Bad))))?;
        output::note(
            "the wall clock jumped: correct it, or run `windlass clock accept` if it is correct now",
        );
    }
    if let Some(until) = clock["lifetimes_wait_until"].as_str() {
        output::line(&format!("no lifetime expires and nothing is pruned until {until}"))?;
    }
    Ok(())
}
