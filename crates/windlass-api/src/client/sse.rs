//! Server-sent events. The server ends a stream with an `end` event; the caller decides whether to reconnect.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::error::ClientError;

/// The name of the event with which the server closes a stream.
pub const END: &str = "end";

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its number in the audit trail, to resume from; `None` if it is not stored.
    pub id: Option<u64>,
    /// The dotted event name, or [`END`].
    pub name: String,
    /// The record, as JSON.
    pub data: String,
}

/// An open event stream.
pub struct SseStream {
    body: Incoming,
    parser: Parser,
    silence_max: Duration,
    closed: CancellationToken,
}

impl SseStream {
    /// Reads the events of this body until the client is closed.
    pub(super) fn new(
        body: Incoming,
        silence_max: Duration,
        event_bytes_max: usize,
        closed: CancellationToken,
    ) -> SseStream {
        SseStream { body, parser: Parser::new(event_bytes_max), silence_max, closed }
    }

    /// The next event; `None` at the end of the stream. Fails if neither an event nor a keep-alive arrives in time.
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        loop {
            if let Some(event) = self.parser.ready.pop_front() {
                return Ok(Some(event));
            }
            let within = self.silence_max;
            let frame = tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(ClientError::Closed),
                frame = tokio::time::timeout(within, self.body.frame()) => frame,
            };
            match frame.map_err(|_| ClientError::Silent { within })? {
                // A broken connection is treated like the end of the stream.
                None | Some(Err(_)) => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.parser.feed(&bytes)?;
                    }
                }
            }
        }
    }
}

/// Assembles events from bytes.
#[derive(Debug)]
struct Parser {
    /// Bytes of an incomplete event.
    rest: Vec<u8>,
    /// How many of them were searched for the end of the event already: a long event arrives in many pieces.
    searched: usize,
    ready: VecDeque<SseEvent>,
    event_bytes_max: usize,
}

impl Parser {
    fn new(event_bytes_max: usize) -> Parser {
        Parser { rest: Vec::new(), searched: 0, ready: VecDeque::new(), event_bytes_max }
    }

    /// Adds bytes; complete events, which end with an empty line, become ready.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.rest.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(at) = self.rest[self.searched..].windows(2).position(|pair| pair == b"\n\n") {
            let end = self.searched + at + 2;
            self.ready.extend(event(&String::from_utf8_lossy(&self.rest[begin..end])));
            (begin, self.searched) = (end, end);
        }
        self.rest.drain(..begin);
        // Its last byte may be the first of two.
        self.searched = self.rest.len().saturating_sub(1);
        if self.rest.len() > self.event_bytes_max {
            return Err(ClientError::EventTooLong);
        }
        Ok(())
    }
}

/// Parses the event in a block of lines; `None` for a keep-alive.
fn event(block: &str) -> Option<SseEvent> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::trim_start));
    let (name, data) = (field("event:")?.to_owned(), field("data:")?.to_owned());
    Some(SseEvent { id: field("id:").and_then(|id| id.parse().ok()), name, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_however_they_arrive() {
        let text = ": alive\n\nid: 7\nevent: job.submitted\ndata: {\"seq\":7}\n\nevent: end\ndata: {}\n\n";
        for size in 1..text.len() {
            let mut parser = Parser::new(100);
            for chunk in text.as_bytes().chunks(size) {
                parser.feed(chunk).unwrap();
            }
            let names: Vec<_> = parser.ready.iter().map(|event| (event.id, event.name.as_str())).collect();
            assert_eq!(names, [(Some(7), "job.submitted"), (None, END)]);
        }
    }

    /// What arrives does not matter, nor in which pieces; and a long event takes no longer than a short one per byte.
    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let seeds = [
            "id: 7\nevent: a.b\ndata: {}\n\n",
            ": alive\n\n",
            "data: 1\nevent:x\n\n\n\n\nid: -1\nevent: y\ndata:\n\n",
        ];
        let words = ["\n\n", "\r\n", "data:", "event:", "id:", ": "];
        windlass_fuzz::Family::new("sse").seeds(seeds).words(words).bytes(|bytes| {
            let mut whole = Parser::new(1 << 20);
            whole.feed(bytes).map_err(|problem| problem.to_string())?;
            for size in [1, 2, 7] {
                let mut cut = Parser::new(1 << 20);
                for piece in bytes.chunks(size) {
                    cut.feed(piece).map_err(|problem| problem.to_string())?;
                }
                if cut.ready != whole.ready || cut.rest != whole.rest {
                    return Err(format!("{:?} in pieces of {size}, {:?} at once", cut.ready, whole.ready));
                }
            }
            Ok(())
        });
    }

    /// Searching from the start for each piece would look at 50 billion pairs of bytes here.
    #[test]
    fn a_long_event_is_searched_once() {
        let mut parser = Parser::new(1 << 20);
        let text = [b"event: a\ndata: ".to_vec(), vec![b'x'; (1 << 20) - 100]].concat();
        for piece in text.chunks(10) {
            parser.feed(piece).unwrap();
        }
        parser.feed(b"\n").unwrap();
        parser.feed(b"\n").unwrap();
        assert_eq!(parser.ready.pop_front().unwrap().data.len(), (1 << 20) - 100);
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut parser = Parser::new(100);
        parser.feed(&[b'x'; 100]).unwrap();
        assert!(matches!(parser.feed(b"x"), Err(ClientError::EventTooLong)));
    }
}
