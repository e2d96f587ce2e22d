//! One attempt: starts the program, connects its pipes, stops it if required, and determines the outcome. No process of its
//! group is left when this returns; processes outside the group that hold its pipes open are not waited for.

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

/// How an attempt ended, for messages.
pub struct Summary {
    /// The job.
    pub job: JobId,
    /// Its type.
    pub job_type: JobType,
    /// Its queue.
    pub queue: QueueName,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// From the start of the program to its end.
    pub took: Duration,
    /// None if it could not be started.
    pub exit: Option<Exit>,
    /// The outcome as one word.
    pub outcome: &'static str,
    /// The category of a failure.
    pub category: Option<Category>,
    /// The error, if it failed.
    pub error: Option<String>,
}

impl Program {
    /// Runs the program for a job; `left` is cancelled when the handler was dropped.
    pub(super) async fn attempt(&self, cx: &Cx, left: CancellationToken) -> ExitOutcome {
        let watch = Stopwatch::start();
        let (exit, exit_outcome) = match self.start(cx) {
            Ok(process) => match self.accompany(cx, process, &left).await {
                Ok((exit, exit_outcome)) => (Some(exit), exit_outcome),
                Err(error) => (None, ExitOutcome::NotStarted { error: error.to_string() }),
            },
            Err(error) => (None, self.not_started(&error)),
        };
        let (outcome, error) = match &exit_outcome {
            ExitOutcome::Completed(_) => ("completed", None),
            ExitOutcome::Failed(failure) => ("failed", Some(failure.message.clone())),
            ExitOutcome::Stopped(cause) => (cause.as_str(), None),
            ExitOutcome::NotStarted { error } => ("not_started", Some(error.clone())),
        };
        let category = match &exit_outcome {
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
        exit_outcome
    }

    fn start(&self, cx: &Cx) -> io::Result<Process> {
        let mut command = Command::new(&self.conduct.command);
        command.args(&self.conduct.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        env::set_env(&mut command, cx, &self.conduct);
        Process::start(&mut command)
    }

    /// A shortage of resources is temporary; a missing program is not.
    fn not_started(&self, error: &io::Error) -> ExitOutcome {
        let command = self.conduct.command.to_string_lossy();
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
            self.broken.cancel();
        }
        ExitOutcome::NotStarted { error: format!("cannot start {command}: {error}") }
    }

    /// Runs a process to its end and reads all its output.
    async fn accompany(
        &self,
        cx: &Cx,
        mut process: Process,
        left: &CancellationToken,
    ) -> io::Result<(Exit, ExitOutcome)> {
        let watched = self.guard.watch(process.group());
        let pipes = (process.child.stdin.take(), process.child.stdout.take(), process.child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            unreachable!("all three pipes were requested, and nothing else takes them")
        };
        let output = Arc::new(Output::new(self.conduct.result_bytes_max));
        let buffer = Arc::new(SharedLogBuffer::default());
        let feeding = tokio::spawn(feed(stdin, cx.payload().bytes.clone()));
        let mut reading = tokio::spawn({
            let (output, buffer) = (output.clone(), buffer.clone());
            async move { tokio::join!(output.read(stdout), buffer.listen(stderr)) }
        });
        let ended = CancellationToken::new();
        let sending = tokio::spawn({
            let (cx, buffer, ended) = (cx.clone(), buffer.clone(), ended.clone());
            async move { buffer.send(&cx, &ended).await }
        });
        let cause = self.supervise(cx, &mut process, left).await;
        let exit = process.reap().await?;
        drop(watched);
        feeding.abort();
        // A process that left the group may hold the pipes open.
        if tokio::time::timeout(limits::PROGRAM_LINGER, &mut reading).await.is_err() {
            reading.abort();
        }
        let cause = match cause {
            None => self.shared_signal(exit).await,
            cause => cause,
        };
        ended.cancel();
        let finishing = async {
            // It only ends.
            let _ = sending.await;
            if !cause.is_some_and(Cause::is_cut_off) {
                buffer.finish(cx).await;
            }
        };
        // The outcome must not be lost because of the log.
        let _finished_or_not = tokio::time::timeout(limits::PROGRAM_NOTES_TIME_MAX, finishing).await;
        let words = buffer.stderr_tail();
        cx.cost(words.cost_cents);
        Ok((exit, judge(exit, cause, output.answer(), &words, self.conduct.result_bytes_max)))
    }

    /// Waits for the process to end, and stops it if required; returns the cause if it was stopped.
    async fn supervise(&self, cx: &Cx, process: &mut Process, left: &CancellationToken) -> Option<Cause> {
        let cause = tokio::select! {
            biased;
            () = process.ended() => return None,
            cause = self.stop_cause(cx, left) => cause,
        };
        let (signal, grace) = self.stop_signal(cause);
        process.signal(signal);
        tokio::select! {
            () = process.ended() => {}
            () = tokio::time::sleep(grace) => {}
            () = self.killing.cancelled() => {}
        }
        process.signal(Signal::KILL);
        Some(cause)
    }

    async fn stop_cause(&self, cx: &Cx, left: &CancellationToken) -> Cause {
        let limit = self.conduct.timeout.unwrap_or(windlass::limits::DURATION_MAX);
        tokio::select! {
            biased;
            () = self.killing.cancelled() => Cause::Killed,
            () = cx.cancelled() => Cause::Interrupted(cx.interruption().unwrap_or(CancelReason::Released)),
            () = left.cancelled() => Cause::Abandoned,
            () = tokio::time::sleep(limit) => Cause::TooLong(limit),
        }
    }

    /// The stop signal for a cause, and the grace period.
    fn stop_signal(&self, cause: Cause) -> (Signal, Duration) {
        let grace = self.conduct.grace;
        match cause {
            // Another worker may have the job by now, and a lease must prevent two at once.
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

    /// Whether a program that died of an external signal was stopped together with the worker, as by a supervisor: that is
    /// not a crash. The worker may receive the signal a moment later.
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

/// Writes the payload to the program. The program may close its standard input or exit early.
async fn feed(mut stdin: ChildStdin, payload: Arc<[u8]>) {
    let _wanted_or_not = stdin.write_all(&payload).await;
}
