//! `windlass status`: whether a server works well and what needs attention, each with the command that helps.

use std::process::ExitCode;

use serde::Serialize;
use windlass::alert::AlertStatus;
use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass_api::alert::AlertView;
use windlass_api::clock::ClockView;
use windlass_api::pause::Gate;
use windlass_api::queue::Queue;
use windlass_api::stats::{Stats, Unresolved};
use windlass_api::worker::Worker;

use crate::commands::manage::workers::is_built_in;
use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::text::{ago, counted, short_span};
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
    alerts: Vec<AlertView>,
}

impl Report {
    async fn ask(client: &ServerClient) -> anyhow::Result<Report> {
        Ok(Report {
            stats: client.ask(Call::get(&["stats"])).await?,
            queues: client.all("queues").await?,
            workers: client.all("workers").await?,
            gate: client.ask(Call::get(&["gate"])).await?,
            clock: client.ask(Call::get(&["clock"])).await?,
            alerts: alerts(client).await?,
        })
    }

    fn concerns(&self, now: Timestamp) -> Vec<Concern> {
        let mut found = Vec::new();
        let mut add = |what: String, command: &str| found.push(Concern { what, command: command.to_owned() });
        if !self.clock.believed {
            add("the wall clock jumped and is not trusted".into(), "windlass clock");
        }
        if !self.gate.online {
            let by = escaped(self.gate.by.as_deref().unwrap_or("unknown user"));
            add(format!("processing is paused by {by}: no job starts"), "windlass gate open");
        }
        let fires = |alert: &&AlertView| alert.state == AlertStatus::Firing && alert.paused.is_none();
        for alert in self.alerts.iter().filter(fires) {
            let (name, since) = (escaped(&alert.name.to_string()), ago(alert.since, now));
            let value =
                alert.value.as_ref().map_or_else(String::new, |value| format!(", now {}", escaped(value)));
            let tenant =
                alert.tenant.as_ref().map_or_else(String::new, |tenant| format!(" --tenant {tenant}"));
            add(
                format!("alert {name} began to fire {since}: {}{value}", escaped(&alert.description)),
                &format!("windlass alerts show {name}{tenant}"),
            );
        }
        let lost = self.workers.iter().filter(|worker| !worker.alive && !is_built_in(worker));
        if let Some(last) = lost.clone().max_by_key(|worker| worker.seen_at.0) {
            let (count, name) = (lost.count() as u64, escaped(&last.name));
            let seen = ago(last.seen_at, now);
            let what = match count {
                1 => format!("worker {name} is lost, last seen {seen}"),
                _ => format!("{} are lost, {name} was last seen {seen}", counted(count, "worker")),
            };
            add(what, "windlass workers");
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
        found.extend(self.stats.unresolved.iter().flat_map(not_retried));
        found
    }

    fn alive(&self) -> u64 {
        self.workers.iter().filter(|worker| worker.alive && !is_built_in(worker)).count() as u64
    }
}

/// Failed jobs that were not retried.
fn not_retried(unresolved: &Unresolved) -> Vec<Concern> {
    let more = if unresolved.complete { "" } else { " at least" };
    let kinds =
        [(unresolved.dead_letter, "dead letter", "dead_letter"), (unresolved.failed, "failed job", "failed")];
    let open = kinds.into_iter().filter(|(count, ..)| *count > 0);
    open.map(|(count, noun, state)| Concern {
        what: format!("{}{more} not retried", counted(count, noun)),
        command: format!("windlass list --state {state} --redriven false"),
    })
    .collect()
}

/// The alerts; none if the server has no alerts, or the key may not read them.
async fn alerts(client: &ServerClient) -> Result<Vec<AlertView>, Failure> {
    match client.all("alerts").await {
        Err(Failure::Refused(refusal)) if [403, 404].contains(&refusal.status) => Ok(Vec::new()),
        found => found,
    }
}

pub(crate) async fn status(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    client.check_ready().await?;
    let report = Report::ask(&client).await?;
    let concerns = report.concerns(client.now());
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
    let waiting = of(&[JobState::Pending, JobState::Delayed, JobState::Waiting]);
    output::line(&format!("server   {}, {} alive", client.place(), counted(report.alive(), "worker")))?;
    output::line(&format!(
        "jobs     {} ready, {} running, {waiting} delayed/waiting, {} retrying",
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn alert(state: &str, paused: &Value) -> Value {
        json!({"name": "late", "tenant": "acme", "condition": "oldest_ready", "more_than": null, "longer_than": "5m",
            "within": null, "min_attempts": null, "queue": "mail", "type": null, "description": "a job waits longer than 5m",
            "url": "https://example.com/a", "redacted": false, "format": "slack", "pending_for": "0s", "keep_firing_for": "5m",
            "repeat_interval": null, "state": state, "since": "2030-01-31T11:50:00Z", "turning_since": null, "value": "7m",
            "notified_at": null, "last_delivery": null, "paused": paused, "created_at": "2030-01-31T12:00:00Z",
            "updated_at": "2030-01-31T12:00:00Z", "updated_by": "me"})
    }

    fn worker(name: &str, alive: bool) -> Value {
        json!({"id": "01990000-0000-4000-8000-000000000001", "name": name, "queues": [], "types": [], "concurrency": 1,
            "heartbeats": true, "registered_at": "2030-01-31T11:00:00Z", "seen_at": "2030-01-31T11:58:00Z", "alive": alive})
    }

    fn said(alerts: &[Value], workers: &[Value]) -> Vec<(String, String)> {
        let stats = json!({"queues": {}, "types": {}, "tenants": {}, "costs": [], "cascades": 0, "states": {}, "minutes": []});
        let gate = json!({"online": true, "reason": null, "by": null, "since": null, "scopes": []});
        let at = "2030-01-31T12:00:00Z";
        let clock = json!({"store_time": at, "wall_clock": at, "difference_ms": 0, "believed": true,
            "not_believed_since": null, "lifetimes_wait_until": null});
        let report = Report {
            stats: serde_json::from_value(stats).unwrap(),
            queues: Vec::new(),
            workers: serde_json::from_value(json!(workers)).unwrap(),
            gate: serde_json::from_value(gate).unwrap(),
            clock: serde_json::from_value(clock).unwrap(),
            alerts: serde_json::from_value(json!(alerts)).unwrap(),
        };
        let now = at.parse::<windlass_api::time::Moment>().unwrap().0;
        report.concerns(now).into_iter().map(|concern| (concern.what, concern.command)).collect()
    }

    #[test]
    fn alerts_that_fire_and_workers_that_are_lost_need_attention() {
        let pause = json!({"by": "ann", "at": "2030-01-31T11:00:00Z", "reason": null, "expires_at": null});
        let calm = [alert("ok", &Value::Null), alert("firing", &pause)];
        assert!(said(&calm, &[worker("a", true)]).is_empty());
        let fires = said(&[alert("firing", &Value::Null)], &[]);
        let wanted = "alert late began to fire 10m ago: a job waits longer than 5m, now 7m";
        assert_eq!(fires, [(wanted.to_owned(), "windlass alerts show late --tenant acme".to_owned())]);
        let lost = |workers: &[Value]| said(&[], workers).remove(0).0;
        assert_eq!(lost(&[worker("a", true), worker("b", false)]), "worker b is lost, last seen 2m ago");
        assert_eq!(
            lost(&[worker("b", false), worker("b", false)]),
            "2 workers are lost, b was last seen 2m ago"
        );
    }
}
