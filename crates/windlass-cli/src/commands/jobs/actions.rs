//! `windlass suspend`, `resume`, `cancel`, `priority`, `redrive` and `delete`: one action on jobs by id, or on all jobs
//! that match a filter, after confirming their number.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use windlass_api::time::Span;
use windlass_server::number::grouped;

use crate::commands::jobs::filter::FilterArgs;
use crate::commands::jobs::submit::urgency;
use crate::commands::manage::pause;
use crate::connection::client::{Call, Client, required_version};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::limits::{CLIENT_BULK_JOBS, CLIENT_BULK_TIME_MAX};
use crate::output;
use crate::output::color::Paint;
use crate::output::progress::Progress;
use crate::output::text::counted;

/// The jobs to act on, and how.
#[derive(Args)]
pub(crate) struct ActArgs {
    /// Job ids, or a prefix or suffix of an id that matches one job
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Act on all jobs, instead of ids or a filter
    #[arg(long)]
    all: bool,
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Act only if the job still has this version, as printed by `show --json`; for a single id
    #[arg(long, value_name = "VERSION")]
    if_match: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `suspend`.
#[derive(Args)]
pub(crate) struct SuspendArgs {
    /// Reason, for the audit trail
    #[arg(long)]
    reason: Option<String>,
    /// What happens to a running attempt
    #[arg(long)]
    mode: Option<Mode>,
    /// Resume automatically after this time; for ids
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    #[command(flatten)]
    which: ActArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Leave running jobs alone
    IdleOnly,
    /// Suspend a running job when its attempt ends
    Graceful,
    /// Stop a running attempt
    Aggressive,
}

/// Arguments of `resume`.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// Reason, for the audit trail
    #[arg(long)]
    reason: Option<String>,
    /// With `resume queue NAME`: also resume the jobs that an aggressive pause of the queue suspended
    #[arg(long)]
    jobs: bool,
    #[command(flatten)]
    which: ActArgs,
}

/// Arguments of `cancel`.
#[derive(Args)]
pub(crate) struct ReasonedArgs {
    /// Reason, for the audit trail
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    which: ActArgs,
}

/// Arguments of `priority`.
#[derive(Args)]
pub(crate) struct PriorityArgs {
    /// 0 to 100, or low, normal, high, critical
    value: String,
    #[command(flatten)]
    which: ActArgs,
}

/// Arguments of `redrive`.
#[derive(Args)]
pub(crate) struct RedriveArgs {
    /// Run every step again instead of continuing after the last checkpoint; for ids
    #[arg(long)]
    reset_checkpoints: bool,
    /// Refuse jobs that were redriven already; for ids
    #[arg(long)]
    only_once: bool,
    #[command(flatten)]
    which: ActArgs,
}

/// An action: its name and its request fields.
struct Action {
    word: &'static str,
    done: &'static str,
    /// Fields for single jobs and for bulk requests.
    body: Map<String, Value>,
    /// Fields for single jobs only.
    alone: Map<String, Value>,
}

impl Action {
    fn new(word: &'static str, done: &'static str) -> Action {
        Action { word, done, body: Map::new(), alone: Map::new() }
    }

    fn with(mut self, name: &str, value: Option<impl Into<Value>>) -> Action {
        self.body.extend(value.map(|value| (name.to_owned(), value.into())));
        self
    }

    fn alone(mut self, name: &str, value: Option<impl Into<Value>>) -> Action {
        self.alone.extend(value.map(|value| (name.to_owned(), value.into())));
        self
    }
}

pub(crate) async fn suspend(args: &SuspendArgs) -> anyhow::Result<ExitCode> {
    let mode = args.mode.map(|mode| match mode {
        Mode::IdleOnly => "idle_only",
        Mode::Graceful => "graceful",
        Mode::Aggressive => "aggressive",
    });
    let expires = args.expires.map(|span| span.to_string());
    let action = Action::new("suspend", "suspended").with("reason", args.reason.clone()).with("mode", mode);
    run(&args.which, action.alone("expires", expires)).await
}

pub(crate) async fn resume(args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    // `resume queue NAME`: none of these words can be part of an id.
    if let [kind, name] = args.which.ids.as_slice()
        && let Ok(kind) = pause::Kind::from_str(kind, false)
    {
        return pause::resume(kind, name, args.reason.as_deref(), args.jobs, &args.which.connect).await;
    }
    if args.jobs {
        return Err(Failure::usage("--jobs is for `resume queue NAME`"));
    }
    run(&args.which, Action::new("resume", "resumed").with("reason", args.reason.clone())).await
}

pub(crate) async fn cancel(args: &ReasonedArgs) -> anyhow::Result<ExitCode> {
    run(&args.which, Action::new("cancel", "cancelled").with("reason", args.reason.clone())).await
}

pub(crate) async fn priority(args: &PriorityArgs) -> anyhow::Result<ExitCode> {
    run(&args.which, Action::new("priority", "changed").with("value", Some(urgency(&args.value)))).await
}

pub(crate) async fn redrive(args: &RedriveArgs) -> anyhow::Result<ExitCode> {
    let reset = args.reset_checkpoints.then_some(true);
    let once = args.only_once.then_some(true);
    let action = Action::new("redrive", "redriven");
    run(&args.which, action.alone("reset_checkpoints", reset).alone("only_once", once)).await
}

pub(crate) async fn delete(args: &ActArgs) -> anyhow::Result<ExitCode> {
    run(args, Action::new("delete", "deleted")).await
}

async fn run(which: &ActArgs, action: Action) -> anyhow::Result<ExitCode> {
    let chosen = [!which.ids.is_empty(), !which.filter.is_empty(), which.all];
    match chosen.iter().filter(|is_given| **is_given).count() {
        1 => {}
        0 => return Err(Failure::usage(format!("{} what? give ids, a filter or --all", action.word))),
        _ => return Err(Failure::usage("give ids, a filter or --all, but only one of them")),
    }
    if which.if_match.is_some() && which.ids.len() != 1 {
        return Err(Failure::usage("--if-match requires a single job id"));
    }
    let client = which.connect.client()?;
    if which.ids.is_empty() {
        many(&client, which, &action).await
    } else {
        each(&client, which, &action).await
    }
}

/// Acts on each named job. A failure does not stop the others.
async fn each(client: &Client, which: &ActArgs, action: &Action) -> anyhow::Result<ExitCode> {
    let mut first_failure = None;
    for text in &which.ids {
        match act_on_job(client, which, action, text).await {
            Ok(()) => {}
            Err(error) if which.ids.len() == 1 => return Err(error),
            Err(error) => {
                output::note(&format!("{}: {error:#}", output::escaped(text)));
                first_failure.get_or_insert(Exit::of(&error));
            }
        }
    }
    Ok(first_failure.unwrap_or(Exit::Done).into())
}

async fn act_on_job(client: &Client, which: &ActArgs, action: &Action, text: &str) -> anyhow::Result<()> {
    let id = client.job_id(text).await?;
    if which.dry_run {
        let job = client.value(Call::get(&["jobs", &id])).await?;
        let state = Paint::for_data().state(job["state"].as_str().unwrap_or_default());
        if which.connect.json {
            output::json(&job)?;
        } else {
            output::line(&format!("{id}  {state}"))?;
        }
        return Ok(());
    }
    if action.word == "delete" {
        client
            .send(Call::delete(&["jobs", &id]).if_match(required_version(which.if_match.as_deref())?))
            .await?;
        return if which.connect.json {
            output::json(&json!({"id": id, "deleted": true}))
        } else {
            output::line(&format!("{id}  deleted"))
        };
    }
    let body: Map<String, Value> = action.body.clone().into_iter().chain(action.alone.clone()).collect();
    let call = Call::post(&["jobs", &id, action.word])
        .json(&body)
        .if_match(required_version(which.if_match.as_deref())?);
    let job = client.value(call).await?;
    if which.connect.json {
        return output::json(&job);
    }
    let state = Paint::for_data().state(job["state"].as_str().unwrap_or_default());
    let summary = match (action.word, job["changed"].as_bool()) {
        // The response describes the new job; its id is printed first.
        ("redrive", _) => format!("{}  {state}, retry of {id}", job["id"].as_str().unwrap_or_default()),
        (_, Some(false)) => format!("{id}  {state}, unchanged"),
        ("priority", _) => format!("{id}  {state}, priority {}", job["priority"]),
        _ => format!("{id}  {state}"),
    };
    output::line(&summary)
}

/// Acts on all matching jobs, after counting them and asking for confirmation.
async fn many(client: &Client, which: &ActArgs, action: &Action) -> anyhow::Result<ExitCode> {
    if !action.alone.is_empty() {
        let flags: Vec<_> = action.alone.keys().map(|name| format!("--{}", name.replace('_', "-"))).collect();
        return Err(Failure::usage(format!("{} works on single jobs only", flags.join(", "))));
    }
    let mut body = json!({"action": action.word, "filter": which.filter.body()});
    body.as_object_mut().expect("it was built as an object").extend(action.body.clone());
    let mut looked = body.clone();
    looked["dry_run"] = true.into();
    let answer = client.value(bulk(&looked)).await?;
    let matched = answer["matched"].as_u64().unwrap_or(0);
    if which.dry_run {
        if which.connect.json {
            output::json(&answer)?;
        } else {
            output::line(&format!("{} fit", counted(matched, "job")))?;
        }
        return Ok(Exit::Done.into());
    }
    if matched > 0 && !which.yes && !confirmed(&format!("{} {}?", action.word, counted(matched, "job")))? {
        output::note("nothing was changed");
        return Ok(Exit::No.into());
    }
    let mut tally = Tally::default();
    let progress = Progress::start("jobs", Some(matched)).unless(which.connect.json);
    let done = in_parts(client, body, &mut tally, progress).await;
    if done.is_err() && tally.changed > 0 {
        output::note(&format!("{} {} before the interruption", counted(tally.changed, "job"), action.done));
    }
    done?;
    let Tally { matched, changed, skipped } = tally;
    if which.connect.json {
        let mut answer = json!({"matched": matched, "changed": changed});
        if skipped > 0 {
            answer["skipped"] = skipped.into();
        }
        output::json(&answer)?;
    } else {
        output::line(&format!("{} of {} {}", grouped(changed), counted(matched, "job"), action.done))?;
        if skipped > 0 {
            let refused = counted(skipped, "job");
            output::note(&format!("{refused} refused: run the command on a single job to see why"));
        }
        if changed + skipped < matched {
            output::note("the others were already in that state");
        }
    }
    Ok(Exit::Done.into())
}

/// The result of a bulk action so far.
#[derive(Default)]
struct Tally {
    matched: u64,
    changed: u64,
    skipped: u64,
}

fn bulk(body: &Value) -> Call {
    Call::post(&["jobs", "bulk"]).json(body).waiting(CLIENT_BULK_TIME_MAX)
}

/// Runs the action in chunks, to show progress and to stop on Ctrl-C.
async fn in_parts(
    client: &Client,
    mut body: Value,
    tally: &mut Tally,
    mut progress: Progress,
) -> anyhow::Result<()> {
    // Redriven jobs still match the filter: a restart after Ctrl-C would redrive them twice. One request covers them all.
    if body["action"] != "redrive" {
        body["limit"] = CLIENT_BULK_JOBS.into();
    }
    loop {
        let answer = client.value(bulk(&body)).await?;
        tally.matched += answer["matched"].as_u64().unwrap_or(0);
        tally.changed += answer["changed"].as_u64().unwrap_or(0);
        tally.skipped += answer["skipped"].as_u64().unwrap_or(0);
        progress.set(tally.matched);
        match answer["next_cursor"].as_str() {
            Some(next) => body["cursor"] = next.into(),
            None => return Ok(()),
        }
    }
}

/// Asks for confirmation. Fails if there is no terminal to ask on.
pub(crate) fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} There is no terminal to ask on; pass --yes, or preview with --dry-run"
        )));
    }
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
