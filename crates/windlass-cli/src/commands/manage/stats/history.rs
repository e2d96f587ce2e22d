//! `windlass stats --range`: what happened over time, one line per step.

use std::process::ExitCode;

use clap::Args;
use windlass::job::{JobType, QueueName};
use windlass::limits::{HISTORY_RANGE_MAX, HISTORY_RANGE_MIN};
use windlass::store::caller::Caller;
use windlass::store::{HistoryRequest, HistorySubject, Store};
use windlass_api::stats::history::{HistoryQuery, Level, Period, StatsHistory};
use windlass_api::text::Text;
use windlass_api::time::{Moment, Span};

use crate::connection::client::{Call, ServerClient};
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{counted, measured, moment, or_dash, short_span};

/// Which time `stats` shows.
#[derive(Args)]
pub(crate) struct RangeArgs {
    /// Show rates, depth and latency over this time, from 5m to 30d, instead of counting jobs
    #[arg(long, value_name = "DURATION")]
    range: Option<Span>,
    /// End of the range; now if not given
    #[arg(long, value_name = "TIME", requires = "range")]
    until: Option<Moment>,
    /// Only jobs of this queue
    #[arg(long, value_name = "NAME", requires = "range", conflicts_with = "type")]
    queue: Option<Text<QueueName>>,
    /// Only jobs of this type
    #[arg(long, value_name = "TYPE", requires = "range")]
    r#type: Option<Text<JobType>>,
}

impl RangeArgs {
    /// Whether a range was asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.range.is_some()
    }

    fn request(&self) -> HistoryRequest {
        let part = match (&self.queue, &self.r#type) {
            (Some(queue), _) => HistorySubject::Queue(queue.0.clone()),
            (None, Some(job_type)) => HistorySubject::Type(job_type.0.clone()),
            (None, None) => HistorySubject::All,
        };
        let range = self.range.map_or(HISTORY_RANGE_MIN, |range| range.0);
        HistoryRequest { part, range, until: self.until.map(|until| until.0) }
    }

    fn query(&self) -> HistoryQuery {
        let (queue, r#type) = (self.queue.clone(), self.r#type.clone());
        HistoryQuery { range: self.range, until: self.until, queue, r#type }
    }
}

/// From a server.
pub(crate) async fn served(client: &ServerClient, args: &RangeArgs) -> anyhow::Result<ExitCode> {
    let asked = client.show(Call::get(&["stats", "history"]).queries(&args.query())).await?;
    asked.map_or_else(|| Ok(Exit::Done.into()), |history| print(&history))
}

/// From a store.
pub(crate) async fn stored(store: &Store, args: &RangeArgs, is_json: bool) -> anyhow::Result<ExitCode> {
    let range = args.request();
    if !(HISTORY_RANGE_MIN..=HISTORY_RANGE_MAX).contains(&range.range) {
        return Err(Failure::usage("--range must be between 5m and 30d"));
    }
    let history = StatsHistory::from(&store.history(&Caller::local(), range).await?);
    if is_json {
        output::json(&history)?;
        return Ok(Exit::Done.into());
    }
    print(&history)
}

fn print(history: &StatsHistory) -> anyhow::Result<ExitCode> {
    let printed = table(history).print_or("no statistics")?;
    output::note(&summary(history));
    Ok(printed)
}

/// One line per step, and one for all of them.
fn table(history: &StatsHistory) -> Table {
    let mut table = Table::new(vec![
        Column::new("FROM", 0),
        Column::new("SUBMITTED", 2).right(),
        Column::new("COMPLETED", 1).right(),
        Column::new("FAILED", 1).right(),
        Column::new("READY", 3).right(),
        Column::new("WAIT P50", 5).right(),
        Column::new("WAIT P95", 4).right(),
        Column::new("RUN P50", 7).right(),
        Column::new("RUN P95", 6).right(),
        Column::new("IN USE", 8).right(),
    ]);
    for point in &history.points {
        table.row(row(moment(point.at), &point.period));
    }
    table.row(row("all".to_owned(), &history.total));
    table
}

fn row(from: String, period: &Period) -> Vec<Cell> {
    let span = |span: Option<Span>| or_dash(span.map(|span| measured(span.0)));
    let Period { rates, ready, utilisation, .. } = period;
    vec![
        from.into(),
        rates.submitted.to_string().into(),
        rates.completed.to_string().into(),
        rates.failed_attempts().to_string().into(),
        or_dash(ready.map(|Level { max, .. }| max)).into(),
        span(rates.waited.p50).into(),
        span(rates.waited.p95).into(),
        span(rates.ran.p50).into(),
        span(rates.ran.p95).into(),
        or_dash(utilisation.map(|share| format!("{:.0} %", share * 100.0))).into(),
    ]
}

/// The range in one sentence, beside the time before it.
fn summary(history: &StatsHistory) -> String {
    let StatsHistory { from: Moment(from), until: Moment(until), total, previous, .. } = history;
    let completed = |period: &Period| counted(period.rates.completed, "completed job");
    let before = previous.as_ref().map_or_else(String::new, |before| {
        format!("; {} and {} in the time before", completed(before), failed(before))
    });
    let range = short_span(until.since(*from));
    format!("{} and {} in {range}{before}", completed(total), failed(total))
}

fn failed(period: &Period) -> String {
    counted(period.rates.failed_attempts(), "failed attempt")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::output::color::Paint;

    fn period(completed: u64, retried: u64) -> Value {
        let none = json!({"p50": null, "p95": null, "p99": null});
        json!({
            "submitted": 3, "claimed": 3, "completed": completed, "failed": 0, "retried": retried, "dead_letter": 0,
            "cancelled": 0, "reaped": 0, "waited": {"p50": "20ms", "p95": "2s", "p99": "2s"}, "ran": none,
            "ready": {"average": 1.5, "max": 4}, "running": null, "utilisation": 0.254,
        })
    }

    #[test]
    fn each_step_is_a_line_and_the_time_before_is_named() {
        let mut point = period(2, 1);
        point["at"] = json!("2030-01-31T12:00:00.000Z");
        let history: StatsHistory = serde_json::from_value(json!({
            "from": "2030-01-31T12:00:00.000Z", "until": "2030-01-31T12:05:00.000Z", "step": "1m",
            "points": [point], "total": period(2, 1), "previous": period(1, 0),
        }))
        .unwrap();
        assert_eq!(
            summary(&history),
            "2 completed jobs and 1 failed attempt in 5m; 1 completed job and 0 failed attempts in the time before"
        );
        let cells = ["2030-01-31 12:00:00", "3", "2", "1", "4", "20ms", "2.0s", "-", "-", "25 %"];
        let printed = table(&history).render(None, Paint::plain());
        for cell in cells {
            assert!(printed.contains(cell), "{cell}: {printed}");
        }
    }
}
