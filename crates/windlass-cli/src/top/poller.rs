//! Reads from the server: polls everything once a second, listens to failure events, and sends commands. If the server is
//! lost, it retries with growing delays.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use windlass::clock::Stopwatch;
use windlass::job::{JobAction, JobState};
use windlass_api::actions::ActionResponse;
use windlass_api::filter::{JobFilter, ListQuery};
use windlass_api::job::Job;
use windlass_api::job_details::{Attempts, Logs, Reasons};
use windlass_api::pause::Gate;
use windlass_api::queue::{Queue, QueueResponse, Type};
use windlass_api::record::RecordView;
use windlass_api::schedule::ScheduleView;
use windlass_api::stats::Stats;
use windlass_api::worker::Worker;

use super::app::{Pane, Screen, Snapshot};
use super::command::{Command, Verb};
use super::details::JobDetails;
use super::format::several;
use super::history::{History, HistoryOf};
use super::key_bindings::Effect;
use super::model::{FAILED, is_open_failure, read};
use crate::connection::client::{Call, ServerClient};
use crate::error::Failure;
use crate::limits::{
    TOP_EVENTS_BUFFERED, TOP_FAILURES_PER_POLL, TOP_HISTORY_INTERVAL, TOP_JOBS_MAX, TOP_POLL_INTERVAL,
    TOP_RETRY_MAX,
};

/// Something to show.
#[derive(Debug)]
pub(super) enum Update {
    /// The data of a poll.
    Polled(Box<Snapshot>),
    /// The server does not respond.
    Lost(String),
    /// The details of a job.
    Job(Box<JobDetails>),
    /// The result of a command or request.
    Message {
        text: String,
        /// Whether it is an error.
        is_error: bool,
    },
}

/// What the screen shows: some data is read only while it does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Visible {
    pane: Pane,
    history: Option<HistoryOf>,
}

/// Updates from the server, and the way to send commands to it.
pub(super) struct Feed {
    client: Arc<ServerClient>,
    updates: mpsc::Receiver<Update>,
    sender: mpsc::Sender<Update>,
    /// Incremented to poll at once.
    hurry: watch::Sender<u64>,
    tasks: JoinSet<()>,
    /// What is shown.
    shown: watch::Sender<Visible>,
}

impl Feed {
    /// Starts polling.
    pub(super) fn start(client: Arc<ServerClient>) -> Feed {
        let (sender, updates) = mpsc::channel(TOP_EVENTS_BUFFERED);
        let (failed, failures) = mpsc::channel(TOP_EVENTS_BUFFERED);
        let hurry = watch::Sender::new(0);
        let mut tasks = JoinSet::new();
        let shown = watch::Sender::new(Visible { pane: Pane::Queues, history: None });
        let steering = (hurry.subscribe(), shown.subscribe());
        tasks.spawn(poll(client.clone(), failures, steering, sender.clone()));
        tasks.spawn(watch_failures(client.clone(), failed));
        Feed { client, updates, sender, hurry, tasks, shown }
    }

    /// Passes on what is shown; data that is read only while it is shown is read at once.
    pub(super) fn watch(&self, screen: &Screen) {
        let now = Visible { pane: screen.pane, history: screen.history_wanted() };
        let mut is_urgent = false;
        self.shown.send_if_modified(|shown| {
            let is_new_list = shown.pane != now.pane && [Pane::Types, Pane::Schedules].contains(&now.pane);
            is_urgent = is_new_list || (shown.history != now.history && now.history.is_some());
            let is_new = *shown != now;
            *shown = now;
            is_new
        });
        if is_urgent {
            self.hurry.send_modify(|count| *count += 1);
        }
    }

    /// The next update.
    pub(super) async fn next(&mut self) -> anyhow::Result<Update> {
        tokio::select! {
            // This struct holds a sender itself, so that the channel never closes.
            Some(updates) = self.updates.recv() => Ok(updates),
            Some(ended) = self.tasks.join_next() => {
                ended?;
                anyhow::bail!("the polling task has stopped")
            }
        }
    }

    /// Performs an effect; the result arrives as an update.
    pub(super) fn wish(&self, wish: Effect) {
        let (client, sender, hurry) = (self.client.clone(), self.sender.clone(), self.hurry.clone());
        tokio::spawn(async move {
            let updates = match wish {
                Effect::Quit => return,
                Effect::Carry(order) => carry(&client, &order).await,
                Effect::ShowJob(id) => match read_job(&client, &id).await {
                    Ok(job) => Update::Job(Box::new(job)),
                    Err(failure) => Update::Message { text: failure.to_string(), is_error: true },
                },
            };
            // The screen may be closed already.
            let _ = sender.send(updates).await;
            hurry.send_modify(|count| *count += 1);
        });
    }
}

async fn carry(client: &ServerClient, order: &Command) -> Update {
    let done = match order.verb {
        Verb::RetryAll => return retry_all(client, order).await,
        Verb::Trigger => client.ask(order.call()).await.map(|job: Job| order.done(true, &job.id.to_string())),
        Verb::Pause(_) | Verb::Resume(_) => {
            client.ask(order.call()).await.map(|acted: ChangeFlag| order.done(acted.changed, ""))
        }
        Verb::PauseQueue | Verb::ResumeQueue => {
            client.ask(order.call()).await.map(|acted: QueueResponse| order.done(acted.changed, ""))
        }
        Verb::Job(JobAction::Redrive) => {
            client.ask(order.call()).await.map(|job: Job| order.done(true, &job.id.to_string()))
        }
        Verb::Job(_) => {
            client.ask(order.call()).await.map(|acted: ActionResponse<Job>| order.done(acted.changed, ""))
        }
    };
    match done {
        Ok(text) => Update::Message { text, is_error: false },
        Err(failure) => Update::Message { text: format!("refused: {failure}"), is_error: true },
    }
}

/// The part of an answer that every action has.
#[derive(Deserialize)]
struct ChangeFlag {
    #[serde(default = "yes")]
    changed: bool,
}

fn yes() -> bool {
    true
}

/// Retries the jobs of a group, one after the other.
async fn retry_all(client: &ServerClient, order: &Command) -> Update {
    let (mut retried, mut refused) = (0_u64, None);
    for id in &order.others {
        match client.ask::<Job>(order.of_one(id).call()).await {
            Ok(_) => retried += 1,
            Err(failure) => refused = Some(failure.to_string()),
        }
    }
    let text = several(retried, "job is retried", "jobs are retried");
    match refused {
        None => Update::Message { text, is_error: false },
        Some(why) => Update::Message { text: format!("{text}; refused: {why}"), is_error: true },
    }
}

async fn ask<T: DeserializeOwned>(client: &ServerClient, path: &[&str]) -> Result<T, Failure> {
    ask_call(client, Call::get(path)).await
}

async fn ask_call<T: DeserializeOwned>(client: &ServerClient, call: Call) -> Result<T, Failure> {
    let answer: Box<RawValue> = client.ask(call).await?;
    read(answer.get()).map_err(|error| client.unreadable(&error))
}

/// The first page of a list, without the items that only a newer version can read.
async fn list<T: DeserializeOwned>(client: &ServerClient, call: Call, kind: &str) -> Result<Vec<T>, Failure> {
    let items = client.page(call, kind).await?.items;
    Ok(items.into_iter().filter_map(|item| read(item.get()).ok()).collect())
}

/// Turns a missing permission into None: the data is not shown.
fn unless_refused<T>(asked: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match asked {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::Refused(refusal)) if refusal.status == 403 => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Reads everything once that this list needs; skips requests whose result is known to be empty.
pub(super) async fn read_snapshot(client: &ServerClient, shown: Pane) -> Result<Snapshot, Failure> {
    let (stats, queues, gate, workers) = tokio::join!(
        ask::<Stats>(client, &["stats"]),
        list::<Queue>(client, Call::get(&["queues"]), "queues"),
        ask::<Gate>(client, &["gate"]),
        list::<Worker>(client, Call::get(&["workers"]), "workers"),
    );
    let (stats, queues) = (stats?, queues?);
    let jobs = |states: &'static [JobState], redriven: Option<bool>| {
        let is_empty = stats.states.sum(states) == 0;
        async move {
            if is_empty {
                return Ok(Vec::new());
            }
            let filter = JobFilter { state: states.to_vec(), redriven, ..JobFilter::default() };
            let query = ListQuery { limit: Some(TOP_JOBS_MAX), ..ListQuery::from(filter) };
            let jobs = list::<Job>(client, Call::get(&["jobs"]).queries(&query), "jobs").await?;
            // Results are not shown, and may be large.
            Ok::<_, Failure>(jobs.into_iter().map(|job| Job { result: None, ..job }).collect::<Vec<_>>())
        }
    };
    let (running, retrying, failed, suspended) = tokio::join!(
        jobs(&[JobState::Running], None),
        jobs(&[JobState::Retrying], None),
        jobs(&FAILED, Some(false)),
        jobs(&[JobState::Suspended], None),
    );
    let (running, mut failures, suspended) = (running?, failed?, suspended?);
    failures.extend(retrying?);
    let (gate, workers) = (unless_refused(gate)?, unless_refused(workers)?);
    let types = match shown {
        Pane::Types => Some(list::<Type>(client, Call::get(&["types"]), "types").await?),
        _ => None,
    };
    let schedules = match shown {
        Pane::Schedules => Some(list::<ScheduleView>(client, Call::get(&["schedules"]), "schedules").await?),
        _ => None,
    };
    let history = None;
    Ok(Snapshot { stats, queues, gate, workers, running, failures, suspended, types, schedules, history })
}

async fn read_job(client: &ServerClient, id: &str) -> Result<JobDetails, Failure> {
    let [explain, attempts, logs] = ["explain", "attempts", "logs"].map(|part| ["jobs", id, part]);
    let (job, reasons, attempts, logs) = tokio::join!(
        ask_call::<Job>(client, Call::get(&["jobs", id]).query("payload", "true")),
        ask::<Reasons>(client, &explain),
        ask::<Attempts>(client, &attempts),
        ask::<Logs>(client, &logs),
    );
    Ok(JobDetails { job: job?, reasons: reasons?.reasons, attempts: attempts?.attempts, logs: logs?.logs })
}

async fn poll(
    client: Arc<ServerClient>,
    mut failures: mpsc::Receiver<String>,
    (mut hurry, shown): (watch::Receiver<u64>, watch::Receiver<Visible>),
    updates: mpsc::Sender<Update>,
) {
    let mut recent = RecentFailures::default();
    let mut stored = StoredHistory::default();
    let mut pause = TOP_POLL_INTERVAL;
    loop {
        let Visible { pane, history } = shown.borrow().clone();
        let update = match read_snapshot(&client, pane).await {
            Ok(mut snapshot) => {
                pause = TOP_POLL_INTERVAL;
                recent.add(&client, &mut failures, &mut snapshot).await;
                snapshot.history = stored.read(&client, history).await;
                Update::Polled(Box::new(snapshot))
            }
            Err(failure) => {
                pause = (pause * 2).min(TOP_RETRY_MAX);
                Update::Lost(failure.to_string())
            }
        };
        if updates.send(update).await.is_err() {
            return;
        }
        // Poll again soon after a command, to show its result.
        let _waited_or_hurried = tokio::time::timeout(pause, hurry.changed()).await;
    }
}

/// The history that was read last. It grows by a point every few minutes, so it is not read with every poll.
#[derive(Default)]
struct StoredHistory {
    last: Option<(Stopwatch, History)>,
}

impl StoredHistory {
    /// The history that is wanted; None if the server does not have it, or refuses it.
    async fn read(&mut self, client: &ServerClient, wanted: Option<HistoryOf>) -> Option<History> {
        let of = wanted?;
        let is_new = |(read, history): &&(Stopwatch, History)| {
            history.of == of && read.elapsed() < TOP_HISTORY_INTERVAL
        };
        if let Some((_, known)) = self.last.as_ref().filter(is_new) {
            return Some(known.clone());
        }
        let found = ask_call(client, of.call()).await.ok()?;
        let history = History { of, found };
        self.last = Some((Stopwatch::start(), history.clone()));
        Some(history)
    }
}

/// Jobs that failed recently, whenever they were submitted. Lists are sorted by submission, so an old job that fails now
/// would not be on their first page.
#[derive(Default)]
struct RecentFailures {
    jobs: VecDeque<Job>,
}

impl RecentFailures {
    /// Reads the jobs that failed since the last poll, and adds those that the poll did not return.
    async fn add(
        &mut self,
        client: &ServerClient,
        failures: &mut mpsc::Receiver<String>,
        snapshot: &mut Snapshot,
    ) {
        let known: BTreeSet<String> = snapshot.failures.iter().map(|job| job.id.to_string()).collect();
        let mut asked = 0;
        while asked < TOP_FAILURES_PER_POLL
            && let Ok(id) = failures.try_recv()
        {
            if known.contains(&id) {
                continue;
            }
            asked += 1;
            // Errors are ignored: the next poll reports them.
            if let Ok(job) = ask::<Job>(client, &["jobs", &id]).await {
                self.jobs.retain(|other| other.id != job.id);
                // One that was redriven needs no attention any more.
                self.jobs.extend(is_open_failure(&job).then_some(Job { result: None, ..job }));
            }
        }
        while self.jobs.len() > TOP_JOBS_MAX {
            self.jobs.pop_front();
        }
        self.jobs.retain(|job| !known.contains(&job.id.to_string()));
        snapshot.failures.extend(self.jobs.iter().cloned());
    }
}

/// The events of failures, and the one after which a failure needs no attention any more.
const FAILURE_EVENTS: &str =
    "job.lifecycle.failed,job.lifecycle.exhausted,job.lifecycle.expired,job.lifecycle.redriven";

/// Listens for failures for as long as the server responds.
async fn watch_failures(client: Arc<ServerClient>, failed: mpsc::Sender<String>) {
    loop {
        if let Ok(mut events) = client.stream(Call::get(&["events"]).query("event", FAILURE_EVENTS)).await {
            while let Ok(Some(event)) = events.next().await {
                let record: Option<RecordView> = serde_json::from_str(&event.data).ok();
                if let Some(id) = record.and_then(|record| record.job) {
                    // If the channel is full, dropping a failure is fine.
                    let _full_or_taken = failed.try_send(id.to_string());
                }
            }
        }
        if failed.is_closed() {
            return;
        }
        tokio::time::sleep(TOP_RETRY_MAX).await;
    }
}
