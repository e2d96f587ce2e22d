//! Partial output of a handler. Chunks are written with the attempt's next write (a step or the outcome), or shortly
//! afterwards by a write of their own. Each write says how many chunks of the attempt precede it, so that a write whose
//! answer was lost can be repeated.

use std::convert::Infallible;
use std::sync::Mutex;

use serde::Serialize;
use tokio::sync::Notify;

use super::{Cx, lock};
use crate::error::{FieldError, FieldProblem, WorkError};
use crate::job::check_chunks;
use crate::limits;
use crate::store::command::attempt_writes::AttemptWrite;

/// Chunks that are not known to be written.
#[derive(Default)]
pub(super) struct StreamBuffer {
    chunks: Mutex<Unwritten>,
    added: Notify,
    /// Notified when chunks were written, or never will be.
    freed: Notify,
}

#[derive(Default)]
struct Unwritten {
    /// How many chunks of this attempt are known to be written.
    offset: u64,
    chunks: Vec<Vec<u8>>,
    bytes: usize,
    /// Whether the attempt has lost its lease: nothing is written any more.
    is_lost: bool,
}

impl Unwritten {
    /// Adds a chunk if there is room: all that waits must fit into one write.
    fn add(&mut self, chunk: &[u8]) -> bool {
        let has_room = self.chunks.len() < limits::STREAM_BUFFERED_MAX
            && self.bytes + chunk.len() <= limits::STREAM_CALL_BYTES_MAX;
        if has_room {
            self.bytes += chunk.len();
            self.chunks.push(chunk.to_vec());
        }
        has_room
    }

    /// The chunks of the attempt up to this count were written.
    fn written(&mut self, count: u64) {
        let new = usize::try_from(count.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let gone: usize = self.chunks.drain(..new.min(self.chunks.len())).map(|chunk| chunk.len()).sum();
        self.bytes -= gone;
        self.offset = self.offset.max(count);
    }
}

impl StreamBuffer {
    /// The chunks that are not known to be written, as a write.
    pub(super) fn write(&self) -> Option<AttemptWrite> {
        let unwritten = lock(&self.chunks);
        let (offset, chunks) = (Some(unwritten.offset), unwritten.chunks.clone());
        (!chunks.is_empty()).then_some(AttemptWrite::Stream { offset, chunks })
    }

    /// This was written, and waits no more.
    pub(super) fn written(&self, write: &AttemptWrite) {
        if let AttemptWrite::Stream { offset: Some(offset), chunks } = write {
            lock(&self.chunks).written(offset + chunks.len() as u64);
            self.freed.notify_waiters();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.chunks).chunks.is_empty()
    }

    fn lose(&self) {
        let mut unwritten = lock(&self.chunks);
        unwritten.is_lost = true;
        unwritten.chunks.clear();
        unwritten.bytes = 0;
        drop(unwritten);
        self.freed.notify_waiters();
    }
}

impl Cx {
    /// Adds a chunk to the job's partial output, for readers that follow it live: a token of a language model, a part
    /// of a report. It can be any value that is valid as JSON, at most [`limits::STREAM_CHUNK_BYTES_MAX`] long.
    ///
    /// Returns at once: chunks are written together, every [`limits::STREAM_WRITE_EVERY`] and with the next step or the
    /// outcome. If the store is slower than the handler, waits until there is room. If the attempt fails, the next one
    /// starts the output over, and readers learn it; the output of a step that was saved is not repeated.
    ///
    /// ```
    /// # async fn f(cx: windlass::Cx) -> anyhow::Result<()> {
    /// for word in ["Once", " upon", " a", " time"] {
    ///     cx.stream(word).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the chunk is too large or cannot be written as JSON, or if the attempt has lost its lease.
    ///
    /// [`limits::STREAM_CHUNK_BYTES_MAX`]: crate::limits::STREAM_CHUNK_BYTES_MAX
    /// [`limits::STREAM_WRITE_EVERY`]: crate::limits::STREAM_WRITE_EVERY
    pub async fn stream<T: Serialize + Sync + ?Sized>(&self, chunk: &T) -> Result<(), WorkError> {
        let chunk = serde_json::to_vec(chunk).map_err(|error| {
            let problem = FieldProblem::Contradiction(format!("cannot be written as JSON: {error}"));
            FieldError::new("chunk", problem)
        })?;
        check_chunks([chunk.as_slice()].into_iter())
            .map_err(|refused| FieldError::new("chunk", refused.problem))?;
        let buffer = &self.0.stream;
        loop {
            // Before the check: chunks that are written in between are not missed.
            let mut freed = std::pin::pin!(buffer.freed.notified());
            freed.as_mut().enable();
            {
                let mut unwritten = lock(&buffer.chunks);
                if unwritten.is_lost {
                    return Err(WorkError::Stale(self.job_id()));
                }
                if unwritten.add(&chunk) {
                    break;
                }
            }
            let _storing = self.0.order.storing();
            freed.await;
        }
        buffer.added.notify_one();
        if self.is_batched() {
            // Its attempt has no task of its own that could write later.
            self.flush().await?;
        }
        Ok(())
    }

    /// Never returns. Writes chunks that no other write has taken along.
    pub(crate) async fn write_stream(&self) -> Infallible {
        loop {
            self.0.stream.added.notified().await;
            while !self.0.stream.is_empty() {
                match self.flush().await {
                    Ok(()) => {}
                    Err(WorkError::Stale(_) | WorkError::NoSuchJob(_)) => self.0.stream.lose(),
                    Err(error) => {
                        tracing::debug!(job = %self.job_id(), %error, "failed to write output; it is written later");
                    }
                }
                tokio::time::sleep(limits::STREAM_WRITE_EVERY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(buffer: &StreamBuffer, chunk: &str) -> bool {
        lock(&buffer.chunks).add(chunk.as_bytes())
    }

    #[test]
    fn what_was_written_waits_no_more_in_whatever_order_writes_end() {
        let buffer = StreamBuffer::default();
        assert!(buffer.write().is_none());
        for chunk in ["1", "2"] {
            assert!(added(&buffer, chunk));
        }
        let first = buffer.write().unwrap();
        assert!(added(&buffer, "3"));
        let second = buffer.write().unwrap();
        let chunks = vec![b"1".to_vec(), b"2".to_vec(), b"3".to_vec()];
        assert_eq!(second, AttemptWrite::Stream { offset: Some(0), chunks });
        buffer.written(&second);
        buffer.written(&first);
        assert!(buffer.is_empty());
        assert!(added(&buffer, "4"));
        let last = buffer.write().unwrap();
        assert_eq!(last, AttemptWrite::Stream { offset: Some(3), chunks: vec![b"4".to_vec()] });
    }

    #[test]
    fn all_that_waits_fits_into_one_write() {
        let (buffer, large) = (StreamBuffer::default(), "x".repeat(limits::STREAM_CHUNK_BYTES_MAX));
        let fits = (0..10_000).take_while(|_| added(&buffer, &large)).count();
        assert_eq!(fits * large.len(), limits::STREAM_CALL_BYTES_MAX);
        let Some(AttemptWrite::Stream { chunks, .. }) = buffer.write() else { panic!("chunks wait") };
        check_chunks(chunks.iter().map(Vec::as_slice)).unwrap();
        let buffer = StreamBuffer::default();
        let fits = (0..10_000).take_while(|_| added(&buffer, "1")).count();
        assert_eq!(fits, limits::STREAM_BUFFERED_MAX);
    }
}
