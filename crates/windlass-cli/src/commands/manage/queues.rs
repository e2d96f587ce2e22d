//! `windlass queues`: depth, throughput and settings of queues.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use windlass::clock::Timestamp;

use crate::commands::jobs::job_counts;
use crate::commands::manage::operations::{held, must_be_known, told_unknown};
use crate::commands::manage::settings::{self, Changes, DEFAULTS, DefaultsArgs, Named};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::color::Paint;
use crate::output::table::{Cell, Column};
use crate::output::text::{ago_field, field, short_text};
use crate::output::{self, escaped};

/// Arguments of `queues`; lists queues if no subcommand is given.
#[derive(Args)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum QueuesCommand {
    /// List queues
    List(ConnectArgs),
    /// Show a queue with its settings
    Show {
        /// The queue
        name: String,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Change a queue's settings; settings that are not given stay, `none` clears one
    Set(Box<SetArgs>),
}

#[derive(Args)]
struct SetArgs {
    /// The queue
    name: String,
    /// Configure it even if no job, setting or worker uses this name yet
    #[arg(long)]
    create: bool,
    /// Maximum number of running jobs, across all workers
    #[arg(long, alias = "concurrency", value_name = "COUNT")]
    max_running: Option<String>,
    /// Maximum number of running jobs per concurrency key
    #[arg(long, alias = "concurrency-per-key", value_name = "COUNT")]
    max_running_per_key: Option<String>,
    /// How often its jobs may start, such as 100/s or 5/10m
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// How often jobs with the same concurrency key may start
    #[arg(long, value_name = "RATE")]
    rate_per_key: Option<String>,
    /// Maximum number of jobs that are not final; further jobs are rejected
    #[arg(long, value_name = "COUNT")]
    max_depth: Option<String>,
    /// Share the queue fairly by: tenant
    #[arg(long, value_name = "WHO")]
    fair_by: Option<String>,
    /// Waiting time that raises a job's priority by one point
    #[arg(long, value_name = "DURATION")]
    aging: Option<String>,
    /// Which audit records are kept: all, outcomes, operators
    #[arg(long, value_name = "LEVEL")]
    audit: Option<String>,
    /// Push jobs to a URL: an address, or JSON with url, concurrency, timeout
    #[arg(long, value_name = "TARGET")]
    push: Option<String>,
    #[command(flatten)]
    defaults: DefaultsArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The settings in display order.
fn names() -> Vec<Named> {
    let own = [
        ("max_running", "max-running"),
        ("max_running_per_key", "max-running-per-key"),
        ("rate", "rate"),
        ("rate_per_key", "rate-per-key"),
        ("max_depth", "max-depth"),
        ("fair_by", "fair-by"),
        ("aging", "aging"),
        ("audit", "audit"),
        ("push", "push"),
    ];
    [&own[..], &DEFAULTS].concat()
}

impl SetArgs {
    fn body(&self) -> anyhow::Result<Value> {
        let mut changes = Changes::default();
        changes.number("max_running", self.max_running.as_ref())?;
        changes.number("max_running_per_key", self.max_running_per_key.as_ref())?;
        changes.rate("rate", self.rate.as_ref())?;
        changes.rate("rate_per_key", self.rate_per_key.as_ref())?;
        changes.number("max_depth", self.max_depth.as_ref())?;
        changes.word("fair_by", self.fair_by.as_ref())?;
        changes.span("aging", self.aging.as_ref())?;
        changes.word("audit", self.audit.as_ref())?;
        changes.target("push", self.push.as_ref())?;
        changes.defaults(&self.defaults)?;
        changes.body("queues")
    }
}

pub(crate) async fn queues(args: &QueuesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.connect).await,
        Some(QueuesCommand::List(connect)) => list(connect).await,
        Some(QueuesCommand::Show { name, connect }) => show(name, connect).await,
        Some(QueuesCommand::Set(args)) => set(args).await,
    }
}

async fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let columns = vec![
        Column::new("QUEUE", 0).cut(10),
        Column::new("READY", 1).right(),
        Column::new("RUNNING", 2).right(),
        Column::new("WAITING", 3).right(),
        Column::new("DEAD", 4).right(),
        Column::new("OLDEST", 5).right(),
        Column::new("DONE/MIN", 6).right(),
        Column::new("HELD", 7).cut(8),
    ];
    job_counts::list(connect, "queues", columns, row, "no queues yet: the first job creates one").await
}

fn row(queue: &Value, now: Timestamp) -> Vec<Cell> {
    let [ready, running, waiting, dead] = job_counts::depths(queue);
    vec![
        field(&queue["name"]).into(),
        ready,
        running,
        waiting,
        dead,
        short_text(&queue["oldest_age"]).into(),
        field(&queue["rates"]["last_minute"]["completed"]).into(),
        held(&queue["paused"], now),
    ]
}

async fn show(name: &str, connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let queue = client.value(Call::get(&["queues", name])).await?;
    told_unknown("queue", name, &queue);
    if connect.json {
        output::json(&queue)?;
    } else {
        output::text(&describe(&queue, client.now()))?;
    }
    Ok(Exit::Done.into())
}

async fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let mut body = args.body()?;
    let client = args.connect.client()?;
    must_be_known(&client, ("queue", "queues"), &args.name, args.create).await?;
    Changes::keep_retry(&mut body, &args.defaults, &client, &["queues", &args.name]).await?;
    let queue = client.value(Call::put(&["queues", &args.name]).json(&body)).await?;
    if args.connect.json {
        output::json(&queue)?;
    } else {
        crate::commands::manage::operations::told_change(&queue);
        output::text(&describe(&queue, client.now()))?;
    }
    Ok(Exit::Done.into())
}

fn describe(queue: &Value, now: Timestamp) -> String {
    let paint = Paint::for_data();
    let head = crate::commands::manage::operations::head(
        "queue",
        &field(&queue["name"]),
        &queue["paused"],
        now,
        paint,
    );
    let end = &queue["resumed"];
    let resumed = end.as_object().map(|_| {
        let (ago, by) = (ago_field(&end["at"], now), escaped(&field(&end["by"])));
        format!("  {}\n", paint.faint(&format!("last resumed {ago} by {by}")))
    });
    let head = format!("{head}{}", resumed.unwrap_or_default());
    let depth = settings::depth(&queue["depth"], paint);
    let rates = settings::rates(&queue["rates"], paint);
    format!(
        "{head}{depth}{rates}{}",
        crate::commands::manage::operations::settings_section(queue, &names(), paint)
    )
}
