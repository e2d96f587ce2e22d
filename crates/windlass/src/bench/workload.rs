//! The workloads of a store alone, in this process or at a server, driven through the contract of clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::figure::{Figure, Times, rate};
use crate::api::Api;
use crate::clock::Stopwatch;
use crate::error::OpenError;
use crate::job::{JobType, NewJob, Payload, QueueName, WorkerId};
#[cfg(feature = "remote")]
use crate::remote::Remote;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::{ClaimRequest, ClaimedJob};
use crate::store::command::finish::{Outcome, Report};
use crate::store::command::pause::{Pause, PauseTarget};
use crate::store::command::submit::SubmitOptions;
use crate::store::command::worker::NewWorker;
#[cfg(feature = "remote")]
use crate::store::environment::Environment;
use crate::store::environment::StoreOptions;

/// Pause before each single job of [`BenchWorker::pick_up`].
const BREATH: Duration = Duration::from_millis(3);

/// A store under measurement.
pub struct BenchWorker {
    /// The store.
    pub store: Arc<dyn Api>,
    /// The caller.
    pub me: Caller,
    /// The job that is submitted repeatedly.
    pub job: NewJob,
    /// The claiming worker.
    pub worker: WorkerId,
}

/// The store at an address, without maintenance, which would be measured too.
fn reach(address: &str) -> Result<Arc<dyn Api>, OpenError> {
    #[cfg(feature = "remote")]
    if Remote::is_at(address) {
        return Ok(Arc::new(Remote::open(address, Environment::system(StoreOptions::default()))?));
    }
    Ok(Arc::new(Store::open(address, StoreOptions::default())?))
}

fn completed(claimed: &[ClaimedJob]) -> Vec<Report> {
    let report = |claimed: &ClaimedJob| {
        Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result: None })
    };
    claimed.iter().map(report).collect()
}

impl BenchWorker {
    /// Opens a store, or connects to a server, for jobs with a payload of this size.
    pub async fn open(address: &str, payload: usize) -> anyhow::Result<BenchWorker> {
        let store = reach(address)?;
        let me = Caller::local();
        let worker = store.register(&me, NewWorker::default()).await?.id;
        let text = format!(r#"{{"data":"{}"}}"#, "x".repeat(payload.saturating_sub(11)));
        let job = NewJob::new(JobType::new("bench.job")?, Payload::json(text));
        Ok(BenchWorker { store, me, job, worker })
    }

    /// Ends the measurement.
    pub async fn close(self) -> anyhow::Result<()> {
        self.store.deregister(&self.me, self.worker).await?;
        self.store.close();
        Ok(())
    }

    async fn submit(&self, jobs: Vec<NewJob>) -> anyhow::Result<()> {
        self.store.submit(&self.me, jobs, SubmitOptions::default()).await?;
        Ok(())
    }

    /// Submits this many jobs in batches of this size. Returns the rate per second.
    pub async fn fill(&self, jobs: usize, batch: usize, job: &NewJob) -> anyhow::Result<f64> {
        let watch = Stopwatch::start();
        let half = || async {
            for _ in 0..jobs / batch / 2 {
                self.submit(vec![job.clone(); batch]).await?;
            }
            anyhow::Ok(())
        };
        // Two callers: one prepares its batch while the other's is being written.
        tokio::try_join!(half(), half())?;
        Ok(rate(jobs, watch.elapsed()))
    }

    /// Batches of a thousand.
    pub async fn submit_batches(&self, jobs: usize) -> anyhow::Result<Figure> {
        let submitted = self.fill(jobs, 1_000, &self.job).await?;
        Ok(Figure::new("batch", "submit in batches of 1000").rate(submitted))
    }

    /// One job per call, many concurrent callers.
    pub async fn submit_singly(&self, jobs: usize, callers: usize) -> anyhow::Result<Figure> {
        let watch = Stopwatch::start();
        let mut tasks = Vec::new();
        for _ in 0..callers {
            let (store, me, job) = (self.store.clone(), self.me.clone(), self.job.clone());
            tasks.push(tokio::spawn(async move {
                let mut times = Vec::with_capacity(jobs / callers);
                for _ in 0..jobs / callers {
                    let one = Stopwatch::start();
                    store.submit(&me, vec![job.clone()], SubmitOptions::default()).await?;
                    times.push(one.elapsed());
                }
                anyhow::Ok(times)
            }));
        }
        let mut times = Vec::with_capacity(jobs);
        for task in tasks {
            times.extend(task.await??);
        }
        let submitted = rate(times.len(), watch.elapsed());
        let what = format!("submit one by one, {callers} callers");
        Ok(Figure::new("submit", what).rate(submitted).times(Times::new(times)))
    }

    /// Claims of 100 and their finishes, by several concurrent callers, until this many are done. Returns the rate
    /// per second.
    pub async fn drain(&self, jobs: usize, callers: usize) -> anyhow::Result<f64> {
        let watch = Stopwatch::start();
        let done = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..callers {
            let (store, me, worker, done) = (self.store.clone(), self.me.clone(), self.worker, done.clone());
            tasks.push(tokio::spawn(async move {
                let request = ClaimRequest::new(worker, 100);
                while done.load(Ordering::Relaxed) < jobs {
                    let claimed = store.claim(&me, &request, Duration::ZERO).await?.jobs;
                    if claimed.is_empty() {
                        break;
                    }
                    let reports = completed(&claimed);
                    done.fetch_add(reports.len(), Ordering::Relaxed);
                    store.finish(&me, worker, reports).await?;
                }
                anyhow::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(rate(done.load(Ordering::Relaxed), watch.elapsed()))
    }

    /// One job on an idle store, from submission to claim.
    pub async fn pick_up(&self, rounds: usize) -> anyhow::Result<Figure> {
        let times = self.picked_up_from(&*self.store, rounds).await?;
        Ok(Figure::new("pick-up", "pick-up on an idle store: submit to claimed").times(Times::new(times)))
    }

    /// As [`pick_up`](BenchWorker::pick_up), with the submission on another node or in another process of the store
    /// at `address`.
    pub async fn pick_up_remote(&self, address: &str, rounds: usize) -> anyhow::Result<Figure> {
        let other = reach(address)?;
        let times = self.picked_up_from(&*other, rounds).await;
        other.close();
        let what = "pick-up on an idle store: submit on another node to claimed";
        Ok(Figure::new("pick-up", what).times(Times::new(times?)))
    }

    async fn picked_up_from(&self, other_node: &dyn Api, rounds: usize) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let (store, me, worker) = (self.store.clone(), self.me.clone(), self.worker);
            let (ready, is_ready) = tokio::sync::oneshot::channel();
            let (submitted, was_submitted) = tokio::sync::oneshot::channel::<Stopwatch>();
            let waiting = tokio::spawn(async move {
                // The receiver is gone if the measurement was abandoned.
                let _ = ready.send(());
                let request = ClaimRequest::new(worker, 1);
                let claimed = store.claim(&me, &request, Duration::from_secs(10)).await?.jobs;
                let took = was_submitted.await?.elapsed();
                anyhow::Ok((took, claimed))
            });
            is_ready.await?;
            tokio::time::sleep(BREATH).await;
            let _ = submitted.send(Stopwatch::start());
            other_node.submit(&self.me, vec![self.job.clone()], SubmitOptions::default()).await?;
            let (took, claimed) = waiting.await??;
            times.push(took);
            self.store.finish(&self.me, self.worker, completed(&claimed)).await?;
        }
        Ok(times)
    }

    /// The effect of a large backlog on the rates: this many ready, delayed and in a paused queue, all in one
    /// store. Reports each figure as it is measured.
    pub async fn flatness(&self, backlog: usize, report: &mut dyn FnMut(Figure)) -> anyhow::Result<()> {
        self.fill(10_000, 1_000, &self.job).await?;
        let submit = self.fill(SAMPLE, 1_000, &self.job).await?;
        let drain = self.drain(SAMPLE, 4).await?;
        report(Figure::new("backlog", "submit with 10 k ready").rate(submit));
        report(Figure::new("backlog", "claim + finish with 10 k ready").rate(drain));
        let base = (submit, drain);
        let other = QueueName::new("other")?;
        let delayed = NewJob { delay: Some(Duration::from_secs(86_400)), ..self.job.clone() };
        self.fill(backlog, 10_000, &delayed).await?;
        self.flat_with(&format!("{backlog} delayed"), base, report).await?;
        let paused = NewJob { queue: other.clone(), ..self.job.clone() };
        self.store.pause(&self.me, PauseTarget::Queue(other), Pause::default()).await?;
        self.fill(backlog, 10_000, &paused).await?;
        self.flat_with(&format!("{backlog} more in a paused queue"), base, report).await?;
        self.fill(backlog, 10_000, &self.job).await?;
        self.flat_with(&format!("{backlog} more ready"), base, report).await
    }

    async fn flat_with(
        &self,
        with: &str,
        (base_submit, base_drain): (f64, f64),
        report: &mut dyn FnMut(Figure),
    ) -> anyhow::Result<()> {
        let submit = self.fill(SAMPLE, 1_000, &self.job).await?;
        let drain = self.drain(SAMPLE, 4).await?;
        report(
            Figure::new("backlog", format!("claim + finish with {with}"))
                .rate(drain)
                .beside(Some(base_drain)),
        );
        report(Figure::new("backlog", format!("submit with {with}")).rate(submit).beside(Some(base_submit)));
        Ok(())
    }
}

/// Jobs for each figure: enough for several checkpoints of the log.
const SAMPLE: usize = 150_000;
