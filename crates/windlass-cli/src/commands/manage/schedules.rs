//! `windlass schedules`: submit jobs by cron, at an interval or once.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use windlass_api::time::Span;

use crate::commands::jobs::actions::confirmed;
use crate::commands::jobs::submit::{content, payload_field, urgency};
use crate::commands::manage::operations::finish;
use crate::connection::client::{Call, Client};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{ago, ago_field, field, moment};
use crate::output::{self, escaped};

/// Arguments of `schedules`; lists schedules if no subcommand is given.
#[derive(Args)]
pub(crate) struct SchedulesArgs {
    #[command(subcommand)]
    command: Option<SchedulesCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum SchedulesCommand {
    /// List schedules with their next runs
    List(ConnectArgs),
    /// Show a schedule with its next runs
    Show(NamedArgs),
    /// Create a schedule
    Create(Box<CreateArgs>),
    /// Change a schedule; values that are not given stay
    Edit(Box<PutArgs>),
    /// Pause a schedule: its runs are skipped
    Pause {
        /// Reason, for other operators
        #[arg(long)]
        reason: Option<String>,
        /// Resume automatically after this time
        #[arg(long, value_name = "DURATION")]
        expires: Option<Span>,
        #[command(flatten)]
        named: NamedArgs,
    },
    /// Resume a schedule
    Resume(NamedArgs),
    /// Submit its job now
    Trigger(NamedArgs),
    /// Delete a schedule; jobs that it submitted stay
    Delete {
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        named: NamedArgs,
    },
}

#[derive(Args)]
struct NamedArgs {
    /// The schedule
    name: String,
    /// Of this tenant, for keys that can see several
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args)]
struct CreateArgs {
    #[command(flatten)]
    put: PutArgs,
}

/// When to run, and which job.
#[derive(Args)]
struct PutArgs {
    /// The type of the jobs it submits
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Their payload: JSON, or @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Cron expression: five fields, or six with seconds first
    #[arg(long, value_name = "EXPRESSION", group = "timing")]
    cron: Option<String>,
    /// Interval
    #[arg(long, value_name = "DURATION", group = "timing")]
    every: Option<Span>,
    /// Once, at this time, RFC 3339
    #[arg(long, value_name = "TIME", group = "timing")]
    at: Option<String>,
    /// Time zone of --cron, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// What to do about missed runs: skip, once, all
    #[arg(long, value_name = "WHAT")]
    missed: Option<String>,
    /// What to do if the previous run is not finished: allow, skip, cancel
    #[arg(long, value_name = "WHAT")]
    overlap: Option<String>,
    /// Queue of the jobs
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Priority of the jobs
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Any other submission fields, as a JSON object
    #[arg(long, value_name = "JSON")]
    job: Option<String>,
    #[command(flatten)]
    named: NamedArgs,
}

impl PutArgs {
    /// The fields of the request: `base` with the given flags applied.
    fn body(&self, mut base: Map<String, Value>) -> anyhow::Result<Map<String, Value>> {
        let mut set =
            |name: &str, value: Option<Value>| base.extend(value.map(|value| (name.to_owned(), value)));
        set("missed", self.missed.clone().map(Value::from));
        set("overlap", self.overlap.clone().map(Value::from));
        let timing = [
            ("cron", self.cron.clone()),
            ("every", self.every.map(|span| span.to_string())),
            ("at", self.at.clone()),
        ];
        if timing.iter().any(|(_, value)| value.is_some()) {
            for name in ["cron", "every", "at"] {
                base.remove(name);
            }
            if self.cron.is_none() {
                base.remove("timezone");
            }
            base.extend(
                timing.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))),
            );
        }
        base.extend(self.timezone.clone().map(|zone| ("timezone".to_owned(), zone.into())));
        let mut job = match base.remove("job") {
            Some(Value::Object(job)) => job,
            _ => Map::new(),
        };
        if let Some(text) = &self.job {
            let fields: Map<String, Value> = serde_json::from_str(text)
                .map_err(|error| Failure::usage(format!("--job is not a JSON object: {error}")))?;
            job.extend(fields);
        }
        job.extend(self.job_type.clone().map(|name| ("type".to_owned(), name.into())));
        job.extend(self.queue.clone().map(|queue| ("queue".to_owned(), queue.into())));
        job.extend(self.priority.as_deref().map(|priority| ("priority".to_owned(), urgency(priority))));
        if let Some(payload) = &self.payload {
            let field = payload_field(&content(payload)?, None)?;
            let fields: Map<String, Value> = serde_json::from_str(&format!("{{{field}}}"))?;
            job.remove("payload_base64");
            job.extend(fields);
        }
        job.extend(self.named.tenant.clone().map(|tenant| ("tenant".to_owned(), tenant.into())));
        base.insert("job".into(), job.into());
        Ok(base)
    }
}

pub(crate) async fn schedules(args: &SchedulesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.connect).await,
        Some(SchedulesCommand::List(connect)) => list(connect).await,
        Some(SchedulesCommand::Show(named)) => {
            let client = named.connect.client()?;
            let found = client.value(at(Call::get(&["schedules", &named.name]), named)).await?;
            print_schedule(&client, &found, named.connect.json)
        }
        Some(SchedulesCommand::Create(args)) => put(&args.put, true).await,
        Some(SchedulesCommand::Edit(args)) => put(args, false).await,
        Some(SchedulesCommand::Pause { named, reason, expires }) => {
            let mut body = Map::new();
            body.extend(reason.clone().map(|reason| ("reason".to_owned(), Value::from(reason))));
            body.extend(expires.map(|span| ("expires".to_owned(), span.to_string().into())));
            act(named, "pause", &body).await
        }
        Some(SchedulesCommand::Resume(named)) => act(named, "resume", &Map::new()).await,
        Some(SchedulesCommand::Trigger(named)) => act(named, "trigger", &Map::new()).await,
        Some(SchedulesCommand::Delete { named, yes }) => {
            let client = named.connect.client()?;
            if !yes && !confirmed(&format!("delete schedule {}?", escaped(&named.name)))? {
                output::note("nothing was changed");
                return Ok(Exit::No.into());
            }
            client.send(at(Call::delete(&["schedules", &named.name]), named)).await?;
            if named.connect.json {
                output::json(&json!({"name": named.name, "deleted": true}))?;
            } else {
                output::note(&format!("{} is deleted", escaped(&named.name)));
            }
            Ok(Exit::Done.into())
        }
    }
}

fn at(call: Call, named: &NamedArgs) -> Call {
    call.query_if("tenant", named.tenant.as_deref())
}

async fn act(named: &NamedArgs, word: &str, body: &Map<String, Value>) -> anyhow::Result<ExitCode> {
    let client = named.connect.client()?;
    let answer = client.value(at(Call::post(&["schedules", &named.name, word]).json(body), named)).await?;
    if word == "trigger" && !named.connect.json {
        output::line(&field(&answer["id"]))?;
        return Ok(Exit::Done.into());
    }
    if word == "trigger" {
        output::json(&answer)?;
        return Ok(Exit::Done.into());
    }
    print_schedule(&client, &answer, named.connect.json)
}

async fn put(args: &PutArgs, is_new: bool) -> anyhow::Result<ExitCode> {
    let (client, named) = (args.named.connect.client()?, &args.named);
    let found = client.value(at(Call::get(&["schedules", &named.name]), named)).await;
    let base = match found {
        Ok(_) if is_new => {
            let message = format!(
                "schedule {} exists already; `windlass schedules edit` changes it",
                escaped(&named.name)
            );
            return Err(Failure::usage(message));
        }
        Ok(Value::Object(kept)) => {
            let settable = ["cron", "timezone", "every", "at", "missed", "overlap", "job"];
            kept.into_iter()
                .filter(|(name, value)| settable.contains(&name.as_str()) && !value.is_null())
                .collect()
        }
        Err(failure) if is_new && failure.exit() == Exit::NotFound => Map::new(),
        Ok(_) => Map::new(),
        Err(failure) => return Err(failure.into()),
    };
    let body = args.body(base)?;
    let answer = client.value(Call::put(&["schedules", &named.name]).json(&body)).await?;
    print_schedule(&client, &answer, named.connect.json)
}

async fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let answer = client.whole("schedules").await?;
    if connect.json {
        output::json(&answer)?;
        return Ok(Exit::Done.into());
    }
    let mut table = Table::new(vec![
        Column::new("SCHEDULE", 0).cut(10),
        Column::new("TYPE", 3).cut(10),
        Column::new("WHEN", 2).cut(10),
        Column::new("NEXT", 1),
        Column::new("LAST", 5),
        Column::new("JOBS", 6).right(),
        Column::new("NOTE", 4).cut(8),
    ]);
    for schedule in answer["schedules"].as_array().map_or(&[][..], Vec::as_slice) {
        let next = &schedule["next_runs"][0];
        let note = match (schedule["paused"].is_object(), schedule["last_refused"]["reason"].as_str()) {
            (true, _) => Cell::painted(
                format!("paused {}", schedule["paused"]["reason"].as_str().unwrap_or_default()),
                Some(Colour::Warning),
            ),
            (false, Some(message)) => Cell::painted(format!("refused: {message}"), Some(Colour::Bad)),
            _ => "".into(),
        };
        table.row(vec![
            field(&schedule["name"]).into(),
            field(&schedule["job"]["type"]).into(),
            timing(schedule).into(),
            ago_field(next, client.now()).into(),
            ago_field(&schedule["last_run"], client.now()).into(),
            field(&schedule["submitted"]).into(),
            note,
        ]);
    }
    finish(&table, "no schedules; `windlass schedules create NAME --every 1h --type TYPE` creates one")
}

/// The schedule's timing as text.
fn timing(schedule: &Value) -> String {
    match (schedule["cron"].as_str(), schedule["every"].as_str(), schedule["at"].as_str()) {
        (Some(cron), _, _) => format!("{cron} {}", field(&schedule["timezone"])),
        (_, Some(every), _) => format!("every {every}"),
        (_, _, Some(at)) => format!("at {}", moment(at)),
        _ => String::new(),
    }
}

/// A submission without empty fields.
fn submitted(job: &Value) -> Value {
    let says = |(name, value): &(&String, &Value)| {
        let is_usual = name.as_str() == "content_type" && *value == "application/json";
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        !is_usual && !is_empty
    };
    let fields = job.as_object().into_iter().flatten().filter(says);
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn print_schedule(client: &Client, schedule: &Value, is_json: bool) -> anyhow::Result<ExitCode> {
    if is_json {
        output::json(schedule)?;
        return Ok(Exit::Done.into());
    }
    let paint = Paint::for_data();
    let mut text = format!("{}\n", paint.strong(&escaped(&field(&schedule["name"]))));
    let mut fact = |name: &str, value: String| {
        let _always_fits = writeln!(text, "{}  {}", paint.faint(&format!("{name:>10}")), escaped(&value));
    };
    fact("when", timing(schedule));
    fact("job", submitted(&schedule["job"]).to_string());
    fact("missed", field(&schedule["missed"]));
    fact("overlap", field(&schedule["overlap"]));
    fact(
        "submitted",
        format!("{}, last {}", field(&schedule["submitted"]), ago_field(&schedule["last_run"], client.now())),
    );
    if schedule["paused"].is_object() {
        let pause = &schedule["paused"];
        fact(
            "paused",
            format!(
                "{} by {} {}",
                ago_field(&pause["at"], client.now()),
                field(&pause["by"]),
                pause["reason"].as_str().unwrap_or_default()
            ),
        );
    }
    if let Some(message) = schedule["refused"]["message"].as_str() {
        fact("refused", message.to_owned());
    }
    for run in schedule["next_runs"].as_array().map_or(&[][..], Vec::as_slice) {
        let run = run.as_str().unwrap_or_default();
        fact("runs", format!("{} UTC, {}", moment(run), ago(run, client.now())));
    }
    output::text(&text)?;
    Ok(Exit::Done.into())
}
