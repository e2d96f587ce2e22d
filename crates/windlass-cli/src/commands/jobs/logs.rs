//! `windlass logs`: prints a job's log, and follows it. The job's events tell when its state changed. Log lines are not
//! events, so the log is polled while the job runs, and only then.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::connection::client::{Call, Client};
use crate::connection::connect::ConnectArgs;
use crate::connection::reconnect::JobEventStream;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::limits::LOG_POLL_INTERVAL;
use crate::output::color::Paint;
use crate::output::text::{field, moment};
use crate::output::{self, escaped};

/// Arguments of `logs`.
#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Job id, or a prefix or suffix of one that matches one job
    id: String,
    /// Follow the log until the job is final
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What was printed so far.
struct Printed {
    is_json: bool,
    paint: Paint,
    /// The number of the last printed line.
    after: u64,
    count: u64,
}

pub(crate) async fn logs(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let mut printed = Printed { is_json: args.connect.json, paint: Paint::for_data(), after: 0, count: 0 };
    if args.follow {
        follow(&client, &id, &mut printed).await?;
    } else {
        printed.print(&lines(&client, &id, 0).await?)?;
    }
    if printed.count == 0 && !args.connect.json {
        output::note("the log is empty");
    }
    Ok(Exit::Done.into())
}

/// Prints lines until the job is final.
async fn follow(client: &Client, id: &str, printed: &mut Printed) -> anyhow::Result<()> {
    let mut changes = JobEventStream::open(client, id).await?;
    loop {
        // The state is read before the lines, so that no line written before the end is missed.
        let looked = client.value(Call::get(&["jobs", id])).await;
        let Some(job) = changes.retry_while_away(looked).await? else { continue };
        let found = lines(client, id, printed.after).await;
        let Some(found) = changes.retry_while_away(found).await? else { continue };
        printed.print(&found)?;
        if job["completed_at"].is_string() {
            return Ok(());
        }
        changes.wait((job["state"] == "running").then_some(LOG_POLL_INTERVAL)).await?;
    }
}

async fn lines(client: &Client, id: &str, after: u64) -> Result<Value, Failure> {
    client.value(Call::get(&["jobs", id, "logs"]).query("after", after.to_string())).await
}

impl Printed {
    fn print(&mut self, found: &Value) -> anyhow::Result<()> {
        for line in found["logs"].as_array().map_or(&[][..], Vec::as_slice) {
            self.after = line["number"].as_u64().unwrap_or(self.after);
            self.count += 1;
            if self.is_json {
                output::json(line)?;
                continue;
            }
            let head = format!("{} #{}", moment(&field(&line["at"])), line["attempt"]);
            output::line(&format!("{}  {}", self.paint.faint(&head), escaped(&field(&line["text"]))))?;
        }
        Ok(())
    }
}
