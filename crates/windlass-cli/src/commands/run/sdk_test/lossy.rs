//! A way to the server on which one answer is lost after the server has done what was asked: the worker must ask again, and
//! the server must not do it twice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Most bytes that are read before the first line of a request must have ended.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Requests whose answers may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A claim; only answers with a job count.
    Claim,
    Checkpoint,
    Outcome,
    Group,
    Output,
}

impl RequestKind {
    /// What a request with this first line asks.
    fn parse(line: &str) -> Option<RequestKind> {
        let path =
            line.strip_prefix("POST ").or_else(|| line.strip_prefix("PUT "))?.split([' ', '?']).next()?;
        let path = path.strip_prefix("/api/v1/")?;
        let of_job = path.strip_prefix("jobs/").and_then(|rest| rest.split('/').nth(1));
        match (path, of_job) {
            ("claims", _) => Some(RequestKind::Claim),
            ("outcomes", _) => Some(RequestKind::Outcome),
            ("checkpoints", _) | (_, Some("checkpoints")) => Some(RequestKind::Checkpoint),
            (_, Some("children")) => Some(RequestKind::Group),
            (_, Some("stream")) => Some(RequestKind::Output),
            _ => None,
        }
    }

    /// Whether an answer that begins like this says that something was done.
    fn is_done(self, answer: &[u8]) -> bool {
        let has = |part: &[u8]| answer.windows(part.len()).any(|window| window == part);
        answer.starts_with(b"HTTP/1.1 2") && (self != RequestKind::Claim || has(b"\"fence\""))
    }
}

/// The answer to lose.
#[derive(Debug, Clone, Copy)]
pub(super) struct LostAnswer {
    pub(super) asked: RequestKind,
    /// Which one of its kind, from 1.
    pub(super) number: usize,
}

/// How many answers of the kind the server has given.
#[derive(Debug, Clone, Default)]
pub(super) struct AnswerCount(Arc<AtomicUsize>);

impl AnswerCount {
    /// Whether the answer was lost.
    pub(super) fn reached(&self, lost: LostAnswer) -> bool {
        self.0.load(Ordering::Relaxed) >= lost.number
    }
}

/// Opens the way to the server at `far`; returns its address, and what will have gone through it.
pub(super) async fn open(
    far: SocketAddr,
    lost: LostAnswer,
    stop: CancellationToken,
) -> anyhow::Result<(SocketAddr, AnswerCount)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (near, given) = (listener.local_addr()?, AnswerCount::default());
    let counted = given.clone();
    tokio::spawn(async move {
        while let Some(Ok((client, _))) = stop.run_until_cancelled(listener.accept()).await {
            let counted = counted.clone();
            tokio::spawn(async move {
                if let Ok(server) = TcpStream::connect(far).await {
                    // A connection that breaks ends here, like one whose answer is lost.
                    let _broken = pass(client, server, lost, &counted).await;
                }
            });
        }
    });
    Ok((near, given))
}

/// Passes requests and answers on, which take turns on a connection.
async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    lost: LostAnswer,
    given: &AnswerCount,
) -> std::io::Result<()> {
    let (mut from_client, mut from_server) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    // The beginning of the current request, and of its answer.
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    let mut is_counted = false;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let part = &from_client[..read?];
                if part.is_empty() {
                    return Ok(());
                }
                if !answer.is_empty() {
                    (request, answer, is_counted) = (Vec::new(), Vec::new(), false);
                }
                let room = LINE_BYTES_MAX.saturating_sub(request.len()).min(part.len());
                request.extend_from_slice(&part[..room]);
                server.write_all(part).await?;
            }
            read = server.read(&mut from_server) => {
                let part = &from_server[..read?];
                if part.is_empty() {
                    return Ok(());
                }
                answer.extend_from_slice(part);
                let is_wanted = asked(&request) == Some(lost.asked);
                if is_wanted && !is_counted && lost.asked.is_done(&answer) {
                    is_counted = true;
                    if given.0.fetch_add(1, Ordering::Relaxed) + 1 == lost.number {
                        return Ok(());
                    }
                }
                client.write_all(part).await?;
            }
        }
    }
}

fn asked(request: &[u8]) -> Option<RequestKind> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    RequestKind::parse(std::str::from_utf8(line).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_distinguished_by_their_first_line() {
        let kind = |line: &str| asked(format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        assert_eq!(kind("POST /api/v1/claims"), Some(RequestKind::Claim));
        assert_eq!(kind("POST /api/v1/outcomes"), Some(RequestKind::Outcome));
        assert_eq!(kind("POST /api/v1/jobs/7/checkpoints"), Some(RequestKind::Checkpoint));
        assert_eq!(kind("PUT /api/v1/jobs/7/checkpoints/a"), Some(RequestKind::Checkpoint));
        assert_eq!(kind("POST /api/v1/checkpoints"), Some(RequestKind::Checkpoint));
        assert_eq!(kind("POST /api/v1/jobs/7/children"), Some(RequestKind::Group));
        assert_eq!(kind("POST /api/v1/jobs/7/stream"), Some(RequestKind::Output));
        for other in
            ["GET /api/v1/jobs/7/children", "POST /api/v1/heartbeats", "POST /api/v1/workers", "POST /x"]
        {
            assert_eq!(kind(other), None);
        }
        assert!(!RequestKind::Claim.is_done(b"HTTP/1.1 200 OK\r\n\r\n{\"jobs\":[]}"));
        assert!(RequestKind::Claim.is_done(b"HTTP/1.1 200 OK\r\n\r\n{\"jobs\":[{\"fence\":1}]}"));
        assert!(!RequestKind::Outcome.is_done(b"HTTP/1.1 503 Service Unavailable\r\n"));
    }
}
