//! `windlass types`: counts, durations, failures and settings of job types.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use windlass::clock::Timestamp;

use crate::commands::jobs::job_counts;
use crate::commands::manage::operations::{
    head, held, must_be_known, settings_section, told_change, told_unknown,
};
use crate::commands::manage::settings::{self, Changes, DEFAULTS, DefaultsArgs, Named};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::Paint;
use crate::output::table::{Cell, Column};
use crate::output::text::{field, short_text};

/// Arguments of `types`; lists types if no subcommand is given.
#[derive(Args)]
pub(crate) struct TypesArgs {
    #[command(subcommand)]
    command: Option<TypesCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum TypesCommand {
    /// List types
    List(ConnectArgs),
    /// Show a type with its settings
    Show {
        /// The type
        name: String,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Change a type's settings; settings that are not given stay, `none` clears one
    Set(Box<SetArgs>),
}

#[derive(Args)]
struct SetArgs {
    /// The type
    name: String,
    /// Configure it even if no job, setting or worker uses this name yet
    #[arg(long)]
    create: bool,
    /// Maximum number of running jobs, across all workers
    #[arg(long, alias = "concurrency", value_name = "COUNT")]
    max_running: Option<String>,
    /// How often its jobs may start, such as 100/s or 5/10m
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Custom event name for a success in the audit trail
    #[arg(long, value_name = "NAME")]
    success_event: Option<String>,
    /// Custom event name for exhausted retries in the audit trail
    #[arg(long, value_name = "NAME")]
    exhausted_event: Option<String>,
    #[command(flatten)]
    defaults: DefaultsArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The settings in display order.
fn names() -> Vec<Named> {
    let own = [
        ("max_running", "max-running"),
        ("rate", "rate"),
        ("success_event", "success-event"),
        ("exhausted_event", "exhausted-event"),
    ];
    [&own[..], &DEFAULTS].concat()
}

impl SetArgs {
    fn body(&self) -> anyhow::Result<Value> {
        let mut changes = Changes::default();
        changes.number("max_running", self.max_running.as_ref())?;
        changes.rate("rate", self.rate.as_ref())?;
        changes.word("success_event", self.success_event.as_ref())?;
        changes.word("exhausted_event", self.exhausted_event.as_ref())?;
        changes.defaults(&self.defaults)?;
        changes.body("types")
    }
}

pub(crate) async fn types(args: &TypesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.connect).await,
        Some(TypesCommand::List(connect)) => list(connect).await,
        Some(TypesCommand::Show { name, connect }) => show(name, connect).await,
        Some(TypesCommand::Set(args)) => set(args).await,
    }
}

async fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let columns = vec![
        Column::new("TYPE", 0).cut(10),
        Column::new("READY", 1).right(),
        Column::new("RUNNING", 2).right(),
        Column::new("WAITING", 6).right(),
        Column::new("DEAD", 5).right(),
        Column::new("DONE/H", 3).right(),
        Column::new("FAILED/H", 4).right(),
        Column::new("MEDIAN", 7).right(),
        Column::new("P95", 8).right(),
        Column::new("HELD", 9).cut(8),
    ];
    job_counts::list(connect, "types", columns, row, "no types yet: the first job creates one").await
}

fn row(known: &Value, now: Timestamp) -> Vec<Cell> {
    let [ready, running, waiting, dead] = job_counts::depths(known);
    let hour = &known["rates"]["last_hour"];
    let failed: u64 =
        ["failed", "retried", "dead_letter"].iter().filter_map(|word| hour[*word].as_u64()).sum();
    vec![
        field(&known["type"]).into(),
        ready,
        running,
        waiting,
        dead,
        field(&hour["completed"]).into(),
        job_counts::bad(failed),
        short_text(&hour["ran"]["p50"]).into(),
        short_text(&hour["ran"]["p95"]).into(),
        held(&known["paused"], now),
    ]
}

async fn show(name: &str, connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let known = client.value(Call::get(&["types", name])).await?;
    told_unknown("type", name, &known);
    if connect.json {
        output::json(&known)?;
        return Ok(Exit::Done.into());
    }
    let paint = Paint::for_data();
    let head = head("type", &field(&known["type"]), &known["paused"], client.now(), paint);
    let (depth, rates) = (settings::depth(&known["depth"], paint), settings::rates(&known["rates"], paint));
    output::text(&format!("{head}{depth}{rates}{}", settings_section(&known, &names(), paint)))?;
    Ok(Exit::Done.into())
}

async fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let mut body = args.body()?;
    let client = args.connect.client()?;
    must_be_known(&client, ("type", "types"), &args.name, args.create).await?;
    Changes::keep_retry(&mut body, &args.defaults, &client, &["types", &args.name]).await?;
    let known = client.value(Call::put(&["types", &args.name]).json(&body)).await?;
    if args.connect.json {
        output::json(&known)?;
        return Ok(Exit::Done.into());
    }
    told_change(&known);
    let paint = Paint::for_data();
    let head = head("type", &field(&known["type"]), &Value::Null, client.now(), paint);
    output::text(&format!("{head}{}", settings_section(&known, &names(), paint)))?;
    Ok(Exit::Done.into())
}
