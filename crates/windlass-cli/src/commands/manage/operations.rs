//! `windlass workers`, `windlass gate`, and tables of job counts.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass_api::expires::Expiry;
use windlass_api::pause::{Gate, OfflineBody};
use windlass_api::stats::Counts;
use windlass_api::time::{Moment, Span};
use windlass_api::worker::Worker;

use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::table::{Cell, Column, Table};
use crate::output::text::ago;
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
            let expires = expires.map(Expiry::After);
            let body = OfflineBody { reason: reason.clone(), expires, ..OfflineBody::default() };
            (connect, Call::post(&["gate", "offline"]).json(&body))
        }
    };
    let client = connect.client()?;
    let Some(gate) = client.show::<Gate>(call).await? else { return Ok(Exit::Done.into()) };
    let (paint, now) = (Paint::for_data(), client.now());
    let paused = paint.paint("paused", Some(Colour::Bad));
    if gate.online {
        output::line(&paint.paint("on", Some(Colour::Good)))?;
    } else {
        let how = hold(gate.since, gate.by.as_deref(), gate.expires_at, gate.reason.as_deref(), now);
        output::line(&format!("{paused} {how}"))?;
    }
    for scope in gate.scopes {
        let (job_type, tenant) = (
            scope.r#type.map(|name| format!("type {name}")),
            scope.tenant.map(|name| format!("tenant {name}")),
        );
        let what = [job_type, tenant].into_iter().flatten().collect::<Vec<_>>().join(" of ");
        let how = hold(Some(scope.since), Some(&scope.by), scope.expires_at, scope.reason.as_deref(), now);
        output::line(&format!("{paused} for {} {how}", escaped(&what)))?;
    }
    Ok(Exit::Done.into())
}

/// Since when, by whom, until when and why processing is paused.
fn hold(
    since: Option<Moment>,
    by: Option<&str>,
    until: Option<Moment>,
    reason: Option<&str>,
    now: Timestamp,
) -> String {
    let since = since.map_or_else(|| "-".to_owned(), |since| ago(since, now));
    let until = until.map(|until| format!(", resumes {}", ago(until, now))).unwrap_or_default();
    let reason = reason.map(|reason| format!(": {}", escaped(reason))).unwrap_or_default();
    format!("{since} by {}{until}{reason}", escaped(by.unwrap_or("-")))
}

pub(crate) async fn workers(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let Some(workers) = client.show_all::<Worker>("workers").await? else { return Ok(Exit::Done.into()) };
    let mut table = Table::new(vec![
        Column::new("ID", 8).cut_middle(13),
        Column::new("NAME", 0).cut(10),
        Column::new("STATE", 2),
        Column::new("SLOTS", 5).right(),
        Column::new("SEEN", 3),
        Column::new("QUEUES", 6).cut(8),
        Column::new("TYPES", 7).cut(8),
    ]);
    let names = |names: Vec<String>| if names.is_empty() { "all".to_owned() } else { names.join(",") };
    for worker in workers {
        let (state, colour) = match (worker.alive, worker.paused.is_some()) {
            (false, _) => ("lost", Colour::Bad),
            (true, true) => ("paused", Colour::Warning),
            (true, false) => ("alive", Colour::Good),
        };
        table.row(vec![
            worker.id.to_string().into(),
            worker.name.into(),
            Cell::painted(state, Some(colour)),
            worker.concurrency.to_string().into(),
            ago(worker.seen_at, client.now()).into(),
            names(worker.queues.iter().map(ToString::to_string).collect()).into(),
            names(worker.types.iter().map(ToString::to_string).collect()).into(),
        ]);
    }
    finish(&table, "no workers; `windlass work TYPE -- command` starts one")
}

/// Counts by name and state; unused states have no column.
pub(crate) fn counts_table(title: &'static str, rows: &[(String, Counts)]) -> Table {
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

/// Prints a table, or `nothing` if it is empty.
pub(crate) fn finish(table: &Table, nothing: &str) -> anyhow::Result<ExitCode> {
    if table.is_empty() {
        output::note(nothing);
    } else {
        table.print()?;
    }
    Ok(Exit::Done.into())
}
