//! `windlass logs`: prints the log of a job or of several, and follows it. The job's events tell when its state changed. Log lines are not
//! events, so the log is polled while the job runs, and only then.

mod several;

use std::process::ExitCode;

use clap::Args;
use serde_json::value::RawValue;
use windlass::job::JobState;
use windlass_api::job::Job;
use windlass_api::job_details::LogLine;

use self::several::SeveralArgs;
use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::connection::reconnect::JobEventStream;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::limits::LOG_POLL_INTERVAL;
use crate::output::color::Paint;
use crate::output::text::moment;
use crate::output::{self, escaped};

/// Arguments of `logs`.
#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Job id, or a prefix or suffix of one that matches one job
    #[arg(required_unless_present_any = ["job_type", "queue", "tenant"], conflicts_with_all = ["job_type", "queue", "tenant"])]
    id: Option<String>,
    /// Follow the log until the job is final; of several jobs those that run, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    several: SeveralArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What was printed so far.
struct PrintState {
    is_json: bool,
    paint: Paint,
    /// The number of the last printed line.
    after: u64,
    count: u64,
}

pub(crate) async fn logs(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let Some(id) = &args.id else {
        if args.follow {
            several::follow(&client, &args.several, args.connect.json).await?;
        } else if several::print(&client, &args.several, args.connect.json).await? == 0 && !args.connect.json
        {
            output::note("these jobs have written nothing");
        }
        return Ok(Exit::Done.into());
    };
    let id = client.job_id(id).await?;
    let mut printed = PrintState { is_json: args.connect.json, paint: Paint::for_data(), after: 0, count: 0 };
    if args.follow {
        follow(&client, &id, &mut printed).await?;
    } else {
        printed.print(lines(&client, &id, 0).await?)?;
    }
    if printed.count == 0 && !args.connect.json {
        output::note("the log is empty");
    }
    Ok(Exit::Done.into())
}

/// Prints lines until the job is final.
async fn follow(client: &ServerClient, id: &str, printed: &mut PrintState) -> anyhow::Result<()> {
    let mut changes = JobEventStream::open(client, id).await?;
    loop {
        // The state is read before the lines, so that no line written before the end is missed.
        let looked = client.ask::<Job>(Call::get(&["jobs", id])).await;
        let Some(job) = changes.retry_while_unavailable(looked).await? else { continue };
        let found = lines(client, id, printed.after).await;
        let Some(found) = changes.retry_while_unavailable(found).await? else { continue };
        printed.print(found)?;
        if job.completed_at.is_some() {
            return Ok(());
        }
        changes.wait((job.state.0 == JobState::Running).then_some(LOG_POLL_INTERVAL)).await?;
    }
}

async fn lines(client: &ServerClient, id: &str, after: u64) -> Result<Vec<Box<RawValue>>, Failure> {
    let call = Call::get(&["jobs", id, "logs"]).query("after", after.to_string());
    Ok(client.page(call, "logs").await?.items)
}

impl PrintState {
    fn print(&mut self, lines: Vec<Box<RawValue>>) -> anyhow::Result<()> {
        for line in lines {
            let LogLine { number, at, attempt, text } = serde_json::from_str(line.get())?;
            self.after = number;
            self.count += 1;
            if self.is_json {
                output::json(&line)?;
                continue;
            }
            let head = self.paint.faint(&format!("{} #{attempt}", moment(at)));
            output::line(&format!("{head}  {}", escaped(&text)))?;
        }
        Ok(())
    }
}
