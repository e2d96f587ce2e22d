//! The workloads of PERFORMANCE.md that a store alone can show, driven through its public API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass::job::{JobType, NewJob, Payload, QueueName, WorkerId};
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::claim::ClaimRequest;
use windlass::store::command::finish::{Outcome, Report as Finished};
use windlass::store::command::hold::{Pause, Target};
use windlass::store::command::submit::SubmitOptions;
use windlass::store::command::worker::NewWorker;
use windlass::store::environment::StoreOptions;

use crate::report::{Report, percentile};

/// A store to be measured.
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) me: Caller,
    pub(crate) job: NewJob,
    pub(crate) worker: WorkerId,
    _files: Option<TempDir>,
}

fn rate(jobs: usize, since: Instant) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let jobs = jobs as f64;
    jobs / since.elapsed().as_secs_f64()
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

impl Bench {
    /// A new store whose jobs have a payload of this size.
    pub(crate) async fn open(payload: usize) -> Bench {
        let (files, address) = crate::place::new();
        let store = Store::open(&address, StoreOptions::default()).expect("a new store opens");
        let me = Caller::local();
        let worker = store.register(&me, NewWorker::default()).await.expect("anybody may register").id;
        let text = format!(r#"{{"data":"{}"}}"#, "x".repeat(payload - 11));
        let job = NewJob::new(JobType::new("bench.job").expect("a name"), Payload::json(text));
        Bench { store, me, job, worker, _files: files }
    }

    pub(crate) fn close(self) {
        self.store.close();
    }

    async fn submit(&self, jobs: Vec<NewJob>) {
        self.store.submit(&self.me, jobs, SubmitOptions::default()).await.expect("is taken");
    }

    /// W2: batches, one after the other.
    pub(crate) async fn submit_batches(&self, jobs: usize, batch: usize) -> f64 {
        self.fill(jobs, batch, &self.job).await
    }

    pub(crate) async fn fill(&self, jobs: usize, batch: usize, job: &NewJob) -> f64 {
        let start = now();
        // Two callers: one prepares its batch while the other's is on its way to the disk.
        tokio::join!(
            async {
                for _ in 0..jobs / batch / 2 {
                    self.submit(vec![job.clone(); batch]).await;
                }
            },
            async {
                for _ in 0..jobs / batch / 2 {
                    self.submit(vec![job.clone(); batch]).await;
                }
            }
        );
        rate(jobs, start)
    }

    /// W1: one job a call, many callers at once.
    pub(crate) async fn submit_singly(&self, jobs: usize, callers: usize) -> (f64, Duration, Duration) {
        let start = now();
        let mut tasks = Vec::new();
        for _ in 0..callers {
            let (store, me, job) = (self.store.clone(), self.me.clone(), self.job.clone());
            tasks.push(tokio::spawn(async move {
                let mut times = Vec::with_capacity(jobs / callers);
                for _ in 0..jobs / callers {
                    let start = now();
                    store.submit(&me, vec![job.clone()], SubmitOptions::default()).await.expect("is taken");
                    times.push(start.elapsed());
                }
                times
            }));
        }
        let mut times = Vec::with_capacity(jobs);
        for task in tasks {
            times.extend(task.await.expect("a caller ends well"));
        }
        (rate(jobs, start), percentile(&mut times, 0.5), percentile(&mut times, 0.99))
    }

    /// W3: claims of 100 and their finishes, by several callers at once, until `jobs` are done.
    pub(crate) async fn drain(&self, jobs: usize, callers: usize) -> f64 {
        let start = now();
        let done = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..callers {
            let (store, me, worker, done) = (self.store.clone(), self.me.clone(), self.worker, done.clone());
            tasks.push(tokio::spawn(async move {
                let request = ClaimRequest::new(worker, 100);
                while done.load(Ordering::Relaxed) < jobs {
                    let claimed = store.claim(&me, &request, Duration::ZERO).await.expect("is answered").jobs;
                    if claimed.is_empty() {
                        return;
                    }
                    let reports: Vec<Finished> = claimed
                        .iter()
                        .map(|c| Finished::new(c.job.id, c.job.fence, Outcome::Completed { result: None }))
                        .collect();
                    done.fetch_add(reports.len(), Ordering::Relaxed);
                    store.finish(&me, worker, reports).await.expect("is answered");
                }
            }));
        }
        for task in tasks {
            task.await.expect("a caller ends well");
        }
        rate(done.load(Ordering::Relaxed), start)
    }

    /// W4: one job on an idle store, from its submission to its being handed over.
    pub(crate) async fn pick_up(&self, rounds: usize) -> (Duration, Duration) {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let (store, me, worker) = (self.store.clone(), self.me.clone(), self.worker);
            let (ready, is_ready) = tokio::sync::oneshot::channel();
            let waiting = tokio::spawn(async move {
                ready.send(()).expect("somebody waits");
                let request = ClaimRequest::new(worker, 1);
                let claimed = store.claim(&me, &request, Duration::from_secs(10)).await.expect("is answered");
                (now(), claimed.jobs)
            });
            is_ready.await.expect("the claimer starts");
            tokio::time::sleep(Duration::from_millis(3)).await;
            let start = now();
            self.submit(vec![self.job.clone()]).await;
            let (at, jobs) = waiting.await.expect("the claimer ends well");
            times.push(at - start);
            let reports = jobs
                .iter()
                .map(|c| Finished::new(c.job.id, c.job.fence, Outcome::Completed { result: None }))
                .collect();
            self.store.finish(&self.me, self.worker, reports).await.expect("is answered");
        }
        (percentile(&mut times, 0.5), percentile(&mut times, 0.99))
    }
}

/// Jobs for each figure of the flatness: enough for several moves of the log into the database.
const SAMPLE: usize = 150_000;

/// What a large backlog does to the rates: 1 M ready, 1 M delayed, 1 M in a paused queue, all in one store.
pub(crate) async fn flatness(report: &mut Report) {
    let bench = Bench::open(100).await;
    bench.fill(10_000, 1_000, &bench.job).await;
    let base_submit = bench.fill(SAMPLE, 1_000, &bench.job).await;
    let base = bench.drain(SAMPLE, 4).await;
    report.push("W5 with 10 k ready".into(), format!("{base:.0}/s"), format!("submit {base_submit:.0}/s"));
    let other = QueueName::new("other").expect("a name");
    let delayed = NewJob { delay: Some(Duration::from_secs(86_400)), ..bench.job.clone() };
    bench.fill(1_000_000, 10_000, &delayed).await;
    step(report, &bench, "1 M delayed", base, base_submit).await;
    let paused = NewJob { queue: other.clone(), ..bench.job.clone() };
    bench.store.pause(&bench.me, Target::Queue(other), Pause::default()).await.expect("may pause");
    bench.fill(1_000_000, 10_000, &paused).await;
    step(report, &bench, "1 M in a paused queue", base, base_submit).await;
    bench.fill(1_000_000, 10_000, &bench.job).await;
    step(report, &bench, "1 M ready", base, base_submit).await;
    report.push("RSS at 3 M jobs".into(), format!("{} MB", resident_mb()), String::new());
    bench.close();
}

async fn step(report: &mut Report, bench: &Bench, with: &str, base: f64, base_submit: f64) {
    let submit = bench.fill(SAMPLE, 1_000, &bench.job).await;
    let drain = bench.drain(SAMPLE, 4).await;
    report.add_ratio(format!("W5 claim+finish with {with}"), drain, base);
    report.add_ratio(format!("W5 submit with {with}"), submit, base_submit);
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    kilobytes / 1024
}
