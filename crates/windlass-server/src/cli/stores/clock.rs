//! `windlass clock`: how store time stands to the wall clock, and accepting a wall clock that jumped.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::clock::ClockReport;
use windlass::store::caller::Caller;

use crate::cli::color::{Colour, Paint};
use crate::cli::connection::client::Call;
use crate::cli::connection::connect::ConnectArgs;
use crate::cli::exit_code::Exit;
use crate::cli::text::field;
use crate::cli::{Missing, StoreArgs, output};
use crate::http::Span;

/// What to do about the clock.
#[derive(Args)]
pub(in crate::cli) struct ClockArgs {
    #[command(subcommand)]
    command: Option<ClockCommand>,
    #[command(flatten)]
    from: FromArgs,
}

#[derive(Subcommand)]
enum ClockCommand {
    /// Store time, the wall clock, and whether it is believed
    Show(FromArgs),
    /// Believe the wall clock as it is now, although it jumped
    ///
    /// If it is ahead, store time goes there at once: delays and schedules in between come due, lifetimes end. If it is behind,
    /// store time runs at half of real time until they meet.
    Accept(FromArgs),
}

/// Whom to ask.
#[derive(Args)]
struct FromArgs {
    /// Open this store instead of asking a server
    #[arg(long, env = "WINDLASS_STORE", value_name = "ADDRESS")]
    store: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(in crate::cli) async fn clock(args: &ClockArgs) -> anyhow::Result<ExitCode> {
    let (from, is_accepted) = match &args.command {
        None => (&args.from, false),
        Some(ClockCommand::Show(from)) => (from, false),
        Some(ClockCommand::Accept(from)) => (from, true),
    };
    // A server that is named by a flag is meant, whatever store the environment names.
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
        output::line(&format!("{} since {since}", paint.paint("not believed", Some(Colour::Bad))))?;
        output::note(
            "the wall clock jumped: set it right, or run `windlass clock accept` if it is right now",
        );
    }
    if let Some(until) = clock["lifetimes_wait_until"].as_str() {
        output::line(&format!("no lifetime ends and nothing is pruned until {until}"))?;
    }
    Ok(())
}
