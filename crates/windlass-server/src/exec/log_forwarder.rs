//! Forwards a program's standard error to the job's log: lines in batches and the latest progress, a few times a second at
//! most. Output beyond the limits is read and discarded without blocking the program; the log says how many lines were left
//! out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass::Cx;
use windlass::error::WorkError;
use windlass::job::Progress;

use super::directive::Instruction;
use super::line_reader::Lines;
use crate::limits;

/// How many of the last lines are kept when others are left out: they usually contain the error.
const LAST_LINES: usize = 20;

/// Lines and progress not written yet, and what the outcome needs.
#[derive(Default)]
pub(super) struct LogBuffer {
    waiting: Vec<String>,
    waiting_bytes: usize,
    /// Lines and bytes that this attempt used so far.
    lines: u64,
    bytes: usize,
    left_out: u64,
    /// The last of the lines left out.
    last_left_out: VecDeque<String>,
    /// The last of all lines.
    last: VecDeque<String>,
    progress: Option<Progress>,
    retry_after: Option<Duration>,
    cost_cents: u32,
}

/// The content of one write.
#[derive(Debug, Default, PartialEq)]
struct Batch {
    lines: Vec<String>,
    progress: Option<Progress>,
}

impl LogBuffer {
    fn add(&mut self, line: String) {
        match Instruction::parse(&line) {
            Some(Instruction::Progress(progress)) => self.progress = Some(progress),
            Some(Instruction::RetryAfter(delay)) => self.retry_after = Some(delay),
            Some(Instruction::Cost(cents)) => self.cost_cents = self.cost_cents.saturating_add(cents),
            None => self.add_line(line),
        }
    }

    fn add_line(&mut self, line: String) {
        keep_last(&mut self.last, line.clone());
        let has_room = self.waiting.len() < limits::PROGRAM_LINES_PER_CALL
            && self.waiting_bytes + line.len() <= limits::PROGRAM_LOG_BYTES_PER_CALL;
        if has_room && !self.is_spent() {
            (self.lines, self.bytes) = (self.lines + 1, self.bytes + line.len());
            self.waiting_bytes += line.len();
            self.waiting.push(line);
        } else {
            self.left_out += 1;
            keep_last(&mut self.last_left_out, line);
        }
    }

    /// Whether this attempt has reached its limits.
    fn is_spent(&self) -> bool {
        self.lines >= limits::PROGRAM_LINES_MAX || self.bytes >= limits::PROGRAM_LOG_BYTES_MAX
    }

    /// Takes the content of the next write. At the limits, that is nothing before the end.
    fn take(&mut self, is_last: bool) -> Batch {
        let progress = self.progress.take();
        self.waiting_bytes = 0;
        let mut lines = std::mem::take(&mut self.waiting);
        if self.left_out > 0 && (is_last || !self.is_spent()) {
            let last = std::mem::take(&mut self.last_left_out);
            let gone = std::mem::take(&mut self.left_out) - last.len() as u64;
            if gone > 0 {
                lines.push(format!("… {gone} lines left out"));
            }
            lines.extend(last);
        }
        Batch { lines, progress }
    }
}

fn keep_last(lines: &mut VecDeque<String>, line: String) {
    if lines.len() == LAST_LINES {
        lines.pop_front();
    }
    lines.push_back(line);
}

/// The buffer between the reader and the sender.
#[derive(Default)]
pub(super) struct SharedLogBuffer {
    notes: Mutex<LogBuffer>,
    changed: Notify,
}

/// What the outcome needs from standard error.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct StderrTail {
    /// The end of the output, for the error message.
    pub(super) text: String,
    /// The requested retry delay.
    pub(super) retry_after: Option<Duration>,
    pub(super) cost_cents: u32,
}

impl SharedLogBuffer {
    fn lock(&self) -> MutexGuard<'_, LogBuffer> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until all writers have closed the pipe.
    pub(super) async fn listen(&self, mut from: impl AsyncRead + Unpin) {
        let (mut lines, mut buffer) = (Lines::default(), vec![0; limits::PROGRAM_READ_BYTES]);
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let mut notes = self.lock();
            lines.push(&buffer[..count], |line| notes.add(line));
            // An incomplete line is used if the program writes no more.
            drop(notes);
            self.changed.notify_one();
        }
        if let Some(line) = lines.rest() {
            self.lock().add(line);
        }
    }

    /// Writes to the job's log until `over`, or until the job's lease is lost.
    pub(super) async fn send(&self, cx: &Cx, over: &CancellationToken) {
        loop {
            tokio::select! {
                () = over.cancelled() => return,
                () = self.changed.notified() => {}
            }
            if let Err(WorkError::Stale(_)) = self.send_batch(cx, false).await {
                return;
            }
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(limits::PROGRAM_NOTES_EVERY) => {}
            }
        }
    }

    /// Writes the rest.
    pub(super) async fn finish(&self, cx: &Cx) {
        if let Err(error) = self.send_batch(cx, true).await {
            tracing::debug!(job = %cx.job_id(), %error, "the last log lines were not accepted");
        }
    }

    async fn send_batch(&self, cx: &Cx, is_last: bool) -> Result<(), WorkError> {
        let batch = self.lock().take(is_last);
        if let Some(progress) = batch.progress {
            cx.progress(progress.percent, progress.message.as_deref().unwrap_or_default()).await?;
        }
        if batch.lines.is_empty() {
            return Ok(());
        }
        let count = batch.lines.len() as u64;
        let written = cx.log_all(batch.lines).await;
        if written.is_err() {
            // Not retried: they may have arrived, and would be there twice.
            self.lock().left_out += count;
        }
        written
    }

    /// What the outcome needs, once the program has ended.
    pub(super) fn stderr_tail(&self) -> StderrTail {
        let notes = self.lock();
        let mut bytes = 0;
        let fits = |line: &&String| {
            bytes += line.len() + 1;
            bytes <= limits::STDERR_TAIL_BYTES
        };
        let mut last: Vec<&str> = notes.last.iter().rev().take_while(fits).map(String::as_str).collect();
        last.reverse();
        let text = match (last.is_empty(), notes.last.back()) {
            // A single line that is too long: use its beginning.
            (true, Some(line)) => line.chars().take(limits::STDERR_TAIL_BYTES / 4).collect(),
            _ => last.join("\n").trim().to_owned(),
        };
        StderrTail { text, retry_after: notes.retry_after, cost_cents: notes.cost_cents }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn forwarded(text: &str) -> SharedLogBuffer {
        let buffer = SharedLogBuffer::default();
        buffer.listen(text.as_bytes()).await;
        buffer
    }

    #[tokio::test]
    async fn lines_are_for_the_log_and_instructions_are_not() {
        let said = "one\nwindlass:progress 10 begun\nwindlass:retry-after 9s\ntwo\nwindlass:progress 20\nwindlass:cost 3";
        let buffer = forwarded(said).await;
        let batch = buffer.lock().take(false);
        assert_eq!(batch.lines, ["one", "two"]);
        assert_eq!(batch.progress, Some(Progress { percent: 20.0, message: None }));
        let words = buffer.stderr_tail();
        assert_eq!((words.text.as_str(), words.cost_cents), ("one\ntwo", 3));
        assert_eq!(words.retry_after, Some(Duration::from_secs(9)));
        assert_eq!(buffer.lock().take(true), Batch::default());
    }

    #[tokio::test]
    async fn too_many_lines_at_once_lose_their_middle_and_the_log_says_how_many() {
        let said = (0..5_000).map(|number| format!("line {number}")).collect::<Vec<_>>().join("\n");
        let buffer = forwarded(&said).await;
        let batch = buffer.lock().take(false);
        assert!(batch.lines.len() <= windlass::limits::LOG_LINES_PER_CALL_MAX);
        assert_eq!((batch.lines[0].as_str(), batch.lines.last().unwrap().as_str()), ("line 0", "line 4999"));
        let gone = 5_000 - limits::PROGRAM_LINES_PER_CALL - LAST_LINES;
        assert!(batch.lines.contains(&format!("… {gone} lines left out")));
    }

    #[tokio::test]
    async fn an_attempt_at_its_output_limit_reports_again_only_at_its_end() {
        let buffer = SharedLogBuffer::default();
        let line = format!("{}\n", "x".repeat(1_000));
        let mut sent = 0;
        for _ in 0..200 {
            buffer.listen(line.repeat(200).as_bytes()).await;
            sent += buffer.lock().take(false).lines.iter().map(String::len).sum::<usize>();
        }
        assert!(sent <= limits::PROGRAM_LOG_BYTES_MAX + 300_000, "{sent}");
        assert_eq!(buffer.lock().take(false), Batch::default());
        let last = buffer.lock().take(true).lines;
        assert_eq!(last.len(), LAST_LINES + 1);
        assert!(last[0].ends_with("lines left out"), "{}", last[0]);
    }

    #[tokio::test]
    async fn last_words_are_the_end_of_what_was_said_and_short() {
        let said: Vec<_> = (0..1_000).map(|number| format!("{number} {}", "y".repeat(300))).collect();
        let words = forwarded(&said.join("\n")).await.stderr_tail().text;
        assert!(
            words.len() <= limits::STDERR_TAIL_BYTES && words.lines().last().unwrap().starts_with("999 ")
        );
        let words = forwarded(&"ü".repeat(100_000)).await.stderr_tail().text;
        assert!(!words.is_empty() && words.len() <= limits::STDERR_TAIL_BYTES);
    }
}
