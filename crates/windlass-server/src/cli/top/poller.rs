//! What is heard from the server: a look at everything every second, events that tell of failures at once, and what became
//! of orders. A server that is lost is tried again, ever more slowly, until it is there.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::app::Snapshot;
use super::command::Command;
use super::details::JobDetails;
use super::key_bindings::Effect;
use super::model::{Attempts, Gate, Job, Jobs, Logs, Plain, Queues, Reasons, Stats, Workers, sum};
use crate::cli::connection::client::{Call, Client};
use crate::cli::error::Failure;
use crate::limits::{
    TOP_EVENTS_BUFFERED, TOP_FAILURES_PER_POLL, TOP_JOBS_MAX, TOP_POLL_INTERVAL, TOP_RETRY_MAX,
};

/// Something to be shown.
#[derive(Debug)]
pub(super) enum Update {
    /// How everything is.
    Look(Box<Snapshot>),
    /// The server was not to be had.
    Lost(String),
    /// All about one job.
    Job(Box<JobDetails>),
    /// What became of an order or a question.
    Said {
        /// In words.
        text: String,
        /// Whether it was refused.
        is_trouble: bool,
    },
}

/// Whatever comes from the server, and the way to have something done there.
pub(super) struct Feed {
    client: Arc<Client>,
    news: mpsc::Receiver<Update>,
    sender: mpsc::Sender<Update>,
    /// Counts up when a look is wanted at once.
    hurry: watch::Sender<u64>,
    tasks: JoinSet<()>,
}

impl Feed {
    /// Begins to look.
    pub(super) fn start(client: Arc<Client>) -> Feed {
        let (sender, news) = mpsc::channel(TOP_EVENTS_BUFFERED);
        let (failed, failures) = mpsc::channel(TOP_EVENTS_BUFFERED);
        let hurry = watch::Sender::new(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(look_again_and_again(client.clone(), failures, hurry.subscribe(), sender.clone()));
        tasks.spawn(hear_of_failures(client.clone(), failed));
        Feed { client, news, sender, hurry, tasks }
    }

    /// The next news.
    pub(super) async fn next(&mut self) -> anyhow::Result<Update> {
        tokio::select! {
            // This holds a sender itself, so that the channel is never closed.
            Some(news) = self.news.recv() => Ok(news),
            Some(ended) = self.tasks.join_next() => {
                ended?;
                anyhow::bail!("nobody looks at the server any more")
            }
        }
    }

    /// Has something done; the answer comes as news.
    pub(super) fn wish(&self, wish: Effect) {
        let (client, sender, hurry) = (self.client.clone(), self.sender.clone(), self.hurry.clone());
        tokio::spawn(async move {
            let news = match wish {
                Effect::Quit => return,
                Effect::Carry(order) => carry(&client, &order).await,
                Effect::Look(id) => match look_at(&client, &id).await {
                    Ok(look) => Update::Job(Box::new(look)),
                    Err(failure) => Update::Said { text: failure.to_string(), is_trouble: true },
                },
            };
            // Whoever left no longer wants to know.
            let _ = sender.send(news).await;
            hurry.send_modify(|count| *count += 1);
        });
    }
}

async fn carry(client: &Client, order: &Command) -> Update {
    match client.value(Call::post(&order.path()).json(&order.body())).await {
        Ok(answer) => Update::Said { text: order.done(&answer), is_trouble: false },
        Err(failure) => Update::Said { text: format!("refused: {failure}"), is_trouble: true },
    }
}

async fn ask<T: DeserializeOwned>(client: &Client, path: &[&str]) -> Result<T, Failure> {
    client.ask(Call::get(path)).await
}

/// What may be kept from this key: then it is simply not shown.
fn unless_refused<T>(asked: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match asked {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::Refused(refusal)) if refusal.status == 403 => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// One look at everything; what is known to be empty is not asked for.
pub(super) async fn read_snapshot(client: &Client) -> Result<Snapshot, Failure> {
    let (stats, queues, gate, workers) = tokio::join!(
        ask::<Stats>(client, &["stats"]),
        ask::<Queues>(client, &["queues"]),
        ask::<Gate>(client, &["gate"]),
        ask::<Workers>(client, &["workers"]),
    );
    let (stats, queues) = (stats?, queues?.queues);
    let jobs = |states: &'static [&'static str]| {
        let is_empty = sum(&stats.states, states) == 0;
        async move {
            if is_empty {
                return Ok(Vec::new());
            }
            let limit = TOP_JOBS_MAX.to_string();
            let call = Call::get(&["jobs"]).query("state", states.join(",")).query("limit", limit);
            client.ask::<Jobs>(call).await.map(|page| page.jobs)
        }
    };
    let (running, failures, suspended) =
        tokio::join!(jobs(&["running"]), jobs(&["failed", "dead_letter", "retrying"]), jobs(&["suspended"]));
    let (running, failures, suspended) = (running?, failures?, suspended?);
    let (gate, workers) = (unless_refused(gate)?, unless_refused(workers)?.map(|answer| answer.workers));
    Ok(Snapshot { stats, queues, gate, workers, running, failures, suspended })
}

async fn look_at(client: &Client, id: &Plain) -> Result<JobDetails, Failure> {
    let id = id.as_str();
    let whole = ["jobs", id];
    let [explain, attempts, logs] = ["explain", "attempts", "logs"].map(|part| ["jobs", id, part]);
    let (job, reasons, attempts, logs) = tokio::join!(
        ask::<Job>(client, &whole),
        ask::<Reasons>(client, &explain),
        ask::<Attempts>(client, &attempts),
        ask::<Logs>(client, &logs),
    );
    Ok(JobDetails { job: job?, reasons: reasons?.reasons, attempts: attempts?.attempts, logs: logs?.logs })
}

async fn look_again_and_again(
    client: Arc<Client>,
    mut failures: mpsc::Receiver<String>,
    mut hurry: watch::Receiver<u64>,
    news: mpsc::Sender<Update>,
) {
    let mut lately = RecentFailures::default();
    let mut pause = TOP_POLL_INTERVAL;
    loop {
        let told = match read_snapshot(&client).await {
            Ok(mut look) => {
                pause = TOP_POLL_INTERVAL;
                lately.add(&client, &mut failures, &mut look).await;
                Update::Look(Box::new(look))
            }
            Err(failure) => {
                pause = (pause * 2).min(TOP_RETRY_MAX);
                Update::Lost(failure.to_string())
            }
        };
        if news.send(told).await.is_err() {
            return;
        }
        // A person who had something done wants to see it done.
        let _waited_or_hurried = tokio::time::timeout(pause, hurry.changed()).await;
    }
}

/// Jobs that failed lately, whenever they were submitted: lists are in the order of submission, so that an old job that
/// fails now would not be on their first page.
#[derive(Default)]
struct RecentFailures {
    jobs: VecDeque<Job>,
}

impl RecentFailures {
    /// Asks for those that failed since the last look, and adds all that the look has not.
    async fn add(&mut self, client: &Client, failures: &mut mpsc::Receiver<String>, look: &mut Snapshot) {
        let known: BTreeSet<Plain> = look.failures.iter().map(|job| job.id.clone()).collect();
        let mut asked = 0;
        while asked < TOP_FAILURES_PER_POLL
            && let Ok(id) = failures.try_recv()
        {
            if known.contains(&Plain::new(&id)) {
                continue;
            }
            asked += 1;
            // Whatever went wrong: the next look tells.
            if let Ok(job) = ask::<Job>(client, &["jobs", &id]).await {
                self.jobs.retain(|other| other.id != job.id);
                self.jobs.push_back(job);
            }
        }
        while self.jobs.len() > TOP_JOBS_MAX {
            self.jobs.pop_front();
        }
        // One that was tried again since has gone on, and its row would tell of the past.
        self.jobs.retain(|job| !known.contains(&job.id) && job.is_final());
        look.failures.extend(self.jobs.iter().cloned());
    }
}

/// Which events tell of failures.
const FAILURES: &str = "job.lifecycle.failed,job.lifecycle.exhausted,job.lifecycle.expired";

/// Listens for failures, for as long as there is a server to listen to.
async fn hear_of_failures(client: Arc<Client>, failed: mpsc::Sender<String>) {
    loop {
        if let Ok(mut events) = client.stream(Call::get(&["events"]).query("event", FAILURES)).await {
            while let Ok(Some(event)) = events.next().await {
                let record: Option<PollResult> = serde_json::from_str(&event.data).ok();
                if let Some(id) = record.and_then(|record| record.job) {
                    // With so many failures at once, any of them will do.
                    let _full_or_taken = failed.try_send(id);
                }
            }
        }
        if failed.is_closed() {
            return;
        }
        tokio::time::sleep(TOP_RETRY_MAX).await;
    }
}

/// What an event tells.
#[derive(serde::Deserialize)]
struct PollResult {
    job: Option<String>,
}
