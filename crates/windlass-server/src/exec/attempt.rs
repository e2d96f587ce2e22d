//! One attempt: start the program, feed and hear it, stop it when told to, and say how it ended. Nothing of it is left
//! when this returns, and whatever holds its pipes open beyond its end is not waited for.

use std::io::{self, ErrorKind};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio_util::sync::CancellationToken;
use windlass::Cx;
use windlass::clock::Stopwatch;
use windlass::context::CancelReason;
use windlass::job::{Category, JobId, JobType, QueueName};

use super::exit_status::{Cause, Exit, ExitOutcome, judge};
use super::log_forwarder::SharedLogBuffer;
use super::output::Output;
use super::process::Process;
use super::{Program, env};
use crate::limits;

/// How an attempt ended, for people.
pub(crate) struct Summary {
    pub(crate) job: JobId,
    pub(crate) job_type: JobType,
    pub(crate) queue: QueueName,
    pub(crate) attempt: u32,
    pub(crate) took: Duration,
    /// None if it could not be started.
    pub(crate) exit: Option<Exit>,
    /// One word for it.
    pub(crate) outcome: &'static str,
    /// What kind of failure it was, if it was one.
    pub(crate) category: Option<Category>,
    /// What went wrong, if anything did.
    pub(crate) error: Option<String>,
}

impl Program {
    /// Runs the program for a job; `left` says that nobody waits for it any more.
    pub(super) async fn attempt(&self, cx: &Cx, left: CancellationToken) -> ExitOutcome {
        let watch = Stopwatch::start();
        let (exit, verdict) = match self.start(cx) {
            Ok(process) => match self.accompany(cx, process, &left).await {
                Ok((exit, verdict)) => (Some(exit), verdict),
                Err(error) => (None, ExitOutcome::NotStarted { error: error.to_string() }),
            },
            Err(error) => (None, self.not_started(&error)),
        };
        let (outcome, error) = match &verdict {
            ExitOutcome::Completed(_) => ("completed", None),
            ExitOutcome::Failed(failure) => ("failed", Some(failure.message.clone())),
            ExitOutcome::Stopped(cause) => (cause.as_str(), None),
            ExitOutcome::NotStarted { error } => ("not_started", Some(error.clone())),
        };
        let category = match &verdict {
            ExitOutcome::Failed(failure) => Some(failure.category),
            _ => None,
        };
        (self.said)(Summary {
            job: cx.job_id(),
            job_type: cx.job_type().clone(),
            queue: cx.queue_name().clone(),
            attempt: cx.attempt(),
            took: watch.elapsed(),
            exit,
            outcome,
            category,
            error,
        });
        verdict
    }

    fn start(&self, cx: &Cx) -> io::Result<Process> {
        let mut command = Command::new(&self.conduct.command);
        command.args(&self.conduct.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        env::set_env(&mut command, cx, &self.conduct);
        Process::start(&mut command)
    }

    /// The machine may be short of something for a while; a program that is not there will not come by itself.
    fn not_started(&self, error: &io::Error) -> ExitOutcome {
        let command = self.conduct.command.to_string_lossy();
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
            self.broken.cancel();
        }
        ExitOutcome::NotStarted { error: format!("cannot start {command}: {error}") }
    }

    /// Stays with a process to its end, and hears all that it said.
    async fn accompany(
        &self,
        cx: &Cx,
        mut process: Process,
        left: &CancellationToken,
    ) -> io::Result<(Exit, ExitOutcome)> {
        let watched = self.guard.watch(process.group());
        let pipes = (process.child.stdin.take(), process.child.stdout.take(), process.child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            unreachable!("all three were asked for, and nobody else takes them")
        };
        let output = Arc::new(Output::new(self.conduct.result_bytes_max));
        let notebook = Arc::new(SharedLogBuffer::default());
        let feeding = tokio::spawn(feed(stdin, cx.payload().bytes.clone()));
        let mut hearing = tokio::spawn({
            let (output, notebook) = (output.clone(), notebook.clone());
            async move { tokio::join!(output.read(stdout), notebook.listen(stderr)) }
        });
        let ended = CancellationToken::new();
        let sending = tokio::spawn({
            let (cx, notebook, ended) = (cx.clone(), notebook.clone(), ended.clone());
            async move { notebook.send(&cx, &ended).await }
        });
        let cause = self.supervise(cx, &mut process, left).await;
        let exit = process.reap().await?;
        drop(watched);
        feeding.abort();
        // Whoever has left the group may hold the pipes open for as long as it likes.
        if tokio::time::timeout(limits::PROGRAM_LINGER, &mut hearing).await.is_err() {
            hearing.abort();
        }
        let cause = match cause {
            None => self.shared_signal(exit).await,
            cause => cause,
        };
        ended.cancel();
        let finishing = async {
            // It only ever ends.
            let _ = sending.await;
            if !cause.is_some_and(Cause::is_cut_off) {
                notebook.finish(cx).await;
            }
        };
        // A log is not worth losing the outcome for.
        let _finished_or_not = tokio::time::timeout(limits::PROGRAM_NOTES_TIME_MAX, finishing).await;
        let words = notebook.last_words();
        cx.cost(words.cost_cents);
        Ok((exit, judge(exit, cause, output.answer(), &words, self.conduct.result_bytes_max)))
    }

    /// Waits for the process to end, and stops it when told to: why, if it was.
    async fn supervise(&self, cx: &Cx, process: &mut Process, left: &CancellationToken) -> Option<Cause> {
        let cause = tokio::select! {
            biased;
            () = process.ended() => return None,
            cause = self.told_to_stop(cx, left) => cause,
        };
        let (signal, grace) = self.farewell(cause);
        process.signal(signal);
        tokio::select! {
            () = process.ended() => {}
            () = tokio::time::sleep(grace) => {}
            () = self.killing.cancelled() => {}
        }
        process.signal(Signal::KILL);
        Some(cause)
    }

    async fn told_to_stop(&self, cx: &Cx, left: &CancellationToken) -> Cause {
        let limit = self.conduct.timeout.unwrap_or(windlass::limits::DURATION_MAX);
        tokio::select! {
            biased;
            () = self.killing.cancelled() => Cause::Killed,
            () = cx.cancelled() => Cause::Interrupted(cx.interruption().unwrap_or(CancelReason::Released)),
            () = left.cancelled() => Cause::Abandoned,
            () = tokio::time::sleep(limit) => Cause::TooLong(limit),
        }
    }

    /// What to say to a process that must stop, and how long to wait for it.
    fn farewell(&self, cause: Cause) -> (Signal, Duration) {
        let grace = self.conduct.grace;
        match cause {
            // Another worker may have the job by now: two at once is what a lease is there to prevent.
            Cause::Interrupted(CancelReason::Lost) | Cause::Killed | Cause::Abandoned => {
                (Signal::KILL, Duration::ZERO)
            }
            Cause::Interrupted(CancelReason::Suspended) => (self.conduct.suspend_signal, grace),
            Cause::Interrupted(CancelReason::StoreUnreachable) => {
                (Signal::TERM, grace.min(limits::PROGRAM_LEASE_LOST_GRACE))
            }
            Cause::Interrupted(_) | Cause::TooLong(_) | Cause::Signalled => (Signal::TERM, grace),
        }
    }

    /// Whether a program that was signalled by somebody else met its end together with the worker, as when a supervisor
    /// stops both: it did not crash then. The worker may hear of it a moment later.
    async fn shared_signal(&self, exit: Exit) -> Option<Cause> {
        let Exit::Signal(number) = exit else { return None };
        let signal = Signal::from_named_raw(number)?;
        if !matches!(signal, Signal::TERM | Signal::INT | Signal::HUP) {
            return None;
        }
        let leaving = tokio::time::timeout(limits::PROGRAM_SHARED_SIGNAL, self.leaving.cancelled()).await;
        leaving.is_ok().then_some(Cause::Signalled)
    }
}

/// Hands a program its payload. One that does not want it may close its end or simply end.
async fn feed(mut stdin: ChildStdin, payload: Arc<[u8]>) {
    let _wanted_or_not = stdin.write_all(&payload).await;
}
