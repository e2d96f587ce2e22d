//! `windlass show` and `windlass explain`: everything about one job.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use windlass::clock::Timestamp;
use windlass::job::{AttemptOutcome, JobId, JobState};
use windlass_api::job::{Job, Why};
use windlass_api::job_details::{Attempt, Attempts, Reasons};
use windlass_api::json::Json;
use windlass_api::record::{JobEvents, RecordView};
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::commands::jobs::tree::Tree;
use crate::commands::manage::workers::names;
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::table::{Cell, Column, Table, cut_end, terminal_width};
use crate::output::text::{ago, api_name, measured, moment, or_dash};
use crate::output::{self, escaped, raw};

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
    let call = Call::get(&["jobs", &id]).query("payload", "true");
    let Some(job) = client.show::<Job>(call).await? else { return Ok(Exit::Done.into()) };
    let explained: Reasons = client.ask(Call::get(&["jobs", &id, "explain"])).await?;
    let attempts: Attempts = client.ask(Call::get(&["jobs", &id, "attempts"])).await?;
    let events: JobEvents = client.ask(Call::get(&["jobs", &id, "events"])).await?;
    let tree = Tree::load(&client, &job).await?;
    let (paint, now) = (Paint::for_data(), client.now());
    let mut text = facts(&job, now, paint);
    let is_running = job.state.0 == JobState::Running;
    let why = if is_running { "What happens next" } else { "Why it is not running" };
    text.push_str(&section(why, &reasons(&explained, &job, paint), paint));
    let workers = if attempts.attempts.is_empty() { BTreeMap::new() } else { names(&client).await };
    text.push_str(&section("Attempts", &attempts_text(&attempts.attempts, &workers, paint), paint));
    text.push_str(&section("Timeline", &timeline(&events.events, &workers, paint), paint));
    text.push_str(&section("Related jobs", &tree.drawn(&id, paint), paint));
    if job.redacted {
        let note = "not shown: this key may not read payloads, results, checkpoints and logs of this job\n";
        text.push_str(&section("Payload", note, paint));
    }
    text.push_str(&section("Payload", &pretty(job.payload.as_ref()), paint));
    text.push_str(&section("Result", &pretty(job.result.as_ref()), paint));
    output::text(&text)?;
    Ok(Exit::Done.into())
}

pub(crate) async fn explain(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let explained = client.show::<Reasons>(Call::get(&["jobs", &id, "explain"])).await?;
    let Some(explained) = explained else { return Ok(Exit::Done.into()) };
    let job: Job = client.ask(Call::get(&["jobs", &id])).await?;
    if explained.reasons.is_empty() {
        output::note(&format!("nothing blocks it: it is {}", job.state));
    }
    output::text(&reasons(&explained, &job, Paint::for_data()))?;
    Ok(Exit::Done.into())
}

/// A heading with its text; empty if there is no text.
fn section(title: &str, text: &str, paint: Paint) -> String {
    if text.is_empty() { String::new() } else { format!("\n{}\n{text}", paint.strong(title)) }
}

fn facts(job: &Job, now: Timestamp, paint: Paint) -> String {
    let mut text = format!("{}  {}\n", paint.strong(&job.id.to_string()), paint.state(job.state.0));
    for (name, value) in fact_list(job, now) {
        if !value.is_empty() {
            let name = paint.faint(&format!("{name:>12}"));
            let _always_fits = writeln!(text, "{name}  {}", fitted(&escaped(&value), 14));
        }
    }
    text
}

/// Names and values; those without a value are empty.
fn fact_list(job: &Job, now: Timestamp) -> Vec<(&'static str, String)> {
    let (own, effective) = (job.priority, job.effective_priority);
    let at = |at: Option<Moment>| {
        at.map_or_else(String::new, |at| format!("{} UTC, {}", moment(at), ago(at, now)))
    };
    let or_none = |value: Option<&String>| value.cloned().unwrap_or_default();
    let id = |id: &Option<Text<JobId>>| id.as_ref().map_or_else(String::new, ToString::to_string);
    let mut facts = vec![
        ("type", job.r#type.to_string()),
        ("queue", job.queue.to_string()),
        (
            "version",
            job.requires_version
                .as_ref()
                .map_or_else(String::new, |version| format!("only workers of {version}")),
        ),
        ("tenant", job.tenant.to_string()),
        ("owner", job.owner.clone()),
        (
            "priority",
            if own == effective { own.to_string() } else { format!("{own}, effective {effective}") },
        ),
        ("attempts", format!("{} of {}", job.attempt, job.max_attempts)),
        ("created", at(Some(job.created_at))),
        // The planned start is not shown once the job has started.
        ("runs", at(job.started_at.is_none().then_some(job.run_at))),
        ("started", at(job.started_at)),
        ("ended", at(job.completed_at)),
    ];
    if let Some(lease) = &job.lease {
        facts.push(("worker", format!("{}, lease expires {}", lease.worker, ago(lease.expires_at, now))));
    }
    if let Some(progress) = &job.progress {
        let message = progress.message.as_deref().unwrap_or_default();
        facts.push(("progress", format!("{:.0}% {message}", progress.percent)));
    }
    for (name, how) in [("suspended", &job.suspension), ("suspends", &job.suspend_requested)] {
        if let Some(how) = how {
            let reason = how.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            let asked = ago(how.at, now);
            facts.push((name, format!("{}, requested by {} {asked}{reason}", api_name(&how.mode), how.by)));
        }
    }
    if let Some(error) = &job.error {
        facts.push(("error", format!("{} ({})", error.message, error.category)));
        for cause in &error.cause {
            let code = cause.code.as_ref().map_or_else(String::new, |code| format!(" ({code})"));
            facts.push(("caused by", format!("{}{code}", cause.message)));
        }
    }
    let tags: Vec<String> = job.tags.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    facts.extend([
        ("tags", tags.join(" ")),
        ("correlation", or_none(job.correlation_id.as_ref())),
        ("idempotency", or_none(job.idempotency_key.as_ref())),
        ("unique", or_none(job.unique_key.as_ref())),
        ("concurrency", or_none(job.concurrency_key.as_ref())),
        ("callback", or_none(job.callback_url.as_ref())),
        ("parent", id(&job.parent)),
        ("retry", id(&job.retry_of)),
        ("superseded", id(&job.superseded_by)),
    ]);
    facts
}

/// Cuts a text to the terminal's width, of which `used` columns are taken.
fn fitted(text: &str, used: usize) -> String {
    terminal_width().map_or_else(|| text.to_owned(), |room| cut_end(text, room.saturating_sub(used).max(20)))
}

/// Each reason, with the command that ends it below.
fn reasons(explained: &Reasons, job: &Job, paint: Paint) -> String {
    let line = |reason: &Why| {
        let helps = command(reason, job).map_or_else(String::new, |command| {
            format!("  {:<22} {}\n", "", paint.faint(&escaped(&command)))
        });
        format!("  {:<22} {}\n{helps}", reason.code, escaped(&reason.message))
    };
    explained.reasons.iter().map(line).collect()
}

/// The command that ends a reason.
fn command(reason: &Why, job: &Job) -> Option<String> {
    let (id, queue, kind) = (&job.id, &job.queue, &job.r#type);
    let text = |name: &str| reason.details.get(name).and_then(Value::as_str);
    Some(match reason.code.as_str() {
        "held" => format!("windlass release {id}"),
        "suspended" | "suspend_requested" => format!("windlass resume {id}"),
        "no_worker" => format!("windlass work {kind} --queue {queue} -- PROGRAM"),
        "queue_paused" | "gate_closed" => {
            let scope = reason.details.get("scope")?;
            if scope == "gate" {
                return Some("windlass gate open".to_owned());
            }
            let kinds = [
                ("queue", queue.to_string()),
                ("type", kind.to_string()),
                ("tenant", job.tenant.to_string()),
            ];
            let (kind, name) = kinds.into_iter().find(|(kind, _)| scope.get(kind).is_some())?;
            format!("windlass resume {kind} {name}")
        }
        "waiting" => format!("windlass signal {id} {}", text("signal")?),
        _ => return None,
    })
}

fn attempts_text(attempts: &[Attempt], workers: &BTreeMap<String, String>, paint: Paint) -> String {
    if attempts.is_empty() {
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
    for attempt in attempts {
        let colour = match attempt.outcome {
            Some(AttemptOutcome::Completed) => Some(Colour::Good),
            None => Some(Colour::Active),
            Some(AttemptOutcome::Failed | AttemptOutcome::TimedOut | AttemptOutcome::Lost) => {
                Some(Colour::Bad)
            }
            Some(_) => None,
        };
        let outcome = attempt.outcome.as_ref().map_or_else(|| "running".to_owned(), api_name);
        let took =
            attempt.started_at.zip(attempt.ended_at).map(|(start, end)| measured(end.0.since(start.0)));
        table.row(vec![
            "".into(),
            attempt.number.to_string().into(),
            Cell::painted(outcome, colour),
            or_dash(attempt.started_at.map(moment)).into(),
            took.unwrap_or_default().into(),
            or_dash(attempt.worker.as_ref().map(|id| named(workers, &id.to_string()))).into(),
            attempt.error.as_ref().map_or("", |error| error.message.as_str()).into(),
        ]);
    }
    table.render(terminal_width(), paint)
}

fn timeline(events: &[RecordView], workers: &BTreeMap<String, String>, paint: Paint) -> String {
    let left_out = events.len().saturating_sub(EVENTS_SHOWN);
    let mut text = match left_out {
        0 => String::new(),
        count => format!("  … {count} earlier\n"),
    };
    for event in &events[left_out..] {
        let (at, by) = (paint.faint(&moment(event.at)), escaped(&named(workers, &event.actor.id)));
        let name = format!("{:<22}", escaped(&event.event));
        let _always_fits = writeln!(text, "  {at}  {name}  {}", paint.faint(&fitted(&by, 46)));
    }
    text
}

/// A worker's name; its id if the server does not know it any more.
fn named(workers: &BTreeMap<String, String>, id: &str) -> String {
    workers.get(id).map_or_else(|| id.to_owned(), Clone::clone)
}

/// Indented JSON; empty for null.
fn pretty(json: Option<&Json>) -> String {
    let Some(json) = json.map(|json| json.0.get()).filter(|json| *json != "null") else {
        return String::new();
    };
    raw::lines(json).iter().flat_map(|line| ["  ", line, "\n"]).collect()
}
