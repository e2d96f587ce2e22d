//! Any program as a handler: one process per job, in a process group of its own. The payload goes in, facts are in its
//! environment, what it prints comes back as result and log. It knows no rule of jobs; what an exit code means stands in
//! `verdict.rs`, what becomes of it is the store's to decide.

mod attempt;
mod directive;
mod env;
mod exit_status;
mod line_reader;
mod log_forwarder;
mod output;
mod process;
mod reaper;
mod signal;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use windlass::key::KeySecret;
use windlass::{Cx, Failure, Snooze};

pub(crate) use attempt::Summary;
pub(crate) use exit_status::Exit;
pub(crate) use process::is_runnable;
pub(crate) use reaper::{Guard, guard};
pub(crate) use signal::parse as parse_signal;

use crate::limits;
use exit_status::{Cause, ExitOutcome};
use output::Answer;

/// What to run, and how to treat it.
pub(crate) struct RunOptions {
    /// The program, as a path or a name to be looked up.
    pub(crate) command: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Longest run, if shorter than what the job allows.
    pub(crate) timeout: Option<Duration>,
    /// How long a program that was told to stop may take to end.
    pub(crate) grace: Duration,
    /// What tells it that its job was suspended.
    pub(crate) suspend_signal: Signal,
    /// Largest result.
    pub(crate) result_bytes_max: usize,
    /// Where the server is, for programs that call it themselves; never with a key in it.
    pub(crate) url: Option<String>,
    /// The key that programs are given, if any.
    pub(crate) key: Option<KeySecret>,
}

/// Runs a program for each job.
pub(crate) struct Program {
    conduct: RunOptions,
    /// One for each process that may run at once; none is free before its process is gone, whatever became of the job.
    places: Arc<Semaphore>,
    places_max: u32,
    guard: Guard,
    killing: CancellationToken,
    broken: CancellationToken,
    leaving: CancellationToken,
    said: Box<dyn Fn(Summary) + Send + Sync>,
}

impl Program {
    /// Runs up to `places` processes at once, and has `said` tell how each ended.
    pub(crate) fn new(
        conduct: RunOptions,
        places: u32,
        guard: Guard,
        said: impl Fn(Summary) + Send + Sync + 'static,
    ) -> Program {
        Program {
            conduct,
            places: Arc::new(Semaphore::new(places as usize)),
            places_max: places,
            guard,
            killing: CancellationToken::new(),
            broken: CancellationToken::new(),
            leaving: CancellationToken::new(),
            said: Box::new(said),
        }
    }

    /// Runs the program for one job. The process has a task of its own, so that it is stopped properly also when nobody
    /// waits for it any more.
    pub(crate) async fn handle(self: Arc<Program>, cx: Cx) -> Result<Option<Answer>, anyhow::Error> {
        let place = tokio::select! {
            biased;
            () = cx.cancelled() => return Err(stopped()),
            place = self.places.clone().acquire_owned() => place.expect("the semaphore is never closed"),
        };
        let left = CancellationToken::new();
        let _leaves_when_dropped = left.clone().drop_guard();
        let (answer, verdict) = oneshot::channel();
        let (program, context) = (self.clone(), cx.clone());
        tokio::spawn(async move {
            let verdict = program.attempt(&context, left).await;
            drop(place);
            // Nobody may be left to hear it.
            let _ = answer.send(verdict);
        });
        let Ok(verdict) = verdict.await else {
            return Err(Failure::temporary("the worker lost sight of its program").into());
        };
        match verdict {
            ExitOutcome::Completed(answer) => Ok(answer),
            ExitOutcome::Failed(failure) => Err(failure.into()),
            // Neither says anything about the job, and nobody else gives it back.
            ExitOutcome::NotStarted { .. } | ExitOutcome::Stopped(Cause::Signalled) => {
                Err(Snooze(limits::PROGRAM_PAUSE).into())
            }
            ExitOutcome::Stopped(_) => {
                // Given back by whoever said to stop it, which may be about to happen.
                cx.cancelled().await;
                Err(stopped())
            }
        }
    }

    /// Says that the worker leaves: signals from elsewhere are then meant for all of it.
    pub(crate) fn leave(&self) {
        self.leaving.cancel();
    }

    /// Ends all processes now.
    pub(crate) fn kill(&self) {
        self.killing.cancel();
    }

    /// Returns when no process is left.
    pub(crate) async fn emptied(&self) {
        drop(self.places.acquire_many(self.places_max).await);
    }

    /// How many processes there are.
    pub(crate) fn running(&self) -> usize {
        (self.places_max as usize).saturating_sub(self.places.available_permits())
    }

    /// Returns when the program turned out to be one that cannot be started at all.
    pub(crate) async fn broken(&self) {
        self.broken.cancelled().await;
    }
}

fn stopped() -> anyhow::Error {
    Failure::temporary("the program was told to stop").into()
}
