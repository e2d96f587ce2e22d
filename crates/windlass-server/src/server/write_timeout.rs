//! A stream with a write timeout: disconnects a peer that reads too slowly. Read timeouts are set where requests are read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::limits::WRITE_BYTES_MIN;

/// Writes to `inner`, and fails if it does not take [`WRITE_BYTES_MIN`], or everything, within `wait_limit`.
pub(super) struct WriteTimeout<S> {
    inner: S,
    wait_limit: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes taken since the timeout was last reset.
    taken: usize,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(inner: S, wait_limit: Duration) -> WriteTimeout<S> {
        WriteTimeout { inner, wait_limit, stalled: None, taken: 0 }
    }

    /// The result of a write: a few bytes do not reset the timeout.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(outcome) = &written else { return self.waited(context) };
        self.taken = self.taken.saturating_add(*outcome.as_ref().unwrap_or(&0));
        if self.taken >= WRITE_BYTES_MIN {
            self.relax();
        }
        written
    }

    /// The result of a flush; once everything is sent, there is no timeout.
    fn sent(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if sent.is_pending() {
            return self.waited(context);
        }
        self.relax();
        sent
    }

    fn relax(&mut self) {
        self.stalled = None;
        self.taken = 0;
    }

    /// Continues waiting; fails after the timeout.
    fn waited<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.stalled.is_none() {
            self.taken = 0;
        }
        let wait_limit = self.wait_limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait_limit)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.sent(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.inner).poll_shutdown(context);
        self.sent(context, closed)
    }
}
