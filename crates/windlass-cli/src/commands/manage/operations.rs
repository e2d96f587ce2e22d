//! `windlass workers`, `windlass gate`, and helpers shared by the commands for queues, types and tenants.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use windlass::clock::Timestamp;
use windlass_api::time::Span;

use crate::commands::manage::settings::{self, Named};
use crate::connection::client::{Call, Client};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{ago_field, field};
use crate::output::{self, escaped};

/// Arguments of `gate`.
#[derive(Args)]
pub(crate) struct GateArgs {
    #[command(subcommand)]
    command: Option<GateCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum GateCommand {
    /// Show whether processing is paused
    Show(ConnectArgs),
    /// Pause all job processing
    Close {
        /// Reason, for other operators
        #[arg(long)]
        reason: Option<String>,
        /// Resume automatically after this time
        #[arg(long, value_name = "DURATION")]
        expires: Option<Span>,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Resume job processing
    Open(ConnectArgs),
}

pub(crate) async fn gate(args: &GateArgs) -> anyhow::Result<ExitCode> {
    let (connect, call) = match &args.command {
        None => (&args.connect, Call::get(&["gate"])),
        Some(GateCommand::Show(connect)) => (connect, Call::get(&["gate"])),
        Some(GateCommand::Open(connect)) => (connect, Call::post(&["gate", "online"])),
        Some(GateCommand::Close { reason, expires, connect }) => {
            let mut body = Map::new();
            body.extend(reason.clone().map(|reason| ("reason".to_owned(), Value::from(reason))));
            body.extend(expires.map(|span| ("expires".to_owned(), span.to_string().into())));
            (connect, Call::post(&["gate", "offline"]).json(&body))
        }
    };
    let client = connect.client()?;
    let gate = client.value(call).await?;
    if connect.json {
        output::json(&gate)?;
        return Ok(Exit::Done.into());
    }
    let (paint, now) = (Paint::for_data(), client.now());
    let held = |hold: &Value| {
        let reason = hold["reason"].as_str().map(|reason| format!(": {}", escaped(reason)));
        let until =
            hold["expires_at"].as_str().map(|_| format!(", resumes {}", ago_field(&hold["expires_at"], now)));
        let by = escaped(&field(&hold["by"]));
        format!(
            "{} by {by}{}{}",
            ago_field(&hold["since"], now),
            until.unwrap_or_default(),
            reason.unwrap_or_default()
        )
    };
    if gate["online"] == true {
        output::line(&paint.paint("on", Some(Colour::Good)))?;
    } else {
        output::line(&format!("{} {}", paint.paint("paused", Some(Colour::Bad)), held(&gate)))?;
    }
    for scope in gate["scopes"].as_array().map_or(&[][..], Vec::as_slice) {
        let what =
            ["type", "tenant"].iter().filter_map(|kind| Some(format!("{kind} {}", scope[kind].as_str()?)));
        let what = escaped(&what.collect::<Vec<_>>().join(" of "));
        output::line(&format!("{} for {what} {}", paint.paint("paused", Some(Colour::Bad)), held(scope)))?;
    }
    Ok(Exit::Done.into())
}

pub(crate) async fn workers(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let answer = client.whole("workers").await?;
    if connect.json {
        output::json(&answer)?;
        return Ok(Exit::Done.into());
    }
    let mut table = Table::new(vec![
        Column::new("ID", 8).cut_middle(13),
        Column::new("NAME", 0).cut(10),
        Column::new("STATE", 2),
        Column::new("SLOTS", 5).right(),
        Column::new("SEEN", 3),
        Column::new("QUEUES", 6).cut(8),
        Column::new("TYPES", 7).cut(8),
    ]);
    let names = |list: &Value| {
        let names = list.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str);
        let all = names.collect::<Vec<_>>().join(",");
        if all.is_empty() { "all".to_owned() } else { all }
    };
    for worker in answer["workers"].as_array().map_or(&[][..], Vec::as_slice) {
        let (state, colour) = match (worker["alive"] == true, worker["paused"].is_object()) {
            (false, _) => ("lost", Colour::Bad),
            (true, true) => ("paused", Colour::Warning),
            (true, false) => ("alive", Colour::Good),
        };
        table.row(vec![
            field(&worker["id"]).into(),
            field(&worker["name"]).into(),
            Cell::painted(state, Some(colour)),
            field(&worker["concurrency"]).into(),
            ago_field(&worker["seen_at"], client.now()).into(),
            names(&worker["queues"]).into(),
            names(&worker["types"]).into(),
        ]);
    }
    finish(&table, "no workers; `windlass work TYPE -- command` starts one")
}

/// Counts by name and state; unused states have no column.
pub(crate) fn counts_table(title: &'static str, counts: &Value) -> Table {
    let empty = Map::new();
    let rows = counts.as_object().unwrap_or(&empty);
    let states = windlass::job::JobState::ALL.into_iter().map(windlass::job::JobState::as_str);
    let is_used = |state: &&str| rows.values().any(|row| row[*state].as_u64().unwrap_or(0) > 0);
    let states: Vec<&'static str> = states.filter(is_used).collect();
    let mut columns = vec![Column::new(title, 0).cut(10)];
    columns.extend(states.iter().map(|state| Column::new(state.to_uppercase(), 1).right()));
    let mut table = Table::new(columns);
    for (name, row) in rows {
        let mut cells = vec![Cell::from(name.as_str())];
        cells.extend(states.iter().map(|state| {
            let count = row[*state].as_u64().unwrap_or(0);
            Cell::painted(
                count.to_string(),
                if count > 0 { Colour::of_state(state) } else { Some(Colour::Faint) },
            )
        }));
        table.row(cells);
    }
    table
}

/// The number of running jobs, and the limit if there is one.
pub(crate) fn running(look: &Value) -> Cell {
    let running = look["depth"]["running"].as_u64().unwrap_or(0);
    let most = look["max_running"].as_u64();
    let text = most.map_or_else(|| running.to_string(), |most| format!("{running}/{most}"));
    Cell::painted(text, (running > 0).then_some(Colour::Active))
}

/// The pause of an object, if it has one.
pub(crate) fn held(pause: &Value, now: Timestamp) -> Cell {
    let description = pause.as_object().map(|_| paused(pause, now)).unwrap_or_default();
    Cell::painted(description, Some(Colour::Warning))
}

fn paused(pause: &Value, now: Timestamp) -> String {
    let reason = pause["reason"].as_str().map(|reason| format!(": {reason}"));
    format!("paused {}{}", ago_field(&pause["at"], now), reason.unwrap_or_default())
}

/// The first line about an object: its kind, its name and its pause.
pub(crate) fn head(kind: &str, name: &str, pause: &Value, now: Timestamp, paint: Paint) -> String {
    let held = pause.as_object().map(|_| format!("  {}", escaped(&paused(pause, now))));
    let held = paint.paint(&held.unwrap_or_default(), Some(Colour::Warning));
    format!("{kind} {}{held}\n", paint.strong(&escaped(name)))
}

/// The settings of an object, or that there are none.
pub(crate) fn settings_section(look: &Value, names: &[Named], paint: Paint) -> String {
    let description = settings::describe(look, names, paint);
    let description = if description.is_empty() { "  no settings\n".to_owned() } else { description };
    format!("{}\n{description}", paint.strong("settings"))
}

/// Refuses to configure an object with an unknown name, which is usually a typing error.
pub(crate) async fn must_be_known(
    client: &Client,
    (kind, plural): (&str, &str),
    name: &str,
    create: bool,
) -> anyhow::Result<()> {
    if create {
        return Ok(());
    }
    let look = client.value(Call::get(&[plural, name])).await?;
    if look["known"] != false {
        return Ok(());
    }
    let message = format!("{}; pass --create to configure it anyway", unknown(kind, name, &look));
    Err(Failure::NotFound(message).into())
}

/// The message for an unknown name, with similar names.
pub(crate) fn unknown(kind: &str, name: &str, look: &Value) -> String {
    let similar = look["similar"].as_array().map_or(&[][..], Vec::as_slice);
    let similar: Vec<String> =
        similar.iter().filter_map(Value::as_str).map(|name| format!("`{}`", escaped(name))).collect();
    let hint =
        if similar.is_empty() { String::new() } else { format!("; did you mean {}?", similar.join(", ")) };
    format!("unknown {kind} `{}`: no job, setting or worker uses it{hint}", escaped(name))
}

/// Prints a note if the shown object is unknown.
pub(crate) fn told_unknown(kind: &str, name: &str, look: &Value) {
    if look["known"] == false {
        output::note(&unknown(kind, name, look));
    }
}

/// Prints a note if nothing changed.
pub(crate) fn told_change(answer: &Value) {
    if answer["changed"] == false {
        output::note("already in that state");
    }
}

/// Prints a table, or `nothing` if it is empty.
pub(crate) fn finish(table: &Table, nothing: &str) -> anyhow::Result<ExitCode> {
    if table.is_empty() {
        output::note(nothing);
    } else {
        table.print()?;
    }
    Ok(Exit::Done.into())
}
