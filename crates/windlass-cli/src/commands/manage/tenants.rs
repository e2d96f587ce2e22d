//! `windlass tenants`: job counts, costs and limits of tenants.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use windlass::clock::Timestamp;

use crate::commands::jobs::job_counts;
use crate::commands::manage::operations::{
    head, held, must_be_known, settings_section, told_change, told_unknown,
};
use crate::commands::manage::settings::{self, Changes, Named};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::Paint;
use crate::output::table::{Cell, Column};
use crate::output::text::{field, spent};

/// Arguments of `tenants`; lists tenants if no subcommand is given.
#[derive(Args)]
pub(crate) struct TenantsArgs {
    #[command(subcommand)]
    command: Option<TenantsCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum TenantsCommand {
    /// List tenants
    List(ConnectArgs),
    /// Show a tenant with its settings
    Show {
        /// The tenant
        name: String,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Change a tenant's settings; settings that are not given stay, `none` clears one
    Set(Box<SetArgs>),
}

#[derive(Args)]
struct SetArgs {
    /// The tenant
    name: String,
    /// Configure it even if no job, setting or worker uses this name yet
    #[arg(long)]
    create: bool,
    /// Maximum number of running jobs, across all workers
    #[arg(long, alias = "concurrency", value_name = "COUNT")]
    max_running: Option<String>,
    /// Maximum number of jobs that are not final; further jobs are rejected
    #[arg(long, value_name = "COUNT")]
    max_depth: Option<String>,
    /// Share of a fair queue: how many jobs it may start per turn
    #[arg(long, value_name = "COUNT")]
    weight: Option<String>,
    /// Maximum cost of its jobs per period, in cents
    #[arg(long, value_name = "CENTS")]
    budget: Option<String>,
    /// Budget period: day, month
    #[arg(long, value_name = "PERIOD")]
    budget_period: Option<String>,
    /// Maximum number of queues with jobs; 10000 by default
    #[arg(long, value_name = "COUNT")]
    max_queues: Option<String>,
    /// Maximum number of types with jobs; 10000 by default
    #[arg(long, value_name = "COUNT")]
    max_types: Option<String>,
    /// Maximum number of pairs of a queue and a type with jobs; 20000 by default
    #[arg(long, value_name = "COUNT")]
    max_lanes: Option<String>,
    /// Maximum number of concurrency keys of jobs that are not final; 100000 by default
    #[arg(long, value_name = "COUNT")]
    max_concurrency_keys: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The settings in display order.
const NAMES: [Named; 9] = [
    ("max_running", "max-running"),
    ("max_depth", "max-depth"),
    ("weight", "weight"),
    ("budget_cents", "budget"),
    ("budget_period", "budget-period"),
    ("max_queues", "max-queues"),
    ("max_types", "max-types"),
    ("max_lanes", "max-lanes"),
    ("max_concurrency_keys", "max-concurrency-keys"),
];

impl SetArgs {
    fn body(&self) -> anyhow::Result<Value> {
        let mut changes = Changes::default();
        changes.number("max_running", self.max_running.as_ref())?;
        changes.number("max_depth", self.max_depth.as_ref())?;
        changes.number("weight", self.weight.as_ref())?;
        changes.number("budget_cents", self.budget.as_ref())?;
        changes.word("budget_period", self.budget_period.as_ref())?;
        changes.number("max_queues", self.max_queues.as_ref())?;
        changes.number("max_types", self.max_types.as_ref())?;
        changes.number("max_lanes", self.max_lanes.as_ref())?;
        changes.number("max_concurrency_keys", self.max_concurrency_keys.as_ref())?;
        changes.body("tenants")
    }
}

pub(crate) async fn tenants(args: &TenantsArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.connect).await,
        Some(TenantsCommand::List(connect)) => list(connect).await,
        Some(TenantsCommand::Show { name, connect }) => show(name, connect).await,
        Some(TenantsCommand::Set(args)) => set(args).await,
    }
}

async fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let columns = vec![
        Column::new("TENANT", 0).cut(10),
        Column::new("READY", 1).right(),
        Column::new("RUNNING", 2).right(),
        Column::new("WAITING", 3).right(),
        Column::new("DEAD", 4).right(),
        Column::new("COST", 5).right(),
        Column::new("BUDGET", 6).right(),
        Column::new("WEIGHT", 8).right(),
        Column::new("HELD", 7).cut(8),
    ];
    job_counts::list(connect, "tenants", columns, row, "no tenants yet: the first job creates one").await
}

fn row(tenant: &Value, now: Timestamp) -> Vec<Cell> {
    let [ready, running, waiting, dead] = job_counts::depths(tenant);
    let period = tenant["budget_period"].as_str().unwrap_or("month");
    let budget = &tenant["budget_cents"];
    let budget = if budget.is_null() { "-".to_owned() } else { format!("{}/{period}", spent(budget)) };
    vec![
        field(&tenant["tenant"]).into(),
        ready,
        running,
        waiting,
        dead,
        spent(&tenant["cost_cents"]).into(),
        budget.into(),
        field(&tenant["weight"]).into(),
        held(&tenant["paused"], now),
    ]
}

async fn show(name: &str, connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let tenant = client.value(Call::get(&["tenants", name])).await?;
    told_unknown("tenant", name, &tenant);
    if connect.json {
        output::json(&tenant)?;
        return Ok(Exit::Done.into());
    }
    let paint = Paint::for_data();
    let head = head("tenant", &field(&tenant["tenant"]), &tenant["paused"], client.now(), paint);
    let depth = settings::depth(&tenant["depth"], paint);
    let cost = format!("{}  {}\n", paint.faint(&format!("{:>20}", "cost")), spent(&tenant["cost_cents"]));
    output::text(&format!("{head}{depth}{cost}{}", settings_section(&tenant, &NAMES, paint)))?;
    Ok(Exit::Done.into())
}

async fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let body = args.body()?;
    let client = args.connect.client()?;
    must_be_known(&client, ("tenant", "tenants"), &args.name, args.create).await?;
    let tenant = client.value(Call::put(&["tenants", &args.name]).json(&body)).await?;
    if args.connect.json {
        output::json(&tenant)?;
        return Ok(Exit::Done.into());
    }
    told_change(&tenant);
    let paint = Paint::for_data();
    let head = head("tenant", &field(&tenant["tenant"]), &Value::Null, client.now(), paint);
    output::text(&format!("{head}{}", settings_section(&tenant, &NAMES, paint)))?;
    Ok(Exit::Done.into())
}
