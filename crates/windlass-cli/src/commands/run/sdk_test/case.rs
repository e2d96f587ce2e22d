//! One case: a job with a program, what happens to it, and what must have come of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Value, json};
use windlass::clock::Deadline;
use windlass::job::{JobId, JobRecord, JobState, SuspendMode};
use windlass::limits::STREAM_PAGE_CHUNKS_MAX;
use windlass::store::caller::Caller;
use windlass::store::{ActionRequest, Snapshot, SubmitOptions, Suspend};
use windlass_api::submission::Submission;
use windlass_server::dev;

use super::lossy::LostAnswer;
use super::stage::Stage;
use super::worker::{self, Order, Worker};

/// How long anything may take in real time.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);
/// How far the clock is moved at once, until the job is final.
const DAY: Duration = Duration::from_secs(86_400);
/// How often.
const DAYS_MAX: usize = 20;
/// How often a lease must be extended.
const RENEWALS: usize = 5;

/// What happens while the job is under way.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Waits until the program has noted this line.
    Noted(&'static str),
    /// Waits until the job is in this state.
    Is(JobState),
    /// Sends a signal.
    Signal(&'static str, Value),
    Cancel,
    /// Suspends, and lets a running attempt end, or not.
    Suspend {
        is_graceful: bool,
    },
    Resume,
    /// Kills the worker process, or stops it in order; it is started again.
    Worker(Order),
    /// The server ends the leases while the process lives.
    LoseLeases,
    RestartServer,
    /// Time passes, and what becomes due meanwhile runs.
    Advance(Duration),
    /// Time passes at once, whatever runs.
    Jump(Duration),
    /// The worker keeps the job's lease, which is this long, although time passes as fast as it really does.
    KeepsLease(Duration),
}

/// What must have come of the job.
#[derive(Debug, Clone)]
pub(super) struct Expectation {
    pub(super) state: JobState,
    pub(super) result: Option<Value>,
    /// The code of its error, or the category of one without a code.
    pub(super) error: Option<&'static str>,
    /// What its steps did, and notes, in order; `None` if that is free.
    pub(super) effects: Option<Vec<String>>,
    pub(super) crashes: Option<u32>,
    /// What it has reported: `progress`, `logs` and `cost_cents`.
    pub(super) reports: Option<Value>,
    /// Its partial output: of each chunk the attempt, whether it starts the output over, and the value.
    pub(super) output: Option<Value>,
}

/// A case.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) program: Value,
    /// Fields of the submission.
    pub(super) options: Value,
    pub(super) actions: Vec<Action>,
    pub(super) is_slow: bool,
    /// An answer of the server that does not arrive.
    pub(super) lost: Option<LostAnswer>,
    /// The server says that it speaks another protocol: the worker must end, and take no job.
    pub(super) is_of_another_protocol: bool,
    pub(super) expected: Expectation,
}

impl Case {
    /// Runs it with a worker of its own.
    pub(super) async fn run(&self, program: &[OsString]) -> anyhow::Result<()> {
        if self.is_of_another_protocol {
            return self.run_alone(program).await;
        }
        let folder = Folder::new()?;
        let mut stage = Stage::start().await?;
        let lossy = match self.lost {
            Some(lost) => Some(stage.lossy_url(lost).await?),
            None => None,
        };
        let url = match &lossy {
            Some((url, _)) => url.clone(),
            None if self.is_slow => stage.slow_url().await?,
            None => stage.url(),
        };
        let worker = Worker::start(program, &url, &folder.0, stage.store.clone())?;
        let ended = tokio::select! {
            biased;
            played = tokio::time::timeout(PATIENCE, self.play(&mut stage, &worker, &folder.0)) => {
                played.unwrap_or_else(|_| bail!("it takes longer than {PATIENCE:?}"))
            }
            () = worker.ended() => Err(anyhow!("no worker is left")),
        };
        // If the worker ended by itself, that is the reason for the rest.
        worker.end().await?;
        stage.end().await?;
        let said = std::fs::read_to_string(folder.0.join("log")).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(12).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("\n    ");
        ended.with_context(|| format!("the worker said:\n    {last}\n  "))?;
        if let (Some(lost), Some((_, given))) = (self.lost, lossy) {
            ensure!(given.reached(lost), "the worker never asked for what was to be lost: {lost:?}");
        }
        Ok(())
    }

    /// Runs it with a worker that has to end by itself.
    async fn run_alone(&self, program: &[OsString]) -> anyhow::Result<()> {
        let (folder, stage) = (Folder::new()?, Stage::start().await?);
        let id = self.submit(&stage).await?;
        let mut child = worker::spawn(program, &stage.url_of_another_protocol().await?, &folder.0)?;
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let status = ended.ok().context("the worker continues with a protocol that it does not know")??;
        ensure!(status.code().is_some_and(|code| code != 0), "the worker must fail, and ended with {status}");
        let job = get(&stage, id).await?.job;
        ensure!(job.attempt == 0, "the worker has taken a job");
        stage.end().await
    }

    async fn submit(&self, stage: &Stage) -> anyhow::Result<JobId> {
        let mut body = json!({"type": "sdktest", "payload": {"program": self.program}});
        let fields = self.options.as_object().into_iter().flatten();
        for (name, value) in fields {
            body[name] = value.clone();
        }
        let job = serde_json::from_value::<Submission>(body)?.into_job(None)?;
        let receipts = stage.store.submit(&Caller::local(), vec![job], SubmitOptions::default()).await?;
        Ok(receipts[0].job.id)
    }

    async fn play(&self, stage: &mut Stage, worker: &Worker, folder: &Path) -> anyhow::Result<()> {
        let id = self.submit(stage).await?;
        for action in &self.actions {
            self.act(action, stage, worker, folder, id).await.with_context(|| format!("{action:?}"))?;
        }
        for _ in 0..DAYS_MAX {
            if get(stage, id).await?.job.state.is_final() {
                break;
            }
            // A day without heartbeats ends its registration: a slow machine would lose it to every step.
            let mut wait = Patience::new();
            while stage.store.config(&Caller::local()).await?.workers.is_empty() {
                wait.keep_for_retry().await?;
            }
            dev::advance(&stage.store, &stage.clock, DAY, PATIENCE).await?;
        }
        self.check(stage, folder, id).await
    }

    async fn act(
        &self,
        action: &Action,
        stage: &mut Stage,
        worker: &Worker,
        folder: &Path,
        id: JobId,
    ) -> anyhow::Result<()> {
        let (me, store) = (Caller::local(), stage.store.clone());
        match action {
            Action::Noted(line) => {
                let mut wait = Patience::new();
                while !effects(folder).iter().any(|one| one == line) {
                    wait.keep_for_retry().await?;
                }
            }
            Action::Is(wanted) => {
                let mut wait = Patience::new();
                while get(stage, id).await?.job.state != *wanted {
                    wait.keep_for_retry().await?;
                }
            }
            Action::Signal(name, value) => {
                store.signal(&me, id, name, serde_json::to_vec(value)?).await?;
            }
            Action::Cancel => drop(store.act(&me, id, ActionRequest::Cancel { reason: None }).await?),
            Action::Suspend { is_graceful } => {
                let mode = if *is_graceful { SuspendMode::Graceful } else { SuspendMode::Aggressive };
                store.act(&me, id, ActionRequest::Suspend(Suspend { mode, ..Suspend::default() })).await?;
            }
            Action::Resume => drop(store.act(&me, id, ActionRequest::Resume { reason: None }).await?),
            Action::Worker(order) => worker.order(*order).await?,
            Action::LoseLeases => {
                for worker in store.config(&me).await?.workers.into_keys() {
                    store.crash_worker(&me, worker).await?;
                }
            }
            Action::RestartServer => stage.restart().await?,
            Action::Jump(by) => {
                stage.clock.advance(*by);
                dev::tick(&store).await?;
            }
            Action::KeepsLease(lease) => keeps_lease(stage, id, *lease).await?,
            Action::Advance(by) => drop(dev::advance(&store, &stage.clock, *by, PATIENCE).await?),
        }
        Ok(())
    }

    async fn check(&self, stage: &Stage, folder: &Path, id: JobId) -> anyhow::Result<()> {
        let job = get(stage, id).await?.job;
        let Expectation { state, result, error, effects: wanted, crashes, reports, output } = &self.expected;
        let failure = job.details.error.as_ref();
        let said = failure.map(|error| error.message.clone()).unwrap_or_default();
        ensure!(job.state == *state, "the job is {}, not {state}: {said}", job.state);
        let kept = stage.store.result(&Caller::local(), id).await?.and_then(|found| found.0);
        let kept = kept.map(|bytes| serde_json::from_slice::<Value>(&bytes)).transpose()?;
        ensure!(kept == *result, "the result is {kept:?}, not {result:?}");
        if let Some(wanted) = error {
            let found = failure.map(|error| error.code.as_deref().unwrap_or(error.category.as_str()));
            ensure!(found == Some(wanted), "the error is {found:?}, not {wanted}: {said}");
        }
        if let Some(wanted) = wanted {
            let found = effects(folder);
            ensure!(found == *wanted, "the program did {found:?}, not {wanted:?}");
        }
        if let Some(crashes) = crashes {
            ensure!(job.crashes == *crashes, "there were {} crashes, not {crashes}", job.crashes);
        }
        if let Some(wanted) = reports {
            let found = reported(stage, &job).await?;
            ensure!(found == *wanted, "it has reported {found}, not {wanted}");
        }
        if let Some(wanted) = output {
            let found = streamed(stage, id).await?;
            ensure!(found == *wanted, "the output is {found}, not {wanted}");
        }
        Ok(())
    }
}

/// Moves the clock by a third of the lease as often as it was extended.
async fn keeps_lease(stage: &Stage, id: JobId, lease: Duration) -> anyhow::Result<()> {
    for _ in 0..RENEWALS {
        let ends_at =
            async || get(stage, id).await.map(|found| found.job.lease.map(|lease| lease.expires_at));
        let before = ends_at().await?;
        ensure!(before.is_some(), "the lease has ended");
        stage.clock.advance(lease / 3);
        let late = Deadline::after(lease);
        while ends_at().await? == before {
            ensure!(!late.is_over(), "a lease of {lease:?} was not extended in time");
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// A folder of its own for the files of a case.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Folder> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("windlass-sdk-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in a folder for temporary files.
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

async fn get(stage: &Stage, id: JobId) -> anyhow::Result<Snapshot> {
    stage.store.get(&Caller::local(), id).await?.context("the job is gone")
}

/// What a job has reported beside its outcome, as it is expected.
async fn reported(stage: &Stage, job: &JobRecord) -> anyhow::Result<Value> {
    let logs = stage.store.logs(&Caller::local(), job.id, 0).await?.context("the job is gone")?;
    let lines: Vec<String> = logs.into_iter().map(|(_, line)| line.text).collect();
    let progress = job.details.progress.as_ref().map(|progress| json!([progress.percent, progress.message]));
    Ok(json!({"progress": progress, "logs": lines, "cost_cents": job.cost_cents}))
}

/// The partial output of a job, as it is expected.
async fn streamed(stage: &Stage, id: JobId) -> anyhow::Result<Value> {
    let me = Caller::local();
    let page = stage.store.stream(&me, id, 0, STREAM_PAGE_CHUNKS_MAX, Duration::ZERO).await?;
    let page = page.context("the job is gone")?;
    let shown = page.chunks.iter().map(|chunk| {
        let value: Value = serde_json::from_str(chunk.chunk.get())?;
        Ok(json!([chunk.attempt, chunk.is_restart, value]))
    });
    shown.collect::<anyhow::Result<Vec<_>>>().map(Value::from)
}

/// What programs noted, line by line.
fn effects(folder: &Path) -> Vec<String> {
    let noted = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    noted.lines().map(str::to_owned).collect()
}

/// Looks again and again, for a while.
struct Patience(Deadline);

impl Patience {
    fn new() -> Patience {
        Patience(Deadline::after(PATIENCE))
    }

    async fn keep_for_retry(&mut self) -> anyhow::Result<()> {
        ensure!(!self.0.is_over(), "it did not happen");
        tokio::time::sleep(POLL).await;
        Ok(())
    }
}
