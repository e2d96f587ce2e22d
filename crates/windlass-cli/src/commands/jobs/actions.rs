//! `windlass suspend`, `resume`, `cancel`, `priority`, `redrive` and `delete`: one action on jobs by id, or on all jobs
//! that match a filter, after confirming their number.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;
use windlass::job::{JobAction, JobState, WorkerVersion};
use windlass::settings::patch::Field;
use windlass_api::actions::{
    ActionResponse, BulkAnswer, BulkBody, PriorityBody, ReasonBody, RedriveBody, SuspendBody, SuspendParam,
};
use windlass_api::expires::Expiry;
use windlass_api::filter::JobFilter;
use windlass_api::job::Job;
use windlass_api::priority::PriorityInput;
use windlass_api::text::Text;
use windlass_api::time::Span;
use windlass_server::number::grouped;

use crate::commands::jobs::edit;
use crate::commands::jobs::filter::FilterArgs;
use crate::commands::jobs::submit::content;
use crate::commands::manage::pause;
use crate::connection::client::{Call, ServerClient, required_version};
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
    value: PriorityInput,
    #[command(flatten)]
    which: ActArgs,
}

/// Arguments of `redrive`.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "every flag is one")]
pub(crate) struct RedriveArgs {
    /// Run every step again instead of continuing after the last checkpoint; for ids
    #[arg(long)]
    reset_checkpoints: bool,
    /// Run this saved step and those after it again, and keep the steps before it; for a single id
    #[arg(long, value_name = "STEP", conflicts_with = "reset_checkpoints")]
    from_step: Option<String>,
    /// Refuse jobs that were redriven already; for ids
    #[arg(long)]
    only_once: bool,
    /// Version that the new job requires of its worker, in place of the old one's; for ids
    #[arg(long, value_name = "VERSION", conflicts_with = "any_version")]
    requires_version: Option<Text<WorkerVersion>>,
    /// Let workers of any version receive the new job; for ids
    #[arg(long)]
    any_version: bool,
    /// Payload of the new job: JSON, or @FILE, or - for standard input; for a single id
    #[arg(long, value_name = "JSON", conflicts_with = "edit")]
    payload: Option<String>,
    /// Content type of --payload, if it is not JSON
    #[arg(long, value_name = "MIME", requires = "payload")]
    content_type: Option<String>,
    /// Edit the payload in $VISUAL or $EDITOR first; for a single id
    #[arg(long)]
    edit: bool,
    #[command(flatten)]
    which: ActArgs,
}

/// An action with its request.
enum Action {
    Suspend(SuspendBody),
    Resume(ReasonBody),
    Cancel(ReasonBody),
    Priority(PriorityBody),
    Redrive(RedriveBody),
    Delete,
}

impl Action {
    fn action(&self) -> JobAction {
        match self {
            Action::Suspend(_) => JobAction::Suspend,
            Action::Resume(_) => JobAction::Resume,
            Action::Cancel(_) => JobAction::Cancel,
            Action::Priority(_) => JobAction::Priority,
            Action::Redrive(_) => JobAction::Redrive,
            Action::Delete => JobAction::Delete,
        }
    }

    /// What happened to the jobs.
    fn done(&self) -> &'static str {
        match self {
            Action::Suspend(_) => "suspended",
            Action::Resume(_) => "resumed",
            Action::Cancel(_) => "cancelled",
            Action::Priority(_) => "changed",
            Action::Redrive(_) => "redriven",
            Action::Delete => "deleted",
        }
    }

    /// The request for one job.
    fn call(&self, id: &str) -> Call {
        let call = Call::post(&["jobs", id, self.action().as_str()]);
        match self {
            Action::Suspend(body) => call.json(body),
            Action::Resume(body) | Action::Cancel(body) => call.json(body),
            Action::Priority(body) => call.json(body),
            Action::Redrive(body) => call.json(body),
            Action::Delete => Call::delete(&["jobs", id]),
        }
    }

    /// The request for all jobs that match a filter. Some flags work on single jobs only.
    fn bulk(&self, filter: JobFilter) -> anyhow::Result<BulkBody> {
        let alone = match self {
            Action::Suspend(body) => vec![("--expires", body.expires.is_some())],
            Action::Redrive(body) => {
                let has_version = !body.requires_version.is_kept();
                vec![
                    ("--only-once", body.only_once),
                    ("--reset-checkpoints", body.reset_checkpoints),
                    ("--requires-version and --any-version", has_version),
                ]
            }
            _ => Vec::new(),
        };
        let alone: Vec<&str> =
            alone.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| *flag).collect();
        if !alone.is_empty() {
            return Err(Failure::usage(format!("{} works on single jobs only", alone.join(", "))));
        }
        let body = BulkBody::new(self.action(), filter);
        Ok(match self {
            Action::Suspend(how) => BulkBody { reason: how.reason.clone(), mode: how.mode, ..body },
            Action::Resume(why) | Action::Cancel(why) => BulkBody { reason: why.reason.clone(), ..body },
            Action::Priority(to) => BulkBody { value: Some(to.value), ..body },
            Action::Redrive(_) | Action::Delete => body,
        })
    }
}

pub(crate) async fn suspend(args: &SuspendArgs) -> anyhow::Result<ExitCode> {
    let mode = args.mode.map(|mode| match mode {
        Mode::IdleOnly => SuspendParam::IdleOnly,
        Mode::Graceful => SuspendParam::Graceful,
        Mode::Aggressive => SuspendParam::Aggressive,
    });
    let expires = args.expires.map(Expiry::After);
    run(&args.which, Action::Suspend(SuspendBody { reason: args.reason.clone(), mode, expires })).await
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
    run(&args.which, Action::Resume(ReasonBody { reason: args.reason.clone() })).await
}

pub(crate) async fn cancel(args: &ReasonedArgs) -> anyhow::Result<ExitCode> {
    run(&args.which, Action::Cancel(ReasonBody { reason: args.reason.clone() })).await
}

pub(crate) async fn priority(args: &PriorityArgs) -> anyhow::Result<ExitCode> {
    run(&args.which, Action::Priority(PriorityBody { value: args.value })).await
}

pub(crate) async fn redrive(args: &RedriveArgs) -> anyhow::Result<ExitCode> {
    let RedriveArgs { reset_checkpoints, only_once, .. } = *args;
    let from_step = args.from_step.clone();
    let requires_version = match &args.requires_version {
        Some(version) => Field::Set(version.clone()),
        None if args.any_version => Field::Clear,
        None => Field::Keep,
    };
    let mut body =
        RedriveBody { reset_checkpoints, only_once, from_step, requires_version, ..RedriveBody::default() };
    if args.payload.is_none() && !args.edit && args.from_step.is_none() {
        return run(&args.which, Action::Redrive(body)).await;
    }
    let [id] = args.which.ids.as_slice() else {
        return Err(Failure::usage("--from-step, --payload and --edit require a single job id"));
    };
    if let Some(payload) = &args.payload {
        edit::set_payload(&mut body, &content(payload)?, args.content_type.as_deref())?;
    } else if args.edit {
        let client = args.which.connect.client()?;
        let id = client.job_id(id).await?;
        if !edit::edit(&client, &id, &mut body).await? {
            output::note("the payload was not changed; nothing was retried");
            return Ok(Exit::No.into());
        }
    }
    run(&args.which, Action::Redrive(body)).await
}

pub(crate) async fn delete(args: &ActArgs) -> anyhow::Result<ExitCode> {
    run(args, Action::Delete).await
}

async fn run(which: &ActArgs, action: Action) -> anyhow::Result<ExitCode> {
    let chosen = [!which.ids.is_empty(), !which.filter.is_empty(), which.all];
    match chosen.iter().filter(|is_given| **is_given).count() {
        1 => {}
        0 => {
            return Err(Failure::usage("which jobs? give ids, a filter or --all"));
        }
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
async fn each(client: &ServerClient, which: &ActArgs, action: &Action) -> anyhow::Result<ExitCode> {
    if matches!(action, Action::Delete) && !which.yes && !which.dry_run && can_ask() {
        let what = match which.ids.as_slice() {
            [id] => format!("job {}", client.job_id(id).await?),
            ids => counted(ids.len() as u64, "job"),
        };
        if !confirmed(&format!("delete {what} with payload, result and log?"))? {
            output::note("nothing was changed");
            return Ok(Exit::No.into());
        }
    }
    let mut first_failure = None;
    for text in &which.ids {
        match act_on_job(client, which, action, text).await {
            Ok(()) => {}
            Err(error) if which.ids.len() == 1 => return Err(error),
            Err(error) => {
                output::complain(&format!("{}: {error:#}", output::escaped(text)));
                first_failure.get_or_insert(Exit::from_error(&error));
            }
        }
    }
    Ok(first_failure.unwrap_or(Exit::Done).into())
}

async fn act_on_job(
    client: &ServerClient,
    which: &ActArgs,
    action: &Action,
    text: &str,
) -> anyhow::Result<()> {
    let id = client.job_id(text).await?;
    if which.dry_run {
        if let Some(job) = client.show::<Job>(Call::get(&["jobs", &id])).await? {
            output::line(&format!("{id}  {}", Paint::for_data().state(job.state.0)))?;
        }
        return Ok(());
    }
    let call = action.call(&id).if_match(required_version(which.if_match.as_deref())?);
    if matches!(action, Action::Delete) {
        client.send(call).await?;
        return if which.connect.json {
            output::json(&json!({"id": id, "deleted": true}))
        } else {
            output::line(&format!("{id}  deleted"))
        };
    }
    let Some(ActionResponse::<Job> { object: job, changed }) = client.show(call).await? else {
        return Ok(());
    };
    let state = Paint::for_data().state(job.state.0);
    let is_held = job.state.0 == JobState::Created && matches!(action, Action::Resume(_));
    output::line(&match action {
        // The response describes the new job; its id is printed first.
        Action::Redrive(_) => format!("{}  {state}, retry of {id}", job.id),
        _ if !changed => format!("{id}  {state}, unchanged"),
        Action::Priority(_) => format!("{id}  {state}, priority {}", job.priority),
        _ => format!("{id}  {state}"),
    })?;
    if is_held {
        output::note(&format!("it is on hold, not suspended; `windlass release {id}` lets it run"));
    }
    Ok(())
}

/// Acts on all matching jobs, after counting them and asking for confirmation.
async fn many(client: &ServerClient, which: &ActArgs, action: &Action) -> anyhow::Result<ExitCode> {
    let body = action.bulk(which.filter.filter(client).await?)?;
    let answer = client.send(bulk(&BulkBody { dry_run: true, ..body.clone() })).await?;
    let matched = answer.read::<BulkAnswer>()?.matched;
    if which.dry_run {
        if which.connect.json {
            answer.print()?;
        } else {
            output::line(&format!("{} fit", counted(matched, "job")))?;
        }
        return Ok(Exit::Done.into());
    }
    let question = format!("{} {}?", action.action().as_str(), counted(matched, "job"));
    if matched > 0 && !which.yes && !confirmed(&question)? {
        output::note("nothing was changed");
        return Ok(Exit::No.into());
    }
    let mut totals = BulkAnswer { matched: 0, changed: 0, skipped: 0, next_cursor: None };
    let progress = Progress::start("jobs", Some(matched)).unless(which.connect.json);
    let done = in_parts(client, body, &mut totals, progress).await;
    if done.is_err() && totals.changed > 0 {
        output::note(&format!(
            "{} {} before the interruption",
            counted(totals.changed, "job"),
            action.done()
        ));
    }
    done?;
    let BulkAnswer { matched, changed, skipped, .. } = totals;
    if which.connect.json {
        output::json(&serde_json::to_value(&totals)?)?;
    } else {
        output::line(&format!("{} of {} {}", grouped(changed), counted(matched, "job"), action.done()))?;
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

fn bulk(body: &BulkBody) -> Call {
    Call::post(&["jobs", "bulk"]).json(body).waiting(CLIENT_BULK_TIME_MAX)
}

/// Runs the action in chunks, to show progress and to stop on Ctrl-C.
async fn in_parts(
    client: &ServerClient,
    mut body: BulkBody,
    totals: &mut BulkAnswer,
    mut progress: Progress,
) -> anyhow::Result<()> {
    // Redriven jobs still match the filter: a restart after Ctrl-C would redrive them twice. One request covers them all.
    body.limit = (body.action != JobAction::Redrive).then_some(CLIENT_BULK_JOBS);
    loop {
        let answer: BulkAnswer = client.ask(bulk(&body)).await?;
        totals.matched += answer.matched;
        totals.changed += answer.changed;
        totals.skipped += answer.skipped;
        progress.set(totals.matched);
        body.cursor = answer.next_cursor;
        if body.cursor.is_none() {
            return Ok(());
        }
    }
}

/// Whether a person can be asked.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for confirmation. Fails if there is no terminal to ask on.
pub(crate) fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !can_ask() {
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
