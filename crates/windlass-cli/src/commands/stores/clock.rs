//! `windlass clock`: compares store time with the wall clock, and accepts a wall clock that jumped.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use windlass::store::caller::Caller;
use windlass_api::clock::ClockView;
use windlass_api::time::Span;

use crate::commands::store_args::{Missing, StoreArgs};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::{Colour, Paint};
use crate::output::text::or_dash;

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
    let clock = if let Some(store) = store {
        let clock = stored(&StoreArgs { store: store.clone() }, is_accepted).await?;
        if from.connect.json {
            output::json(&serde_json::to_value(&clock)?)?;
        }
        clock
    } else {
        let call = if is_accepted { Call::post(&["clock", "accept"]) } else { Call::get(&["clock"]) };
        let answer = from.connect.client()?.send(call).await?;
        if from.connect.json {
            answer.print()?;
        }
        answer.read()?
    };
    if !from.connect.json {
        print(&clock)?;
    }
    Ok(if clock.believed { Exit::Done.into() } else { Exit::No.into() })
}

async fn stored(store: &StoreArgs, is_accepted: bool) -> anyhow::Result<ClockView> {
    let store = store.open(Missing::Refuse)?;
    let report = if is_accepted { store.accept_clock(&Caller::local()).await? } else { store.clock() };
    store.close();
    Ok(ClockView::from(&report))
}

fn print(clock: &ClockView) -> anyhow::Result<()> {
    let paint = Paint::for_data();
    let by = Span(Duration::from_millis(clock.difference_ms.unsigned_abs()));
    let stands = match clock.difference_ms {
        0 => "the same".to_owned(),
        1.. => format!("{by} ahead"),
        _ => format!("{by} behind"),
    };
    output::line(&format!("store time  {}", clock.store_time.0))?;
    output::line(&format!("wall clock  {}  {stands}", clock.wall_clock.0))?;
    if clock.believed {
        output::line(&paint.paint("believed", Some(Colour::Good)))?;
    } else {
        let since = or_dash(clock.not_believed_since.map(|since| since.0));
        output::line(&format!("{} since {since}", paint.paint("not trusted", Some(Colour::Bad))))?;
        output::note(
            "the wall clock jumped: correct it, or run `windlass clock accept` if it is correct now",
        );
    }
    if let Some(until) = clock.lifetimes_wait_until {
        output::line(&format!("no lifetime expires and nothing is pruned until {}", until.0))?;
    }
    Ok(())
}
