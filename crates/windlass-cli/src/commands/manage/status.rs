//! `windlass status`: whether a server works well and what needs attention, each with the command that helps.

use std::process::ExitCode;

use serde::Serialize;
use windlass::job::JobState;
use windlass_api::clock::ClockView;
use windlass_api::pause::Gate;
use windlass_api::queue::Queue;
use windlass_api::stats::{Stats, Unresolved};
use windlass_api::worker::Worker;

use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::text::{counted, short_span};
use crate::output::{self, escaped};

/// A ready job that waits longer than this while a worker takes its queue is worth a word.
const LATE: std::time::Duration = std::time::Duration::from_secs(300);

/// Something that needs attention.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Concern {
    what: String,
    /// The command that shows more or helps.
    #[serde(rename = "try")]
    command: String,
}

/// What the server says about itself.
struct Report {
    stats: Stats,
    queues: Vec<Queue>,
    workers: Vec<Worker>,
    gate: Gate,
    clock: ClockView,
}

impl Report {
    async fn ask(client: &ServerClient) -> anyhow::Result<Report> {
        Ok(Report {
            stats: client.ask(Call::get(&["stats"])).await?,
            queues: client.all("queues").await?,
            workers: client.all("workers").await?,
            gate: client.ask(Call::get(&["gate"])).await?,
            clock: client.ask(Call::get(&["clock"])).await?,
        })
    }

    fn concerns(&self) -> Vec<Concern> {
        let mut found = Vec::new();
        let mut add = |what: String, command: &str| found.push(Concern { what, command: command.to_owned() });
        if !self.clock.believed {
            add("the wall clock jumped and is not trusted".into(), "windlass clock");
        }
        if !self.gate.online {
            let by = escaped(self.gate.by.as_deref().unwrap_or("somebody"));
            add(format!("processing is paused by {by}: no job starts"), "windlass gate open");
        }
        for queue in &self.queues {
            let name = queue.name.to_string();
            let ready = queue.depth.sum(&[JobState::Scheduled]);
            let takes = |worker: &&Worker| {
                worker.alive
                    && (worker.queues.is_empty()
                        || worker.queues.iter().any(|queue| queue.to_string() == name))
            };
            if queue.paused.is_some() {
                add(
                    format!("queue {name} is paused, {} ready in it", counted(ready, "job")),
                    &format!("windlass resume queue {name}"),
                );
            } else if ready > 0 && self.workers.iter().find(takes).is_none() {
                let what = format!(
                    "{} ready in queue {name}, but no worker takes jobs from it",
                    counted(ready, "job")
                );
                add(what, &format!("windlass work TYPE --queue {name} -- PROGRAM"));
            } else if let Some(age) = queue.oldest_age.filter(|age| age.0 > LATE) {
                let what = format!("the oldest job in queue {name} has waited {}", short_span(age.0));
                add(what, &format!("windlass list --queue {name} --state scheduled --order oldest"));
            }
        }
        if let Some(Unresolved { failed, dead_letter, complete }) = self.stats.unresolved {
            let more = if complete { "" } else { " at least" };
            let redrive = |state: &str| format!("windlass list --state {state} --redriven false");
            if dead_letter > 0 {
                add(
                    format!("{}{more} not retried", counted(dead_letter, "dead letter")),
                    &redrive("dead_letter"),
                );
            }
            if failed > 0 {
                add(format!("{}{more} not retried", counted(failed, "failed job")), &redrive("failed"));
            }
        }
        found
    }

    fn alive(&self) -> u64 {
        self.workers.iter().filter(|worker| worker.alive).count() as u64
    }
}

pub(crate) async fn status(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    client.check_ready().await?;
    let report = Report::ask(&client).await?;
    let concerns = report.concerns();
    let exit = if concerns.is_empty() { Exit::Done } else { Exit::No };
    let states = &report.stats.states;
    if connect.json {
        output::json(&serde_json::json!({
            "healthy": concerns.is_empty(), "server": client.place(), "workers": report.alive(),
            "states": states, "unresolved": report.stats.unresolved, "concerns": concerns,
        }))?;
        return Ok(exit.into());
    }
    let paint = Paint::for_data();
    let of = |states_: &[JobState]| states.sum(states_);
    let later = of(&[JobState::Pending, JobState::Delayed, JobState::Waiting]);
    output::line(&format!("server   {}, {} alive", client.place(), counted(report.alive(), "worker")))?;
    output::line(&format!(
        "jobs     {} ready, {} running, {later} later, {} retrying",
        of(&[JobState::Scheduled]),
        of(&[JobState::Running]),
        of(&[JobState::Retrying])
    ))?;
    if concerns.is_empty() {
        output::line(&format!("health   {}", paint.paint("nothing needs attention", Some(Colour::Good))))?;
    }
    for Concern { what, command } in concerns {
        output::line(&format!(
            "{} {what}\n  {}",
            paint.paint("!", Some(Colour::Bad)),
            paint.faint(&command)
        ))?;
    }
    Ok(exit.into())
}
