//! `windlass gate`: whether jobs are processed at all.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass::clock::Timestamp;
use windlass_api::expires::Expiry;
use windlass_api::pause::{Gate, OfflineBody};
use windlass_api::time::{Moment, Span};

use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::text::ago;
use crate::output::{self, escaped};

/// Arguments of `gate`.
#[derive(Args)]
pub(crate) struct GateArgs {
    #[command(subcommand)]
    command: Option<GateCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum GateCommand {
    /// Show whether processing is paused
    Show(ConnectArgs),
    /// Pause all job processing
    Close {
        /// Reason, for other operators
        #[arg(long)]
        reason: Option<String>,
        /// Resume automatically after this time
        #[arg(long, value_name = "DURATION")]
        expires: Option<Span>,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Resume job processing
    Open(ConnectArgs),
}

pub(crate) async fn gate(args: &GateArgs) -> anyhow::Result<ExitCode> {
    let (connect, call) = match &args.command {
        None => (&args.connect, Call::get(&["gate"])),
        Some(GateCommand::Show(connect)) => (connect, Call::get(&["gate"])),
        Some(GateCommand::Open(connect)) => (connect, Call::post(&["gate", "online"])),
        Some(GateCommand::Close { reason, expires, connect }) => {
            let expires = expires.map(Expiry::After);
            let body = OfflineBody { reason: reason.clone(), expires, ..OfflineBody::default() };
            (connect, Call::post(&["gate", "offline"]).json(&body))
        }
    };
    let client = connect.client()?;
    let Some(gate) = client.show::<Gate>(call).await? else { return Ok(Exit::Done.into()) };
    let (paint, now) = (Paint::for_data(), client.now());
    let paused = paint.paint("paused", Some(Colour::Bad));
    if gate.online {
        output::line(&paint.paint("on", Some(Colour::Good)))?;
    } else {
        let how = hold(gate.since, gate.by.as_deref(), gate.expires_at, gate.reason.as_deref(), now);
        output::line(&format!("{paused} {how}"))?;
    }
    for scope in gate.scopes {
        let (job_type, tenant) = (
            scope.r#type.map(|name| format!("type {name}")),
            scope.tenant.map(|name| format!("tenant {name}")),
        );
        let what = [job_type, tenant].into_iter().flatten().collect::<Vec<_>>().join(" of ");
        let how = hold(Some(scope.since), Some(&scope.by), scope.expires_at, scope.reason.as_deref(), now);
        output::line(&format!("{paused} for {} {how}", escaped(&what)))?;
    }
    Ok(Exit::Done.into())
}

/// Since when, by whom, until when and why processing is paused.
fn hold(
    since: Option<Moment>,
    by: Option<&str>,
    until: Option<Moment>,
    reason: Option<&str>,
    now: Timestamp,
) -> String {
    let since = since.map_or_else(|| "-".to_owned(), |since| ago(since, now));
    let until = until.map(|until| format!(", resumes {}", ago(until, now))).unwrap_or_default();
    let reason = reason.map(|reason| format!(": {}", escaped(reason))).unwrap_or_default();
    format!("{since} by {}{until}{reason}", escaped(by.unwrap_or("-")))
}
