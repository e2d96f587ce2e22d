//! `windlass signal`: sends a signal to a job; `windlass token`: makes a token that reads one; and `windlass release`:
//! schedules jobs that were submitted with `--hold`.

use std::process::ExitCode;

use clap::Args;
use windlass_api::actions::{ActionResponse, SignalBody, SignalReceipt};
use windlass_api::job::Job;
use windlass_api::job::details::{Token, TokenBody};
use windlass_api::json::Json;
use windlass_api::time::Span;

use crate::commands::jobs::submit::content;
use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::Paint;
use crate::output::text::ago;

/// Arguments of `signal`.
#[derive(Args)]
pub(crate) struct SignalArgs {
    /// Job id, or a prefix or suffix of an id that matches one job
    id: String,
    /// The signal's name, as the job waits for it
    name: String,
    /// Value: JSON, or @FILE, or - for standard input; null if not given
    #[arg(value_name = "JSON")]
    value: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `token`.
#[derive(Args)]
pub(crate) struct TokenArgs {
    /// Job id, or a prefix or suffix of an id that matches one job
    id: String,
    /// How long the token is valid, at most 24h
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    expires: Span,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `release`.
#[derive(Args)]
pub(crate) struct ReleaseArgs {
    /// Job ids, or a prefix or suffix of an id that matches one job
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn signal(args: &SignalArgs) -> anyhow::Result<ExitCode> {
    let value =
        args.value.as_deref().map(content).transpose()?.map(|bytes| json_value(&bytes)).transpose()?;
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let call = Call::post(&["jobs", &id, "signals", &args.name]).json(&SignalBody { value });
    if let Some(SignalReceipt { id, signal }) = client.show(call).await? {
        output::line(&format!("{id}  {} sent", output::escaped(&signal)))?;
    }
    Ok(Exit::Done.into())
}

/// Prints the token alone, so that a script can pass it on.
pub(crate) async fn token(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let call = Call::post(&["jobs", &id, "tokens"]).json(&TokenBody { expires: Some(args.expires) });
    if let Some(Token { token, expires_at }) = client.show(call).await? {
        output::note(&format!("reads job {id} and its result, ends {}", ago(expires_at, client.now())));
        output::line(&token)?;
    }
    Ok(Exit::Done.into())
}

fn json_value(bytes: &[u8]) -> anyhow::Result<Json> {
    let refused = |error| {
        let quoted = "quote a JSON string as '\"like this\"'";
        Failure::usage(format!("the value is not JSON ({error}); {quoted}"))
    };
    serde_json::from_slice(bytes).map(Json).map_err(refused)
}

pub(crate) async fn release(args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let mut first_failure = None;
    for text in &args.ids {
        match release_job(&client, text).await {
            Ok(()) => {}
            Err(error) if args.ids.len() == 1 => return Err(error),
            Err(error) => {
                output::note(&format!("{}: {error:#}", output::escaped(text)));
                first_failure.get_or_insert(Exit::from_error(&error));
            }
        }
    }
    Ok(first_failure.unwrap_or(Exit::Done).into())
}

async fn release_job(client: &ServerClient, text: &str) -> anyhow::Result<()> {
    let id = client.job_id(text).await?;
    let answer = client.show(Call::post(&["jobs", &id, "submit"])).await?;
    let Some(ActionResponse::<Job> { object: job, .. }) = answer else { return Ok(()) };
    output::line(&format!("{id}  {}", Paint::for_data().state(job.state.0)))
}
