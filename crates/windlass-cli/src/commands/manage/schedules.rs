//! `windlass schedules`: submit jobs by cron, at an interval or once.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use windlass::clock::Timestamp;
use windlass::job::{JobType, QueueName};
use windlass::schedule::{CatchUp, Overlap};
use windlass_api::priority::PriorityInput;
use windlass_api::schedule::{JobTemplate, ScheduleBody, SchedulePauseBody, ScheduleView, Schedules};
use windlass_api::submission::Submission;
use windlass_api::text::Text;
use windlass_api::time::{Moment, Span};

use crate::commands::jobs::submit::{content, set_payload};
use crate::commands::manage::tenant_object::{
    DeleteArgs, ObjectArgs, PauseArgs, TenantObject, api_word, print,
};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output::color::Colour;
use crate::output::escaped;
use crate::output::fact_sheet::FactSheet;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{ago, api_name, moment, or_dash};

/// Arguments of `schedules`; lists schedules if no subcommand is given.
#[derive(Args)]
pub(crate) struct SchedulesArgs {
    #[command(subcommand)]
    command: Option<SchedulesCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum SchedulesCommand {
    /// List schedules with their next runs
    List {
        /// List deleted schedules that can be restored
        #[arg(long)]
        deleted: bool,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show a schedule with its next runs
    Show(ObjectArgs<ScheduleView>),
    /// Create a schedule
    Create(Box<PutArgs>),
    /// Change a schedule; values that are not given stay
    Edit(Box<PutArgs>),
    /// Pause a schedule: its runs are skipped
    Pause(PauseArgs<ScheduleView>),
    /// Resume a schedule
    Resume(ObjectArgs<ScheduleView>),
    /// Submit its job now
    Trigger(ObjectArgs<ScheduleView>),
    /// Create a deleted schedule again; runs that were due in between are skipped
    Restore(ObjectArgs<ScheduleView>),
    /// Delete a schedule; jobs that it submitted stay, and it can be restored for 35 days
    Delete(DeleteArgs<ScheduleView>),
}

/// When to run, and which job.
#[derive(Args)]
struct PutArgs {
    /// The type of the jobs it submits
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<Text<JobType>>,
    /// Their payload: JSON, or @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Cron expression: five fields, or six with seconds first
    #[arg(long, value_name = "EXPRESSION", group = "timing")]
    cron: Option<String>,
    /// Interval
    #[arg(long, value_name = "DURATION", group = "timing")]
    every: Option<Span>,
    /// Once, at this time, RFC 3339
    #[arg(long, value_name = "TIME", group = "timing")]
    at: Option<Moment>,
    /// Time zone of --cron, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// What to do about missed runs: skip, once, all
    #[arg(long, value_name = "WHAT", value_parser = api_word::<CatchUp>)]
    missed: Option<CatchUp>,
    /// What to do if the previous run is not finished: allow, skip, cancel
    #[arg(long, value_name = "WHAT", value_parser = api_word::<Overlap>)]
    overlap: Option<Overlap>,
    /// Queue of the jobs
    #[arg(long, value_name = "QUEUE")]
    queue: Option<Text<QueueName>>,
    /// Priority of the jobs
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<PriorityInput>,
    /// Any other submission fields, as a JSON object
    #[arg(long, value_name = "JSON")]
    job: Option<String>,
    #[command(flatten)]
    object: ObjectArgs<ScheduleView>,
}

/// Fields as they are written: numbers may have more digits than fit.
type Fields = BTreeMap<String, Box<RawValue>>;

impl PutArgs {
    /// The request: the schedule so far with the given flags applied.
    fn body(&self, current: Option<ScheduleView>) -> anyhow::Result<ScheduleBody> {
        let is_timed = self.cron.is_some() || self.every.is_some() || self.at.is_some();
        let mut body = if let Some(current) = current {
            ScheduleBody {
                cron: current.cron,
                timezone: current.timezone,
                every: current.every,
                at: current.at,
                missed: Some(current.missed),
                overlap: Some(current.overlap),
                job: self.job(Some(Submission {
                    // Without it a schedule of another tenant would be left as it is, and one of the same name made.
                    tenant: Some(current.tenant),
                    ..current.job.into()
                }))?,
            }
        } else {
            let (timezone, missed, overlap) = (None, None, None);
            ScheduleBody {
                cron: None,
                timezone,
                every: None,
                at: None,
                missed,
                overlap,
                job: self.job(None)?,
            }
        };
        if is_timed {
            (body.cron, body.every, body.at) = (self.cron.clone(), self.every, self.at);
            body.timezone = body.timezone.filter(|_| self.cron.is_some());
        }
        body.timezone = self.timezone.clone().or(body.timezone);
        body.missed = self.missed.or(body.missed);
        body.overlap = self.overlap.or(body.overlap);
        Ok(body)
    }

    /// The job so far with the given flags applied.
    fn job(&self, current: Option<Submission>) -> anyhow::Result<Submission> {
        let mut fields = Fields::new();
        if let Some(current) = current {
            fields = serde_json::from_str(&serde_json::to_string(&current)?)?;
        }
        if let Some(text) = &self.job {
            let given: Fields = serde_json::from_str(text)
                .map_err(|error| Failure::usage(format!("--job is not a JSON object: {error}")))?;
            fields.extend(given);
        }
        if let Some(name) = &self.job_type {
            fields.insert("type".to_owned(), to_raw_value(&name.to_string())?);
        }
        if !fields.contains_key("type") {
            return Err(Failure::usage("a schedule needs a type of job: give --type"));
        }
        let mut job: Submission = serde_json::from_str(&serde_json::to_string(&fields)?)
            .map_err(|error| Failure::usage(format!("--job is not a submission: {error}")))?;
        if let Some(payload) = &self.payload {
            set_payload(&mut job, &content(payload)?, None)?;
        }
        job.queue = self.queue.clone().or(job.queue);
        job.priority = self.priority.or(job.priority);
        job.tenant = self.object.tenant.clone().or(job.tenant);
        Ok(job)
    }
}

pub(crate) async fn schedules(args: &SchedulesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.connect).await,
        Some(SchedulesCommand::List { deleted: false, connect }) => list(connect).await,
        Some(SchedulesCommand::List { deleted: true, connect }) => list_deleted(connect).await,
        Some(SchedulesCommand::Restore(schedule)) => schedule.act("restore").await,
        Some(SchedulesCommand::Show(schedule)) => schedule.show().await,
        Some(SchedulesCommand::Create(args)) => put(args, true).await,
        Some(SchedulesCommand::Edit(args)) => put(args, false).await,
        Some(SchedulesCommand::Pause(args)) => {
            args.run(|reason, expires| SchedulePauseBody { reason, expires }).await
        }
        Some(SchedulesCommand::Resume(schedule)) => schedule.act("resume").await,
        Some(SchedulesCommand::Trigger(schedule)) => schedule.submit("trigger").await,
        Some(SchedulesCommand::Delete(args)) => args.run().await,
    }
}

async fn put(args: &PutArgs, is_new: bool) -> anyhow::Result<ExitCode> {
    let (client, object) = (args.object.connect.client()?, &args.object);
    let found = client.ask::<ScheduleView>(object.in_tenant(Call::get(&object.path()))).await;
    let current = match found {
        Ok(_) if is_new => {
            let message = format!(
                "schedule {} exists already; `windlass schedules edit` changes it",
                escaped(&object.name)
            );
            return Err(Failure::usage(message));
        }
        Ok(current) => Some(current),
        Err(failure) if is_new && failure.exit() == Exit::NotFound => None,
        Err(failure) => return Err(failure.into()),
    };
    let call = Call::put(&object.path()).json(&args.body(current)?);
    print(client.show::<ScheduleView>(call).await?.as_ref(), client.now())
}

async fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let found = client.show_all::<ScheduleView>("schedules").await?;
    let Some(schedules) = found else { return Ok(Exit::Done.into()) };
    let mut table = Table::new(vec![
        Column::new("SCHEDULE", 0).cut(10),
        Column::new("TYPE", 3).cut(10),
        Column::new("WHEN", 2).cut(10),
        Column::new("NEXT", 1),
        Column::new("LAST", 5),
        Column::new("JOBS", 6).right(),
        Column::new("NOTE", 4).cut(8),
    ]);
    let now = client.now();
    for schedule in schedules {
        let note = match (&schedule.paused, &schedule.last_refused) {
            (Some(pause), _) => {
                let reason = pause.reason.as_deref().unwrap_or_default();
                Cell::painted(format!("paused {reason}"), Some(Colour::Warning))
            }
            (None, Some(refused)) => Cell::painted(format!("refused: {}", refused.reason), Some(Colour::Bad)),
            (None, None) => "".into(),
        };
        table.row(vec![
            schedule.name.to_string().into(),
            schedule.job.r#type.to_string().into(),
            timing(&schedule).into(),
            Cell::when_any(schedule.next_runs.first().copied(), now),
            Cell::when_any(schedule.last_run, now),
            schedule.submitted.to_string().into(),
            note,
        ]);
    }
    table.print_or("no schedules; `windlass schedules create NAME --every 1h --type TYPE` creates one")
}

async fn list_deleted(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let found: Option<Schedules> = client.show(Call::get(&["schedules"]).query("deleted", "true")).await?;
    let Some(Schedules { schedules, .. }) = found else { return Ok(Exit::Done.into()) };
    let mut table = Table::new(vec![
        Column::new("SCHEDULE", 0).cut(10),
        Column::new("TYPE", 2).cut(10),
        Column::new("WHEN", 3).cut(10),
        Column::new("DELETED", 1),
        Column::new("BY", 4).cut(8),
    ]);
    for schedule in schedules {
        table.row(vec![
            schedule.name.to_string().into(),
            schedule.job.r#type.to_string().into(),
            timing(&schedule).into(),
            Cell::when_any(schedule.deleted_at, client.now()),
            or_dash(schedule.deleted_by).into(),
        ]);
    }
    table.print_or("no deleted schedules that can be restored")
}

/// The schedule's timing as text.
pub(crate) fn timing(schedule: &ScheduleView) -> String {
    match (&schedule.cron, schedule.every, schedule.at) {
        (Some(cron), _, _) => format!("{cron} {}", or_dash(schedule.timezone.as_ref())),
        (_, Some(every), _) => format!("every {every}"),
        (_, _, Some(at)) => format!("at {}", moment(at)),
        _ => String::new(),
    }
}

/// The job as JSON, without empty fields.
fn submitted(job: &JobTemplate) -> anyhow::Result<String> {
    let mut fields = serde_json::to_value(job)?;
    if let Value::Object(fields) = &mut fields {
        fields.retain(|name, value| {
            let is_usual = name == "content_type" && value == "application/json";
            let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            !is_usual && !is_empty
        });
    }
    Ok(fields.to_string())
}

impl TenantObject for ScheduleView {
    const NOUN: &'static str = "schedule";
    const PLURAL: &'static str = "schedules";
    const NAME_HELP: &'static str = "The schedule";
    const TENANT_HELP: &'static str = "Of this tenant, for keys that can see several";

    fn print(&self, now: Timestamp) -> anyhow::Result<ExitCode> {
        let mut facts = FactSheet::new(self.name.0.as_str());
        facts.add("when", &timing(self));
        facts.add("job", &submitted(&self.job)?);
        facts.add("missed", &api_name(&self.missed));
        facts.add("overlap", &api_name(&self.overlap));
        let last = or_dash(self.last_run.map(|last| ago(last, now)));
        facts.add("submitted", &format!("{}, last {last}", self.submitted));
        if let Some(pause) = &self.paused {
            facts.add_pause(pause.at, &pause.by, pause.reason.as_deref(), now);
        }
        if let Some(refused) = &self.last_refused {
            facts.add("refused", &format!("{}: {}", ago(refused.at, now), refused.reason));
        }
        for run in &self.next_runs {
            facts.add("runs", &format!("{} UTC, {}", moment(*run), ago(*run, now)));
        }
        facts.print()
    }

    fn deleted(name: &str) -> String {
        format!("{name} is deleted; `windlass schedules restore {name}` undoes it")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        put: PutArgs,
    }

    fn body(flags: &[&str], current: Option<ScheduleView>) -> anyhow::Result<Value> {
        let flags = Flags::try_parse_from([&["windlass", "nightly"], flags].concat())?;
        Ok(serde_json::to_value(flags.put.body(current)?)?)
    }

    fn current() -> ScheduleView {
        let retry = json!({"strategy": "constant", "initial_delay": "1s", "max_delay": "1s", "multiplier": 1.0,
            "jitter": 0.0, "jitter_mode": "random", "max_attempts": 2, "max_retries": 1, "retry_on": ["temporary"]});
        let view = json!({"name": "nightly", "tenant": "default", "cron": "0 3 * * *", "timezone": "UTC",
            "every": null, "at": null, "missed": "once", "overlap": "skip",
            "job": {"type": "report", "queue": "slow", "payload": {"b": 1, "a": 2}, "content_type": "application/json",
                "retry": retry, "timeouts": {"execution": "10m"}},
            "redacted": false, "paused": null, "next_runs": [], "last_run": null, "last_job": null, "submitted": 0,
            "overlapped": 0, "last_refused": null, "refusals": 0, "created_at": "2030-01-31T12:00:00Z",
            "updated_at": "2030-01-31T12:00:00Z", "updated_by": "me", "added_later": 1});
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn an_edit_keeps_what_is_not_given() {
        let edited = body(&["--priority", "high"], Some(current())).unwrap();
        assert_eq!((&edited["cron"], &edited["timezone"]), (&json!("0 3 * * *"), &json!("UTC")));
        assert_eq!((&edited["overlap"], &edited["missed"]), (&json!("skip"), &json!("once")));
        let job = &edited["job"];
        assert_eq!(
            (&job["type"], &job["queue"], &job["priority"]),
            (&json!("report"), &json!("slow"), &json!(80))
        );
        assert_eq!(
            (&job["payload"], &job["timeouts"]),
            (&json!({"b": 1, "a": 2}), &json!({"execution": "10m"}))
        );
        assert_eq!(
            (&job["retry"]["max_attempts"], &job["retry"]["strategy"]),
            (&json!(2), &json!("constant"))
        );
        let timed =
            body(&["--every", "1h", "--payload", "7", "--job", r#"{"queue":"fast"}"#], Some(current()));
        let timed = timed.unwrap();
        assert_eq!((timed.get("cron"), timed.get("timezone")), (None, None));
        assert_eq!((&timed["every"], &timed["job"]["payload"]), (&json!("1h"), &json!(7)));
        assert_eq!(timed["job"]["queue"], "fast");
    }

    #[test]
    fn a_new_schedule_has_a_type_and_known_words() {
        let new = body(&["--every", "1h", "--type", "report"], None).unwrap();
        assert_eq!(new, json!({"every": "1h", "job": {"type": "report"}}));
        assert!(body(&["--every", "1h"], None).is_err());
        assert!(body(&["--every", "1h", "--type", "report", "--overlap", "sometimes"], None).is_err());
    }
}
