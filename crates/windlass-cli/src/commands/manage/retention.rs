//! `windlass retention`: how long a store keeps final jobs whose type and queue have no retention of their own.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass_api::retention::{RetentionBody, RetentionView};

use crate::commands::manage::settings::{is_empty, nothing_to_set, span};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::text::or_dash;

/// Arguments of `retention`.
#[derive(Args)]
pub(crate) struct RetentionArgs {
    #[command(subcommand)]
    command: Option<RetentionCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum RetentionCommand {
    /// Show how long jobs are kept, by final state
    Show(ConnectArgs),
    /// Change it for all servers of the store; values that are not given stay
    ///
    /// Applies at once, also to jobs that are final already. `none` returns to the value the server was started with.
    /// Queues and types can have their own retention, see `windlass queues set` and `windlass types set`.
    Set(SetArgs),
}

#[derive(Args)]
struct SetArgs {
    /// Completed jobs
    #[arg(long, value_name = "DURATION")]
    completed: Option<String>,
    /// Failed jobs
    #[arg(long, value_name = "DURATION")]
    failed: Option<String>,
    /// Dead letters
    #[arg(long, value_name = "DURATION")]
    dead_letter: Option<String>,
    /// Cancelled jobs
    #[arg(long, value_name = "DURATION")]
    cancelled: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn retention(args: &RetentionArgs) -> anyhow::Result<ExitCode> {
    let (connect, call) = match &args.command {
        None => (&args.connect, Call::get(&["retention"])),
        Some(RetentionCommand::Show(connect)) => (connect, Call::get(&["retention"])),
        Some(RetentionCommand::Set(args)) => {
            let body = RetentionBody {
                completed: span(args.completed.as_ref())?,
                failed: span(args.failed.as_ref())?,
                dead_letter: span(args.dead_letter.as_ref())?,
                cancelled: span(args.cancelled.as_ref())?,
            };
            if is_empty(&body) {
                return Err(nothing_to_set("retention"));
            }
            (&args.connect, Call::put(&["retention"]).json(&body))
        }
    };
    if let Some(kept) = connect.client()?.show::<RetentionView>(call).await? {
        let RetentionView { completed, failed, dead_letter, cancelled } = kept;
        let all = [
            ("completed", completed),
            ("failed", failed),
            ("dead letters", dead_letter),
            ("cancelled", cancelled),
        ];
        for (name, time) in all {
            output::line(&format!("{name:<12}  {}", or_dash(time)))?;
        }
    }
    Ok(Exit::Done.into())
}
