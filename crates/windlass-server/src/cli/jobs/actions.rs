//! `windlass suspend`, `resume`, `cancel`, `priority`, `redrive` and `delete`: one action on jobs by id, or on all jobs that
//! fit a filter once a person has seen how many those are.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::cli::color::Paint;
use crate::cli::connection::client::{Call, Client};
use crate::cli::connection::connect::ConnectArgs;
use crate::cli::error::Failure;
use crate::cli::exit_code::Exit;
use crate::cli::jobs::filter::FilterArgs;
use crate::cli::jobs::submit::urgency;
use crate::cli::manage::pause;
use crate::cli::output;
use crate::cli::progress::Progress;
use crate::cli::text::counted;
use crate::http::Span;
use crate::limits::{CLIENT_BULK_JOBS, CLIENT_BULK_TIME_MAX};
use crate::number::grouped;

/// Which jobs, and how to go about it.
#[derive(Args)]
pub(in crate::cli) struct ActArgs {
    /// The jobs: ids, or beginnings or ends of ids that fit one job
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Every job there is, instead of ids or a filter
    #[arg(long)]
    all: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Only if the job is still in this version, as `show --json` names it; for one id
    #[arg(long, value_name = "VERSION")]
    if_match: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What to suspend.
#[derive(Args)]
pub(in crate::cli) struct SuspendArgs {
    /// Why, for the audit trail
    #[arg(long)]
    reason: Option<String>,
    /// What happens to a running attempt
    #[arg(long)]
    mode: Option<Mode>,
    /// Lifts itself after this time; for ids
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    #[command(flatten)]
    which: ActArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// A running job is left alone
    IdleOnly,
    /// It is suspended when its attempt ends
    Graceful,
    /// Its attempt is stopped
    Aggressive,
}

/// What to resume.
#[derive(Args)]
pub(in crate::cli) struct ResumeArgs {
    /// Why, for the audit trail
    #[arg(long)]
    reason: Option<String>,
    /// With `resume queue NAME`: resume the jobs too that aggressive pauses of the queue have suspended
    #[arg(long)]
    jobs: bool,
    #[command(flatten)]
    which: ActArgs,
}

/// What to cancel.
#[derive(Args)]
pub(in crate::cli) struct ReasonedArgs {
    /// Why, for the audit trail
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    which: ActArgs,
}

/// What to make how urgent.
#[derive(Args)]
pub(in crate::cli) struct PriorityArgs {
    /// 0 to 100, or low, normal, high, critical
    value: String,
    #[command(flatten)]
    which: ActArgs,
}

/// What to submit again.
#[derive(Args)]
pub(in crate::cli) struct RedriveArgs {
    /// Run every step again instead of going on after the last one that was saved; for ids
    #[arg(long)]
    reset_checkpoints: bool,
    /// Refuse what was redriven already; for ids
    #[arg(long)]
    only_once: bool,
    #[command(flatten)]
    which: ActArgs,
}

/// One action: what it is called, and what is sent with it.
struct Action {
    word: &'static str,
    done: &'static str,
    /// For single jobs and for many.
    body: Map<String, Value>,
    /// For single jobs alone.
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

pub(in crate::cli) async fn suspend(args: &SuspendArgs) -> anyhow::Result<ExitCode> {
    let mode = args.mode.map(|mode| match mode {
        Mode::IdleOnly => "idle_only",
        Mode::Graceful => "graceful",
        Mode::Aggressive => "aggressive",
    });
    let expires = args.expires.map(|span| span.to_string());
    let action = Action::new("suspend", "suspended").with("reason", args.reason.clone()).with("mode", mode);
    run(&args.which, action.alone("expires", expires)).await
}

pub(in crate::cli) async fn resume(args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    // `resume queue NAME`: none of these words can be a part of an id.
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

pub(in crate::cli) async fn cancel(args: &ReasonedArgs) -> anyhow::Result<ExitCode> {
    run(&args.which, Action::new("cancel", "cancelled").with("reason", args.reason.clone())).await
}

pub(in crate::cli) async fn priority(args: &PriorityArgs) -> anyhow::Result<ExitCode> {
    run(&args.which, Action::new("priority", "changed").with("value", Some(urgency(&args.value)))).await
}

pub(in crate::cli) async fn redrive(args: &RedriveArgs) -> anyhow::Result<ExitCode> {
    let reset = args.reset_checkpoints.then_some(true);
    let once = args.only_once.then_some(true);
    let action = Action::new("redrive", "redriven");
    run(&args.which, action.alone("reset_checkpoints", reset).alone("only_once", once)).await
}

pub(in crate::cli) async fn delete(args: &ActArgs) -> anyhow::Result<ExitCode> {
    run(args, Action::new("delete", "deleted")).await
}

async fn run(which: &ActArgs, action: Action) -> anyhow::Result<ExitCode> {
    let chosen = [!which.ids.is_empty(), !which.filter.is_empty(), which.all];
    match chosen.iter().filter(|is_given| **is_given).count() {
        1 => {}
        0 => return Err(Failure::usage(format!("{} what? give ids, a filter or --all", action.word))),
        _ => return Err(Failure::usage("give ids, a filter or --all, not several of them")),
    }
    if which.if_match.is_some() && which.ids.len() != 1 {
        return Err(Failure::usage("--if-match is for one job, by its id"));
    }
    let client = which.connect.client()?;
    if which.ids.is_empty() {
        many(&client, which, &action).await
    } else {
        each(&client, which, &action).await
    }
}

/// Every job that is named; one that fails does not keep the others.
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
        client.send(Call::delete(&["jobs", &id]).if_match(which.if_match.as_deref())?).await?;
        return if which.connect.json {
            output::json(&json!({"id": id, "deleted": true}))
        } else {
            output::line(&format!("{id}  deleted"))
        };
    }
    let body: Map<String, Value> = action.body.clone().into_iter().chain(action.alone.clone()).collect();
    let call = Call::post(&["jobs", &id, action.word]).json(&body).if_match(which.if_match.as_deref())?;
    let job = client.value(call).await?;
    if which.connect.json {
        return output::json(&job);
    }
    let state = Paint::for_data().state(job["state"].as_str().unwrap_or_default());
    let told = match (action.word, job["changed"].as_bool()) {
        // Its answer is another job, which is what a person goes on with.
        ("redrive", _) => format!("{}  {state}, again for {id}", job["id"].as_str().unwrap_or_default()),
        (_, Some(false)) => format!("{id}  {state}, unchanged"),
        ("priority", _) => format!("{id}  {state}, priority {}", job["priority"]),
        _ => format!("{id}  {state}"),
    };
    output::line(&told)
}

/// All jobs that fit, after a look at how many they are.
async fn many(client: &Client, which: &ActArgs, action: &Action) -> anyhow::Result<ExitCode> {
    if !action.alone.is_empty() {
        let flags: Vec<_> = action.alone.keys().map(|name| format!("--{}", name.replace('_', "-"))).collect();
        return Err(Failure::usage(format!("{} is for single jobs", flags.join(", "))));
    }
    let mut body = json!({"action": action.word, "filter": which.filter.body()});
    body.as_object_mut().expect("it was made as an object").extend(action.body.clone());
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
        output::note("nothing was done");
        return Ok(Exit::No.into());
    }
    let mut tally = Tally::default();
    let progress = Progress::start("jobs", Some(matched)).unless(which.connect.json);
    let done = in_parts(client, body, &mut tally, progress).await;
    if done.is_err() && tally.changed > 0 {
        output::note(&format!("{} {} before that", counted(tally.changed, "job"), action.done));
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
            output::note(&format!("{refused} refused: act on one of them alone to see why"));
        }
        if changed + skipped < matched {
            output::note("the others were so already");
        }
    }
    Ok(Exit::Done.into())
}

/// What a bulk action came to so far.
#[derive(Default)]
struct Tally {
    matched: u64,
    changed: u64,
    skipped: u64,
}

fn bulk(body: &Value) -> Call {
    Call::post(&["jobs", "bulk"]).json(body).waiting(CLIENT_BULK_TIME_MAX)
}

/// The action part by part, so that how far it is can be told and Ctrl-C ends it.
async fn in_parts(
    client: &Client,
    mut body: Value,
    tally: &mut Tally,
    mut progress: Progress,
) -> anyhow::Result<()> {
    // What was redriven stays among what fits: begun anew after Ctrl-C it would run twice. The server goes through with it.
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

/// Asks a person. Where there is none, nothing is decided for them.
pub(in crate::cli) fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} There is nobody to ask; say --yes, or look with --dry-run"
        )));
    }
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
