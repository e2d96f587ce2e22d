//! The logs of several jobs, by type, queue or tenant. Followed jobs are those that run: their events tell when one starts and
//! ends, and its log is polled in between.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::value::{RawValue, to_raw_value};
use windlass::clock::{Deadline, Timestamp};
use windlass::job::{JobState, JobType, QueueName, Tenant};
use windlass_api::filter::{JobFilter, ListQuery};
use windlass_api::job::Job;
use windlass_api::job_details::LogLine;
use windlass_api::record::RecordView;
use windlass_api::text::Text;

use crate::connection::client::{Call, Fields, ServerClient, read_each};
use crate::connection::reconnect::{ReconnectingStream, RetryDeadline};
use crate::error::Failure;
use crate::limits::{LOG_POLL_INTERVAL, LOGS_JOBS_MAX};
use crate::output::color::Paint;
use crate::output::table::cut_middle;
use crate::output::text::moment;
use crate::output::{self, escaped};

/// The events after which a job's log is read from its beginning, or to its end.
const EVENTS: &str = "job.lifecycle.claimed,job.lifecycle.completed,job.lifecycle.failed,job.lifecycle.retried,\
    job.lifecycle.exhausted,job.lifecycle.cancelled,job.lifecycle.expired,job.lifecycle.reaped";
/// Columns of an id.
const ID_WIDTH: usize = 13;

/// Which jobs.
#[derive(Args, Clone)]
pub(super) struct SeveralArgs {
    /// Of all jobs of this type
    #[arg(long = "type", value_name = "TYPE", help_heading = "Filters")]
    job_type: Option<Text<JobType>>,
    /// Of all jobs in this queue
    #[arg(long, value_name = "QUEUE", help_heading = "Filters")]
    queue: Option<Text<QueueName>>,
    /// Of all jobs of this tenant
    #[arg(long, value_name = "TENANT", help_heading = "Filters")]
    tenant: Option<Text<Tenant>>,
    /// Maximum number of jobs, the newest ones; with -f of running jobs at a time
    #[arg(long, short = 'n', default_value_t = 20, value_name = "COUNT", conflicts_with = "id")]
    limit: usize,
}

/// A job whose log is read.
struct Source {
    job_type: String,
    /// The number of the last line that was read.
    after: u64,
    is_over: bool,
}

/// A line of a job's log.
struct Entry {
    at: Timestamp,
    id: String,
    job_type: String,
    line: LogLine,
    raw: Box<RawValue>,
}

impl SeveralArgs {
    fn list(&self, state: Vec<JobState>) -> Call {
        let (r#type, queue, tenant) = (self.job_type.clone(), self.queue.clone(), self.tenant.clone());
        let filter = JobFilter { r#type, queue, tenant, state, ..JobFilter::default() };
        let limit = Some(self.limit.clamp(1, LOGS_JOBS_MAX));
        Call::get(&["jobs"]).queries(&ListQuery { limit, ..ListQuery::from(filter) })
    }

    fn events(&self) -> Call {
        let text = |text: Option<String>| text.unwrap_or_default();
        let call = Call::get(&["events"]).query("event", EVENTS);
        let named = [
            ("type", text(self.job_type.as_ref().map(ToString::to_string))),
            ("queue", text(self.queue.as_ref().map(ToString::to_string))),
            ("tenant", text(self.tenant.as_ref().map(ToString::to_string))),
        ];
        named
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .fold(call, |call, (name, value)| call.query(name, value))
    }
}

/// Prints the logs of the newest jobs, in the order in which they were written. Returns how many lines.
pub(super) async fn print(client: &ServerClient, args: &SeveralArgs, is_json: bool) -> anyhow::Result<u64> {
    let jobs = client.page(args.list(Vec::new()), "jobs").await?.items;
    let mut sources = BTreeMap::new();
    for job in read_each::<Job>("jobs", jobs) {
        sources
            .insert(job.id.to_string(), Source { job_type: job.r#type.to_string(), after: 0, is_over: true });
    }
    Printer { is_json, paint: Paint::for_data(), count: 0 }.round(client, &mut sources).await
}

/// Prints lines until Ctrl-C.
pub(super) async fn follow(client: &ServerClient, args: &SeveralArgs, is_json: bool) -> anyhow::Result<()> {
    // The events come first, so that no job that starts meanwhile is missed.
    let mut events = ReconnectingStream::open(client, args.events()).await?;
    let mut sources = BTreeMap::new();
    let mut printer = Printer { is_json, paint: Paint::for_data(), count: 0 };
    let (mut patience, mut is_known, mut has_reported) = (RetryDeadline::default(), false, false);
    output::note(&format!("following {}; stop with Ctrl-C", client.place()));
    loop {
        if !is_known {
            let running = client.page(args.list(vec![JobState::Running]), "jobs").await;
            let Some(running) = patience.retry_while_unavailable(running).await? else { continue };
            for job in read_each::<Job>("jobs", running.items) {
                let job_type = job.r#type.to_string();
                let source = Source { job_type, after: 0, is_over: false };
                sources.entry(job.id.to_string()).or_insert(source);
            }
            is_known = true;
        }
        let deadline = Deadline::after(LOG_POLL_INTERVAL);
        while let Ok(event) = tokio::time::timeout(deadline.left(), events.next()).await {
            let Some(event) = event? else {
                // Events may have been missed.
                is_known = false;
                break;
            };
            let Ok(record) = serde_json::from_str::<RecordView>(&event.data) else { continue };
            let has_room = sources.len() < args.limit.clamp(1, LOGS_JOBS_MAX);
            if !note(&mut sources, &record, has_room) && !has_reported {
                has_reported = true;
                output::note("more jobs run than are followed; -n follows more at a time");
            }
        }
        if let Err(error) = printer.round(client, &mut sources).await {
            match error.downcast::<Failure>() {
                Ok(failure) => drop(patience.retry_while_unavailable::<()>(Err(failure)).await?),
                Err(other) => return Err(other),
            }
        }
    }
}

/// Follows the job of an event, or reads it for the last time. False if there is no room for it.
fn note(sources: &mut BTreeMap<String, Source>, record: &RecordView, has_room: bool) -> bool {
    let Some(id) = record.job.as_ref().map(ToString::to_string) else { return true };
    let is_over = record.event != "job.lifecycle.claimed";
    match sources.get_mut(&id) {
        Some(source) => source.is_over = is_over,
        None if !has_room => return false,
        None => {
            let job_type = record.r#type.as_ref().map_or_else(String::new, ToString::to_string);
            sources.insert(id, Source { job_type, after: 0, is_over });
        }
    }
    true
}

struct Printer {
    is_json: bool,
    paint: Paint,
    count: u64,
}

impl Printer {
    /// Prints what all jobs have written since, in the order of time, and forgets those that are over.
    async fn round(
        &mut self,
        client: &ServerClient,
        sources: &mut BTreeMap<String, Source>,
    ) -> anyhow::Result<u64> {
        let mut found = Vec::new();
        for (id, source) in sources.iter_mut() {
            let call = Call::get(&["jobs", id, "logs"]).query("after", source.after.to_string());
            let lines = match client.page(call, "logs").await {
                // It was deleted.
                Err(Failure::Refused(refusal)) if refusal.status == 404 => {
                    source.is_over = true;
                    continue;
                }
                page => page?.items,
            };
            for raw in lines {
                let line: LogLine = serde_json::from_str(raw.get())?;
                source.after = line.number;
                let (id, job_type) = (id.clone(), source.job_type.clone());
                found.push(Entry { at: line.at.0, id, job_type, line, raw });
            }
        }
        sources.retain(|_, source| !source.is_over);
        found.sort_by_key(|entry| entry.at);
        for entry in found {
            self.line(&entry)?;
        }
        Ok(self.count)
    }

    fn line(&mut self, entry: &Entry) -> anyhow::Result<()> {
        self.count += 1;
        if self.is_json {
            let mut fields: Fields = serde_json::from_str(entry.raw.get())?;
            fields.insert("job".to_owned(), to_raw_value(&entry.id)?);
            fields.insert("type".to_owned(), to_raw_value(&entry.job_type)?);
            return output::json(&fields);
        }
        let LogLine { at, attempt, text, .. } = &entry.line;
        let id = cut_middle(&entry.id, ID_WIDTH);
        let head = self.paint.faint(&format!("{} {id} #{attempt}", moment(*at)));
        output::line(&format!("{head} {}  {}", escaped(&entry.job_type), escaped(text)))
    }
}
