//! `windlass pause` and `windlass resume` for queues, workers, types and tenants.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use windlass_api::time::Span;

use crate::commands::manage::operations::must_be_known;
use crate::connection::client::{Call, Client};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output;
use crate::output::text::counted;

/// Arguments of `pause`.
#[derive(Args)]
pub(crate) struct PauseArgs {
    /// What to pause
    kind: Kind,
    /// Its name; for a worker also a prefix of its id
    name: String,
    /// Reason, for other operators
    #[arg(long)]
    reason: Option<String>,
    /// What happens to running jobs; for queues and workers
    #[arg(long)]
    mode: Option<PauseMode>,
    /// Resume automatically after this time
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    /// Pause it even if no job, setting or worker uses this name yet
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What can be paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Queue,
    Worker,
    Type,
    Tenant,
}

#[derive(Clone, Copy, ValueEnum)]
enum PauseMode {
    /// Let running jobs finish
    Graceful,
    /// Stop running jobs and suspend them
    Aggressive,
}

pub(crate) async fn pause(args: &PauseArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let mut body = Map::new();
    body.extend(args.reason.clone().map(|reason| ("reason".to_owned(), reason.into())));
    body.extend(args.expires.map(|span| ("expires".to_owned(), span.to_string().into())));
    if let Some(mode) = args.mode {
        if matches!(args.kind, Kind::Type | Kind::Tenant) {
            return Err(Failure::usage("--mode is for queues and workers"));
        }
        let word = match mode {
            PauseMode::Graceful => "graceful",
            PauseMode::Aggressive => "aggressive",
        };
        body.insert("mode".into(), word.into());
    }
    if let Some(plural) = plural(args.kind) {
        must_be_known(&client, (kind_word(args.kind), plural), &args.name, args.create).await?;
    }
    act(&client, args.kind, &args.name, true, body, args.connect.json).await
}

/// Resumes a queue, worker, type or tenant.
pub(crate) async fn resume(
    kind: Kind,
    name: &str,
    reason: Option<&str>,
    jobs: bool,
    connect: &ConnectArgs,
) -> anyhow::Result<ExitCode> {
    if jobs && kind != Kind::Queue {
        return Err(Failure::usage("--jobs is for `resume queue NAME`"));
    }
    let mut body: Map<String, Value> =
        reason.map(|reason| ("reason".to_owned(), Value::from(reason))).into_iter().collect();
    if jobs {
        body.insert("jobs".into(), true.into());
    }
    act(&connect.client()?, kind, name, false, body, connect.json).await
}

async fn act(
    client: &Client,
    kind: Kind,
    name: &str,
    is_pause: bool,
    mut body: Map<String, Value>,
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let (word, gate) = if is_pause { ("pause", "offline") } else { ("resume", "online") };
    let mut named = name.to_owned();
    let call = match kind {
        Kind::Queue => Call::post(&["queues", name, word]),
        Kind::Worker => {
            named = worker_id(client, name).await?;
            Call::post(&["workers", &named, word])
        }
        // Types and tenants are paused through `/gate`.
        Kind::Type | Kind::Tenant => {
            body.insert(kind_word(kind).to_owned(), name.into());
            Call::post(&["gate", gate])
        }
    };
    let answer = client.value(call.json(&body)).await?;
    if is_json {
        output::json(&answer)?;
    } else {
        let already = if answer["changed"] == false { ", as before" } else { "" };
        let state = if is_pause { "paused" } else { "not paused" };
        output::line(&format!("{} {named}: {state}{already}", kind_word(kind)))?;
        if let Some(count) = answer["jobs_resumed"].as_u64() {
            output::line(&format!("{} resumed", counted(count, "job")))?;
        }
        if is_pause {
            output::note(&format!("`windlass resume {} {name}` resumes it", kind_word(kind)));
        }
    }
    Ok(Exit::Done.into())
}

/// The API's path for kinds whose names exist once they are used.
fn plural(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Queue => Some("queues"),
        Kind::Type => Some("types"),
        Kind::Tenant => Some("tenants"),
        Kind::Worker => None,
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Queue => "queue",
        Kind::Worker => "worker",
        Kind::Type => "type",
        Kind::Tenant => "tenant",
    }
}

/// The full id of a worker, from its name or a prefix of its id.
async fn worker_id(client: &Client, text: &str) -> anyhow::Result<String> {
    let all = client.whole("workers").await?;
    let workers = all["workers"].as_array().map_or(&[][..], Vec::as_slice);
    let id = |worker: &Value| worker["id"].as_str().unwrap_or_default().to_owned();
    let fits = |worker: &&Value| worker["name"] == text || (!text.is_empty() && id(worker).starts_with(text));
    let found: Vec<String> = workers.iter().filter(fits).map(id).collect();
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::NotFound(format!(
            "no worker `{}`; `windlass workers` lists them",
            output::escaped(text)
        ))
        .into()),
        several => {
            let all = several.join("\n  ");
            Err(Failure::NotFound(format!("`{text}` matches several workers:\n  {all}")).into())
        }
    }
}
