//! Parser for server-sent events. The server ends a stream with an `end` event; the caller decides whether to reconnect.

use std::collections::VecDeque;

use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::cli::error::Failure;
use crate::limits;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its number in the audit trail, to resume from; None if it is not stored.
    pub(crate) id: Option<u64>,
    /// The dotted event name; `end` if the server closes the stream.
    pub(crate) name: String,
    /// The record, as JSON.
    pub(crate) data: String,
}

/// An open event stream.
pub(crate) struct EventStream {
    body: Incoming,
    place: String,
    parser: Parser,
}

impl EventStream {
    pub(in crate::cli) fn new(body: Incoming, place: String) -> EventStream {
        EventStream { body, place, parser: Parser::default() }
    }

    /// The next event; None at the end of the stream. Fails if neither an event nor a keep-alive arrives in time.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.parser.ready.pop_front() {
                return Ok(Some(event));
            }
            let within = limits::CLIENT_SILENCE_MAX;
            let frame = tokio::time::timeout(within, self.body.frame()).await;
            let silent = |_| Failure::Silent { place: self.place.clone(), within };
            let bad = |problem: String| Failure::BadAnswer { place: self.place.clone(), problem };
            match frame.map_err(silent)? {
                // A broken connection is treated like the end of the stream.
                None | Some(Err(_)) => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.parser.feed(&bytes).map_err(bad)?;
                    }
                }
            }
        }
    }
}

/// Assembles events from bytes.
#[derive(Debug, Default)]
struct Parser {
    rest: Vec<u8>,
    ready: VecDeque<Event>,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            self.ready.extend(event(&String::from_utf8_lossy(&block)));
        }
        if self.rest.len() > limits::CLIENT_EVENT_BYTES_MAX {
            return Err("it sent an event that is too long".to_owned());
        }
        Ok(())
    }
}

/// Parses the event in a block of lines; None for a keep-alive.
fn event(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::trim_start));
    let (name, data) = (field("event:")?.to_owned(), field("data:")?.to_owned());
    Some(Event { id: field("id:").and_then(|id| id.parse().ok()), name, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_however_they_arrive() {
        let text = ": alive\n\nid: 7\nevent: job.submitted\ndata: {\"seq\":7}\n\nevent: end\ndata: {}\n\n";
        for size in 1..text.len() {
            let mut parser = Parser::default();
            for chunk in text.as_bytes().chunks(size) {
                parser.feed(chunk).unwrap();
            }
            let names: Vec<_> = parser.ready.iter().map(|event| (event.id, event.name.as_str())).collect();
            assert_eq!(names, [(Some(7), "job.submitted"), (None, "end")]);
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut parser = Parser::default();
        assert!(parser.feed(&vec![b'x'; limits::CLIENT_EVENT_BYTES_MAX + 1]).is_err());
    }
}
