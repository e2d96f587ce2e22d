//! Runs a program as a handler: one process per job, in its own process group. The payload is its standard input, job data
//! is in its environment, and its output becomes the result and the log. `exit_status.rs` maps exit codes to outcomes; the
//! store decides about retries.

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

pub use attempt::Summary;
pub use exit_status::Exit;
pub use process::is_runnable;
pub use reaper::{Guard, guard};
pub use signal::parse as parse_signal;

use crate::limits;
use exit_status::{Cause, ExitOutcome};
use output::ProgramResult;

/// What to run, and how.
pub struct RunOptions {
    /// The program, as a path or a name in PATH.
    pub command: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Maximum run time, if shorter than the job allows.
    pub timeout: Option<Duration>,
    /// How long a program may take to exit after the stop signal.
    pub grace: Duration,
    /// The signal for a suspended job.
    pub suspend_signal: Signal,
    /// Maximum size of a result.
    pub result_bytes_max: usize,
    /// The server's address, for programs that call it; never contains a key.
    pub url: Option<String>,
    /// The key that programs get, if any.
    pub key: Option<KeySecret>,
}

/// Runs a program for each job.
pub struct Program {
    conduct: RunOptions,
    /// One permit per process; released when the process is gone, whatever happened to the job.
    places: Arc<Semaphore>,
    places_max: u32,
    guard: Guard,
    killing: CancellationToken,
    broken: CancellationToken,
    leaving: CancellationToken,
    said: Box<dyn Fn(Summary) + Send + Sync>,
}

impl Program {
    /// Runs up to `places` processes at once; `said` receives a summary of each.
    pub fn new(
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

    /// Runs the program for one job. The process has its own task, so that it is stopped properly even if the handler's
    /// future is dropped.
    pub async fn handle(self: Arc<Program>, cx: Cx) -> Result<Option<ProgramResult>, anyhow::Error> {
        let place = tokio::select! {
            biased;
            () = cx.cancelled() => return Err(stopped()),
            place = self.places.clone().acquire_owned() => place.expect("the semaphore is never closed"),
        };
        let left = CancellationToken::new();
        let _leaves_when_dropped = left.clone().drop_guard();
        let (answer, exit_outcome) = oneshot::channel();
        let (program, context) = (self.clone(), cx.clone());
        tokio::spawn(async move {
            let exit_outcome = program.attempt(&context, left).await;
            drop(place);
            // The receiver may be gone.
            let _ = answer.send(exit_outcome);
        });
        let Ok(exit_outcome) = exit_outcome.await else {
            return Err(Failure::temporary("the task of the program failed").into());
        };
        match exit_outcome {
            ExitOutcome::Completed(answer) => Ok(answer),
            ExitOutcome::Failed(failure) => Err(failure.into()),
            // Neither is the job's fault, and nothing else releases the job.
            ExitOutcome::NotStarted { .. } | ExitOutcome::Stopped(Cause::Signalled) => {
                Err(Snooze(limits::PROGRAM_PAUSE).into())
            }
            ExitOutcome::Stopped(_) => {
                // The worker that stopped it releases the job, possibly a moment later.
                cx.cancelled().await;
                Err(stopped())
            }
        }
    }

    /// Marks the worker as stopping: external signals are then meant for the whole worker.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// Kills all processes.
    pub fn kill(&self) {
        self.killing.cancel();
    }

    /// Returns when no process is left.
    pub async fn emptied(&self) {
        drop(self.places.acquire_many(self.places_max).await);
    }

    /// The number of processes.
    pub fn running(&self) -> usize {
        (self.places_max as usize).saturating_sub(self.places.available_permits())
    }

    /// Returns if the program cannot be started at all.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }
}

fn stopped() -> anyhow::Error {
    Failure::temporary("the program was stopped").into()
}
