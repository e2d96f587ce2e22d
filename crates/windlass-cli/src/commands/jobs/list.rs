//! `windlass list`: jobs, page by page.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass_api::filter::{ListOrder, ListQuery};
use windlass_api::job::Job;

use crate::commands::jobs::filter::FilterArgs;
use crate::connection::client::{Call, read_each};
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::limits::LIST_PAGE_JOBS;
use crate::output;
use crate::output::table::{Cell, Column, Table};

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
    let order = match args.order {
        Order::Newest => ListOrder::Newest,
        Order::Oldest => ListOrder::Oldest,
        Order::Claim => ListOrder::Claim,
    };
    let query = ListQuery { order: Some(order), ..ListQuery::from(args.filter.filter(&client).await?) };
    let query = ListQuery { payload: args.payload.then_some(true), ..query };
    let (mut left, mut cursor, mut count) = (if args.all { usize::MAX } else { args.limit }, None, 0);
    while left > 0 {
        let query =
            ListQuery { limit: Some(left.min(LIST_PAGE_JOBS)), cursor: cursor.take(), ..query.clone() };
        let page = client.page(Call::get(&["jobs"]).queries(&query), "jobs").await?;
        count += page.items.len();
        left = left.saturating_sub(page.items.len());
        if args.connect.json {
            for job in &page.items {
                output::json(job)?;
            }
        } else if !page.items.is_empty() {
            table(&read_each::<Job>("jobs", page.items), client.now()).print()?;
        }
        cursor = page.next_cursor;
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
fn table(jobs: &[Job], now: Timestamp) -> Table {
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
            job.id.to_string().into(),
            Cell::state(job.state.0),
            job.r#type.to_string().into(),
            job.queue.to_string().into(),
            job.effective_priority.to_string().into(),
            format!("{}/{}", job.attempt, job.max_attempts).into(),
            Cell::when(job.created_at, now),
            remark(job).into(),
        ]);
    }
    table
}

/// The most useful fact about the job: its error, its progress, or what it waits for.
fn remark(job: &Job) -> String {
    match (job.state.0, &job.progress, &job.why, &job.error) {
        (JobState::Running, Some(progress), ..) => {
            let message = progress.message.as_deref().unwrap_or_default();
            format!("{:.0}% {message}", progress.percent).trim_end().to_owned()
        }
        (JobState::Completed, ..) | (_, _, None, None) => String::new(),
        (_, _, Some(why), _) => why.message.clone(),
        (_, _, None, Some(error)) => error.message.clone(),
    }
}
