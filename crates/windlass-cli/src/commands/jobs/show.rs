//! `windlass show` and `windlass explain`: everything about one job.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use windlass::clock::Timestamp;

use crate::commands::jobs::tree::Tree;
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::table::{Cell, Column, Table, cut_end, room};
use crate::output::text::{ago, ago_field, between, field, moment, short_span};
use crate::output::{self, escaped};

/// How many events of the timeline are printed; `windlass audit --job` lists all.
const EVENTS_SHOWN: usize = 20;

/// Arguments of `show` and `explain`.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Job id, or a prefix or suffix of one that matches one job
    id: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let job = client.value(Call::get(&["jobs", &id]).query("payload", "true")).await?;
    if args.connect.json {
        output::json(&job)?;
        return Ok(Exit::Done.into());
    }
    let part = async |name: &str| client.value(Call::get(&["jobs", &id, name])).await;
    let (explained, attempts, events) =
        (part("explain").await?, part("attempts").await?, part("events").await?);
    let tree = Tree::load(&client, &job).await?;
    let (paint, now) = (Paint::for_data(), client.now());
    let mut text = facts(&job, now, paint);
    let why = if job["state"] == "running" { "What happens next" } else { "Why it is not running" };
    text.push_str(&section(why, &reasons(&explained), paint));
    text.push_str(&section("Attempts", &attempts_text(&attempts, paint), paint));
    text.push_str(&section("Timeline", &timeline(&events, paint), paint));
    text.push_str(&section("Related jobs", &tree.drawn(&id, paint), paint));
    if job["redacted"] == true {
        let note = "not shown: this key may not read payloads, results, checkpoints and logs of this job\n";
        text.push_str(&section("Payload", note, paint));
    }
    text.push_str(&section("Payload", &pretty(&job["payload"]), paint));
    text.push_str(&section("Result", &pretty(&job["result"]), paint));
    output::text(&text)?;
    Ok(Exit::Done.into())
}

pub(crate) async fn explain(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let explained = client.value(Call::get(&["jobs", &id, "explain"])).await?;
    if args.connect.json {
        output::json(&explained)?;
        return Ok(Exit::Done.into());
    }
    let reasons = reasons(&explained);
    if reasons.is_empty() {
        let state = client.value(Call::get(&["jobs", &id])).await?["state"].clone();
        output::note(&format!("nothing blocks it: it is {}", field(&state)));
    }
    output::text(&reasons)?;
    Ok(Exit::Done.into())
}

/// A heading with its text; empty if there is no text.
fn section(title: &str, text: &str, paint: Paint) -> String {
    if text.is_empty() { String::new() } else { format!("\n{}\n{text}", paint.strong(title)) }
}

fn facts(job: &Value, now: Timestamp, paint: Paint) -> String {
    let mut text = format!("{}  {}\n", paint.strong(&field(&job["id"])), paint.state(&field(&job["state"])));
    let mut fact = |name: &str, value: String| {
        if value != "-" && !value.is_empty() {
            let _always_fits =
                writeln!(text, "{}  {}", paint.faint(&format!("{name:>12}")), fitted(&escaped(&value), 14));
        }
    };
    fact("type", field(&job["type"]));
    fact("queue", field(&job["queue"]));
    fact("tenant", field(&job["tenant"]));
    fact("owner", field(&job["owner"]));
    let (own, effective) = (field(&job["priority"]), field(&job["effective_priority"]));
    fact("priority", if own == effective { own } else { format!("{own}, effective {effective}") });
    fact("attempts", format!("{} of {}", job["attempt"], job["max_attempts"]));
    let times =
        [("created", "created_at"), ("runs", "run_at"), ("started", "started_at"), ("ended", "completed_at")];
    for (name, key) in times {
        // The planned start is not shown once the job has started.
        if let Some(at) = job[key].as_str().filter(|_| key != "run_at" || job["started_at"].is_null()) {
            fact(name, format!("{} UTC, {}", moment(at), ago(at, now)));
        }
    }
    if job["lease"].is_object() {
        let lease = &job["lease"];
        fact(
            "worker",
            format!("{}, lease expires {}", field(&lease["worker"]), ago_field(&lease["expires_at"], now)),
        );
    }
    if let Some(percent) = job["progress"]["percent"].as_f64() {
        fact(
            "progress",
            format!("{percent:.0}% {}", job["progress"]["message"].as_str().unwrap_or_default()),
        );
    }
    for (name, key) in [("suspended", "suspension"), ("suspends", "suspend_requested")] {
        let how = &job[key];
        if how.is_object() {
            let reason = how["reason"].as_str().map_or_else(String::new, |reason| format!(": {reason}"));
            let asked = ago_field(&how["at"], now);
            fact(
                name,
                format!("{}, requested by {} {asked}{reason}", field(&how["mode"]), field(&how["by"])),
            );
        }
    }
    if let Some(error) = job["error"]["message"].as_str() {
        fact("error", format!("{} ({})", error, field(&job["error"]["category"])));
    }
    for cause in job["error"]["cause"].as_array().into_iter().flatten() {
        let code = cause["code"].as_str().map_or_else(String::new, |code| format!(" ({code})"));
        fact("caused by", format!("{}{code}", field(&cause["message"])));
    }
    let tags = job["tags"].as_object().into_iter().flatten();
    fact("tags", tags.map(|(name, value)| format!("{name}:{}", field(value))).collect::<Vec<_>>().join(" "));
    let names = ["correlation_id", "idempotency_key", "unique_key", "concurrency_key", "callback_url"];
    for name in names.iter().chain(&["parent", "retry_of", "superseded_by"]) {
        fact(name.split('_').next().unwrap_or(name), field(&job[*name]));
    }
    text
}

/// Cuts a text to the terminal's width, of which `used` columns are taken.
fn fitted(text: &str, used: usize) -> String {
    room().map_or_else(|| text.to_owned(), |room| cut_end(text, room.saturating_sub(used).max(20)))
}

fn reasons(explained: &Value) -> String {
    let all = explained["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |reason: &Value| {
        format!("  {:<22} {}\n", field(&reason["code"]), escaped(&field(&reason["message"])))
    };
    all.iter().map(line).collect()
}

fn attempts_text(attempts: &Value, paint: Paint) -> String {
    let all = attempts["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::new("", 0),
        Column::new("#", 0).right(),
        Column::new("OUTCOME", 0),
        Column::new("STARTED", 2),
        Column::new("TOOK", 1).right(),
        Column::new("WORKER", 4).cut_middle(13),
        Column::new("ERROR", 3).cut(10),
    ]);
    for attempt in all {
        let outcome = attempt["outcome"].as_str().unwrap_or("running");
        let colour = match outcome {
            "completed" => Some(Colour::Good),
            "running" => Some(Colour::Active),
            "failed" | "timed_out" | "lost" => Some(Colour::Bad),
            _ => None,
        };
        let took = between(&attempt["started_at"], &attempt["ended_at"]).map_or_else(String::new, short_span);
        let error = attempt["error"]["message"].as_str().unwrap_or_default();
        table.row(vec![
            "".into(),
            field(&attempt["number"]).into(),
            Cell::painted(outcome, colour),
            moment(&field(&attempt["started_at"])).into(),
            took.into(),
            field(&attempt["worker"]).into(),
            error.into(),
        ]);
    }
    table.render(room(), paint)
}

fn timeline(events: &Value, paint: Paint) -> String {
    let all = events["events"].as_array().map_or(&[][..], Vec::as_slice);
    let left_out = all.len().saturating_sub(EVENTS_SHOWN);
    let mut text = match left_out {
        0 => String::new(),
        count => format!("  … {count} earlier\n"),
    };
    for event in &all[left_out..] {
        let at = moment(&field(&event["at"]));
        let name = format!("{:<22}", field(&event["event"]));
        let by = escaped(&field(&event["actor"]["id"]));
        let _always_fits =
            writeln!(text, "  {}  {name}  {}", paint.faint(&at), paint.faint(&fitted(&by, 46)));
    }
    text
}

/// Indented JSON; empty for null.
fn pretty(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().flat_map(|line| ["  ".to_owned(), escaped(line), "\n".to_owned()]).collect()
}
