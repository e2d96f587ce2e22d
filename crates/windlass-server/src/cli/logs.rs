//! `windlass logs`: what a job wrote, and what it goes on to write.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::client::Call;
use super::connect::ConnectArgs;
use super::exit::Exit;
use super::output::{self, escaped};
use super::paint::Paint;
use super::text::{field, moment};
use crate::limits::LOG_LOOK_EVERY;

/// Whose log.
#[derive(Args)]
pub(super) struct LogsArgs {
    /// Its id, or a beginning or end of it that fits one job
    id: String,
    /// Go on until the job is over
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) async fn logs(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let (paint, mut after, mut count) = (Paint::for_data(), 0, 0);
    loop {
        // Asked before the lines, so that nothing written before the end is missed.
        let is_over =
            !args.follow || client.value(Call::get(&["jobs", &id])).await?["completed_at"].is_string();
        let found = client.value(Call::get(&["jobs", &id, "logs"]).query("after", after.to_string())).await?;
        for line in found["logs"].as_array().map_or(&[][..], Vec::as_slice) {
            after = line["number"].as_u64().unwrap_or(after);
            count += 1;
            print(line, args.connect.json, paint)?;
        }
        if is_over {
            break;
        }
        tokio::time::sleep(LOG_LOOK_EVERY).await;
    }
    if count == 0 && !args.connect.json {
        output::note("it wrote nothing");
    }
    Ok(Exit::Done.into())
}

fn print(line: &Value, is_json: bool, paint: Paint) -> anyhow::Result<()> {
    if is_json {
        return output::json(line);
    }
    let head = format!("{} #{}", moment(&field(&line["at"])), line["attempt"]);
    output::line(&format!("{}  {}", paint.faint(&head), escaped(&field(&line["text"]))))
}
