//! `windlass retention`: how long a store keeps final jobs whose type and queue have no retention of their own.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::commands::manage::settings::Changes;
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::text::field;

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

/// Names in the API and in the output.
const STATES: [(&str, &str); 4] = [
    ("completed", "completed"),
    ("failed", "failed"),
    ("dead_letter", "dead letters"),
    ("cancelled", "cancelled"),
];

pub(crate) async fn retention(args: &RetentionArgs) -> anyhow::Result<ExitCode> {
    let (connect, call) = match &args.command {
        None => (&args.connect, Call::get(&["retention"])),
        Some(RetentionCommand::Show(connect)) => (connect, Call::get(&["retention"])),
        Some(RetentionCommand::Set(args)) => {
            let mut changes = Changes::default();
            changes.span("completed", args.completed.as_ref())?;
            changes.span("failed", args.failed.as_ref())?;
            changes.span("dead_letter", args.dead_letter.as_ref())?;
            changes.span("cancelled", args.cancelled.as_ref())?;
            (&args.connect, Call::put(&["retention"]).json(&changes.body("retention")?))
        }
    };
    let found = connect.client()?.value(call).await?;
    if connect.json {
        output::json(&found)?;
    } else {
        for (name, shown) in STATES {
            output::line(&format!("{shown:<12}  {}", field(&found[name])))?;
        }
    }
    Ok(Exit::Done.into())
}
