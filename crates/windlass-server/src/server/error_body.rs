//! Replaces hyper's empty 4xx responses with our JSON error body, and makes ambiguous requests unparsable (see `framing`),
//! so that hyper rejects them. Our own responses have a request id, which distinguishes them from hyper's.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use crate::http::{self, App};

/// Writes to `inner`, and adds a body to empty error responses.
pub(super) struct WithErrorBody<S> {
    inner: S,
    app: App,
    framing: Framing,
    /// The replacement of an empty error response, and how much of it was sent.
    words: Option<(Vec<u8>, usize)>,
}

impl<S> WithErrorBody<S> {
    pub(super) fn new(inner: S, app: App) -> WithErrorBody<S> {
        WithErrorBody { inner, app, framing: Framing::new(), words: None }
    }
}

/// The status of an error response that has no body and is not our own.
fn bare_refusal(bytes: &[u8]) -> Option<u16> {
    let head = bytes.strip_prefix(b"HTTP/1.1 ").filter(|head| head.ends_with(b"\r\n\r\n"))?;
    let head = std::str::from_utf8(head).ok()?;
    let status = head.get(..3)?.parse().ok().filter(|status| (400..500).contains(status))?;
    let is_bare = head.contains("\r\ncontent-length: 0\r\n") && !head.contains("\r\nx-request-id: ");
    is_bare.then_some(status)
}

impl<S: AsyncWrite + Unpin> WithErrorBody<S> {
    /// Sends the replacement of `bytes`; the writer gets the length of `bytes`.
    fn poll_words(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
        status: u16,
    ) -> Poll<io::Result<usize>> {
        let app = &self.app;
        let (words, sent) = self.words.get_or_insert_with(|| (http::unreadable(app, status), 0));
        while *sent < words.len() {
            let taken = ready!(Pin::new(&mut self.inner).poll_write(context, &words[*sent..]))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *sent += taken;
        }
        self.words = None;
        Poll::Ready(Ok(bytes.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithErrorBody<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.framing.check(&mut buffer.filled_mut()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithErrorBody<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match bare_refusal(bytes) {
            Some(status) => self.poll_words(context, bytes, status),
            None => Pin::new(&mut self.inner).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        // An empty error response is written alone: earlier responses have been sent.
        if let (Some(only), None) = (filled.next(), filled.next())
            && let Some(status) = bare_refusal(only)
        {
            return self.poll_words(context, only, status);
        }
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::bare_refusal;

    #[test]
    fn only_heads_alone_that_are_not_the_servers_own_are_bare_refusals() {
        let head =
            "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(bare_refusal(head.as_bytes()), Some(431));
        for other in [
            &head[..head.len() - 1],
            &head.replace("431", "204"),
            &head.replace("431", "xyz"),
            &head.replace("length: 0", "length: 5"),
            &head.replace("connection: close", "x-request-id: a"),
            "{\"payload\": \"HTTP/1.1 400 Bad Request\"}\r\n\r\n",
            "HTTP/1.1 ",
            "",
        ] {
            assert_eq!(bare_refusal(other.as_bytes()), None, "{other}");
        }
    }
}
