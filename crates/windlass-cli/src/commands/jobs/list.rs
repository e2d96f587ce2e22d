//! `windlass list`: jobs, page by page.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;
use windlass::clock::Timestamp;

use crate::commands::jobs::filter::FilterArgs;
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::limits::LIST_PAGE_JOBS;
use crate::output;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{ago_field, field};

/// Arguments of `list`.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Sort order
    #[arg(long, default_value = "newest")]
    order: Order,
    /// Maximum number of jobs
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
    /// List all jobs
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Include payloads, with --json
    #[arg(long, requires = "json")]
    payload: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    Newest,
    Oldest,
    /// In the order in which they would be claimed
    Claim,
}

pub(crate) async fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let order = args.order.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let mut call = args.filter.query(Call::get(&["jobs"])).query("order", order);
    if args.payload {
        call = call.query("payload", "true");
    }
    let (mut left, mut cursor, mut count) =
        (if args.all { usize::MAX } else { args.limit }, None::<String>, 0);
    while left > 0 {
        let page = call.clone().query("limit", left.min(LIST_PAGE_JOBS).to_string());
        let page = client.value(page.query_if("cursor", cursor.as_deref())).await?;
        let jobs = page["jobs"].as_array().map_or(&[][..], Vec::as_slice);
        count += jobs.len();
        left = left.saturating_sub(jobs.len());
        if args.connect.json {
            for job in jobs {
                output::json(job)?;
            }
        } else if !jobs.is_empty() {
            table(jobs, client.now()).print()?;
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if !args.connect.json {
        match (count, &cursor) {
            (0, _) => output::note("no matching jobs; `windlass submit TYPE` submits one"),
            (_, Some(_)) => {
                output::note(&format!("showing the first {count}; use --all or --limit for more"));
            }
            _ => {}
        }
    }
    Ok(Exit::Done.into())
}

/// Jobs as a table.
pub(crate) fn table(jobs: &[Value], now: Timestamp) -> Table {
    let mut table = Table::new(vec![
        Column::new("ID", 1).cut_middle(18),
        Column::new("STATE", 0),
        Column::new("TYPE", 2).cut(12),
        Column::new("QUEUE", 4).cut(8),
        Column::new("PRI", 8).right(),
        Column::new("TRIES", 7).right(),
        Column::new("CREATED", 3),
        Column::new("NOTE", 6).cut(12),
    ]);
    for job in jobs {
        table.row(vec![
            field(&job["id"]).into(),
            Cell::state(job["state"].as_str().unwrap_or_default()),
            field(&job["type"]).into(),
            field(&job["queue"]).into(),
            field(&job["effective_priority"]).into(),
            format!("{}/{}", job["attempt"], job["max_attempts"]).into(),
            ago_field(&job["created_at"], now).into(),
            remark(job).into(),
        ]);
    }
    table
}

/// The most useful fact about the job: its error, its progress, or what it waits for.
fn remark(job: &Value) -> String {
    if let Some(percent) = job["progress"]["percent"].as_f64().filter(|_| job["state"] == "running") {
        let message = job["progress"]["message"].as_str().unwrap_or_default();
        return format!("{percent:.0}% {message}").trim_end().to_owned();
    }
    let said = [&job["why"]["message"], &job["error"]["message"]];
    let is_well = job["state"] == "completed";
    said.iter().filter(|_| !is_well).find_map(|text| text.as_str()).unwrap_or_default().to_owned()
}
