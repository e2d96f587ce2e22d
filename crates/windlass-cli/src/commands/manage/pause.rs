//! `windlass pause` and `windlass resume` for queues, workers, types and tenants.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;
use windlass::job::{JobType, Tenant};
use windlass::settings::PauseMode;
use windlass_api::actions::{ActionResponse, ReasonBody};
use windlass_api::expires::Expiry;
use windlass_api::pause::{GateResponse, OfflineBody, OnlineBody, PauseBody};
use windlass_api::queue::{QueueResponse, ResumeBody};
use windlass_api::text::Text;
use windlass_api::time::Span;
use windlass_api::worker::Worker;

use crate::commands::manage::named::must_be_known;
use crate::connection::client::{Call, ServerClient};
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
    mode: Option<Mode>,
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
enum Mode {
    /// Let running jobs finish
    Graceful,
    /// Stop running jobs and suspend them
    Aggressive,
}

pub(crate) async fn pause(args: &PauseArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let (kind, name, reason) = (args.kind, args.name.as_str(), args.reason.clone());
    let mode = args.mode.map(|mode| match mode {
        Mode::Graceful => PauseMode::Graceful,
        Mode::Aggressive => PauseMode::Aggressive,
    });
    if mode.is_some() && matches!(kind, Kind::Type | Kind::Tenant) {
        return Err(Failure::usage("--mode is for queues and workers"));
    }
    if let Some(plural) = plural(kind) {
        must_be_known(&client, (kind_word(kind), plural), name, args.create).await?;
    }
    let expires = args.expires.map(Expiry::After);
    let call = |path: &[&str]| Call::post(path).json(&PauseBody { mode, reason: reason.clone(), expires });
    let done = match kind {
        Kind::Queue => done::<QueueResponse>(&client, call(&["queues", name, "pause"])).await?,
        Kind::Worker => {
            let id = worker_id(&client, name).await?;
            done::<ActionResponse<Worker>>(&client, call(&["workers", &id, "pause"])).await?
        }
        // Types and tenants are paused through `/gate`.
        Kind::Type | Kind::Tenant => {
            let (tenant, r#type) = scope(kind, name)?;
            let body = OfflineBody { reason, tenant, r#type, expires };
            done::<GateResponse>(&client, Call::post(&["gate", "offline"]).json(&body)).await?
        }
    };
    if let Some(done) = done {
        done.print(kind, name, "paused")?;
        output::note(&format!("`windlass resume {} {name}` resumes it", kind_word(kind)));
    }
    Ok(Exit::Done.into())
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
    let (client, reason) = (connect.client()?, reason.map(str::to_owned));
    let done = match kind {
        Kind::Queue => {
            let call = Call::post(&["queues", name, "resume"]).json(&ResumeBody { reason, jobs });
            done::<QueueResponse>(&client, call).await?
        }
        Kind::Worker => {
            let id = worker_id(&client, name).await?;
            let call = Call::post(&["workers", &id, "resume"]).json(&ReasonBody { reason });
            done::<ActionResponse<Worker>>(&client, call).await?
        }
        Kind::Type | Kind::Tenant => {
            let (tenant, r#type) = scope(kind, name)?;
            let body = OnlineBody { reason, tenant, r#type };
            done::<GateResponse>(&client, Call::post(&["gate", "online"]).json(&body)).await?
        }
    };
    if let Some(done) = done {
        done.print(kind, name, "not paused")?;
    }
    Ok(Exit::Done.into())
}

/// The tenant or the type with this name.
#[allow(clippy::type_complexity, reason = "one of two names, as the request has them")]
fn scope(kind: Kind, name: &str) -> anyhow::Result<(Option<Text<Tenant>>, Option<Text<JobType>>)> {
    let wrong = |problem: String| Failure::usage(format!("the {} {problem}", kind_word(kind)));
    match kind {
        Kind::Tenant => Ok((Some(name.parse().map_err(wrong)?), None)),
        _ => Ok((None, Some(name.parse().map_err(wrong)?))),
    }
}

/// The result of a pause or resume.
struct PauseReport {
    is_changed: bool,
    /// The full id of a worker.
    id: Option<String>,
    jobs_resumed: Option<u64>,
}

impl From<QueueResponse> for PauseReport {
    fn from(acted: QueueResponse) -> PauseReport {
        PauseReport { is_changed: acted.changed, id: None, jobs_resumed: acted.jobs_resumed }
    }
}

impl From<ActionResponse<Worker>> for PauseReport {
    fn from(acted: ActionResponse<Worker>) -> PauseReport {
        PauseReport { is_changed: acted.changed, id: Some(acted.object.id.to_string()), jobs_resumed: None }
    }
}

impl From<GateResponse> for PauseReport {
    fn from(acted: GateResponse) -> PauseReport {
        PauseReport { is_changed: acted.changed, id: None, jobs_resumed: None }
    }
}

async fn done<T: DeserializeOwned + Into<PauseReport>>(
    client: &ServerClient,
    call: Call,
) -> anyhow::Result<Option<PauseReport>> {
    Ok(client.show::<T>(call).await?.map(Into::into))
}

impl PauseReport {
    fn print(&self, kind: Kind, name: &str, state: &str) -> anyhow::Result<()> {
        let already = if self.is_changed { "" } else { ", as before" };
        let name = self.id.as_deref().unwrap_or(name);
        output::line(&format!("{} {name}: {state}{already}", kind_word(kind)))?;
        if let Some(count) = self.jobs_resumed {
            output::line(&format!("{} resumed", counted(count, "job")))?;
        }
        Ok(())
    }
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
async fn worker_id(client: &ServerClient, text: &str) -> anyhow::Result<String> {
    let workers: Vec<Worker> = client.all("workers").await?;
    let ids = workers.iter().map(|worker| (&worker.name, worker.id.to_string()));
    let fits = |name: &str, id: &str| name == text || (!text.is_empty() && id.starts_with(text));
    let found: Vec<String> = ids.filter(|(name, id)| fits(name, id)).map(|(_, id)| id).collect();
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
