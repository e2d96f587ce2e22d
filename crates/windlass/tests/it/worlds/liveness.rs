//! Whether everything can still end. From each state the workers that are left do their work and time passes, without the
//! operator: then each job is final, or `explain` names what it waits for. That is true if the jobs end as soon as the
//! operator has removed it. And `explain` gives no reason exactly for the jobs that a claim would get now.

use std::collections::HashSet;

use windlass::job::{JobId, JobState};
use windlass::store::caller::Caller;

use super::action::Action;
use super::laws;
use super::world::{Hands, JOBS, WORKERS, World};

/// Rounds in which everything must have ended: attempts of three jobs, with a timer after each.
const ROUNDS: usize = 40;

/// States from which everything is known to end.
#[derive(Default)]
pub(super) struct Ends {
    known: HashSet<u64>,
    /// Runs to the end, and how many of them needed the operator.
    runs: usize,
    resumed: usize,
    explained: usize,
}

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ends { runs, resumed, explained, .. } = self;
        write!(f, "{runs} runs to the end, {resumed} of them with an operator, {explained} explanations")
    }
}

impl Ends {
    pub(super) async fn check(&mut self, world: &World) -> Result<(), String> {
        self.explains_claims(world).await?;
        let mut passed = Vec::new();
        let mut run = world.fork();
        let is_over = self.run(&mut run, &mut passed).await;
        if is_over.map_err(|finding| format!("{finding}\nwhile all workers continue: {:?}", run.path))? {
            self.runs += 1;
            let mut is_known = false;
            if run.view.jobs.iter().any(|job| !job.state.is_final()) {
                self.resumed += 1;
                self.explains_rest(&run).await?;
                remove_obstacles(&mut run).await?;
                is_known = !self.run(&mut run, &mut Vec::new()).await?;
            }
            laws::hold(&run).await?;
            let open = run.view.jobs.iter().find(|job| !job.state.is_final());
            if let Some(job) = open.filter(|_| !is_known) {
                return Err(format!("job {} does not end: {:?}; tried {:?}", job.id, job.state, run.path));
            }
        }
        self.known.extend(passed);
        Ok(())
    }

    /// Works until nothing happens any more; false if a state was met from which the end is known.
    async fn run(&mut self, run: &mut World, passed: &mut Vec<u64>) -> Result<bool, String> {
        for _ in 0..ROUNDS {
            let before = run.core();
            if self.known.contains(&before) {
                return Ok(false);
            }
            passed.push(before);
            run.step(Action::Tick).await?;
            for worker in 0..WORKERS {
                match run.hands[worker] {
                    Hands::Empty => run.step(Action::Claim(worker)).await?,
                    Hands::Full(..) => run.step(Action::Complete(worker)).await?,
                    Hands::Gone => {}
                }
            }
            if run.core() == before {
                if run.next_timer().is_none() {
                    return Ok(true);
                }
                run.step(Action::Pass).await?;
            }
        }
        Err(format!("nothing ended within {ROUNDS} rounds: {:?}", run.path))
    }

    /// A job that is left has a reason, and what the reason names is there.
    async fn explains_rest(&mut self, run: &World) -> Result<(), String> {
        let open =
            |id: &str| run.view.jobs.iter().any(|job| job.id.to_string() == id && !job.state.is_final());
        for job in run.view.jobs.iter().filter(|job| !job.state.is_final()) {
            let reasons = reasons(run, job.id).await?;
            for reason in &reasons {
                self.explained += 1;
                let is_true = match reason.code {
                    "suspended" => job.state == JobState::Suspended,
                    "queue_paused" => run.is_paused,
                    // A suspended job keeps its backoff.
                    "not_due" => job.state == JobState::Suspended && job.next_run_at() > run.now(),
                    "dependencies_unmet" => reason.details["jobs"].as_array().is_some_and(|jobs| {
                        !jobs.is_empty() && jobs.iter().all(|job| job["id"].as_str().is_some_and(open))
                    }),
                    "waiting" => {
                        let mut children = run.view.jobs.iter().filter(|found| found.parent.is_some());
                        children.any(|child| !child.state.is_final())
                    }
                    _ => false,
                };
                if !is_true {
                    return Err(format!("job {} waits for something else than {reason:?}", job.id));
                }
            }
            if reasons.is_empty() {
                return Err(format!("job {} does not end, and nothing explains it: {job:?}", job.id));
            }
        }
        Ok(())
    }

    /// Exactly the jobs that wait without a reason are given to a worker that asks.
    async fn explains_claims(&mut self, world: &World) -> Result<(), String> {
        let Some(worker) = (0..WORKERS).find(|worker| world.hands[*worker] == Hands::Empty) else {
            return Ok(());
        };
        let mut asked = world.fork();
        // A claim applies timers that are due, and a question does not.
        asked.settle().await?;
        let mut expected = Vec::new();
        for job in asked.view.jobs.iter().filter(|job| !job.state.is_final()) {
            if job.state != JobState::Running {
                self.explained += 1;
                let reasons = reasons(&asked, job.id).await?;
                expected.push((job.id, reasons));
            }
        }
        let claimed = asked.claim(worker, JOBS).await?;
        for (job, reasons) in expected {
            if reasons.is_empty() != claimed.contains(&job) {
                return Err(format!("job {job} is explained by {reasons:?}, but a claim gave {claimed:?}"));
            }
        }
        Ok(())
    }
}

async fn reasons(world: &World, job: JobId) -> Result<Vec<windlass::store::Reason>, String> {
    let found = world.store().explain(&Caller::local(), job).await;
    found.map_err(|error| error.to_string())?.ok_or_else(|| format!("job {job} is gone"))
}

/// The operator undoes what keeps jobs waiting.
async fn remove_obstacles(run: &mut World) -> Result<(), String> {
    if run.is_paused {
        run.step(Action::Open).await?;
    }
    for number in 0..run.view.jobs.len() {
        if run.view.jobs[number].is_suspended_or_asked_to() {
            run.step(Action::Resume(number)).await?;
        }
    }
    Ok(())
}
