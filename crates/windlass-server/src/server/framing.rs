//! Strict framing of requests. hyper accepts some requests that a proxy may interpret differently: lines without a carriage
//! return, a length beside a transfer encoding, folded headers. Here one byte of such a request is made invalid, so that
//! hyper rejects it (400) and closes the connection.

/// How much of a line is inspected: more than any relevant line needs.
const LINE_KEPT_MAX: usize = 128;
/// A byte that is not allowed in a request's head.
const UNREADABLE: u8 = 0;
/// A byte that ends nothing when it is repeated: neither a line, nor a head, nor trailers.
const ENDLESS: u8 = b'\r';

/// What is read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Empty lines before a request, or its first line.
    Start,
    Head,
    /// A body of known length with this many bytes left; or a chunk with its line end.
    Data {
        left: u64,
        is_chunk: bool,
    },
    ChunkSize,
    Trailer,
    /// The request is rejected: nothing that follows on the connection is readable.
    Refused,
}

/// Follows the bytes of one connection.
#[derive(Debug)]
pub(super) struct Framing {
    part: Part,
    line: Vec<u8>,
    previous: u8,
    length: Option<u64>,
    is_chunked: bool,
}

impl Framing {
    pub(super) fn new() -> Framing {
        Framing { part: Part::Start, line: Vec::new(), previous: 0, length: None, is_chunked: false }
    }

    /// Inspects the next bytes, and makes one of them invalid if the request must be rejected.
    pub(super) fn check(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match self.part {
                Part::Refused => return bytes[at..].fill(ENDLESS),
                Part::Data { left, is_chunk } => {
                    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    at += skipped;
                    self.part = match left - skipped as u64 {
                        0 if is_chunk => Part::ChunkSize,
                        0 => Part::Start,
                        left => Part::Data { left, is_chunk },
                    };
                }
                Part::Start | Part::Head | Part::ChunkSize | Part::Trailer => {
                    self.byte(&mut bytes[at]);
                    at += 1;
                }
            }
        }
    }

    fn byte(&mut self, byte: &mut u8) {
        if *byte != b'\n' {
            if self.line.len() < LINE_KEPT_MAX {
                self.line.push(*byte);
            }
            self.previous = *byte;
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        let is_whole = line.len() < LINE_KEPT_MAX;
        let is_ended = self.previous == b'\r';
        if is_whole {
            line.pop();
        }
        self.previous = *byte;
        if !is_ended || self.line_ended(&line, is_whole).is_none() {
            // hyper skips any other byte of a chunk's extension.
            if is_ended || self.part != Part::ChunkSize {
                *byte = UNREADABLE;
            }
            self.part = Part::Refused;
        }
        line.clear();
        self.line = line;
    }

    /// Handles a line; None if the request is rejected.
    fn line_ended(&mut self, line: &[u8], is_whole: bool) -> Option<()> {
        match self.part {
            Part::Start if line.is_empty() => {}
            Part::Start => (self.part, self.length, self.is_chunked) = (Part::Head, None, false),
            Part::Head if line.is_empty() => self.part = self.body()?,
            Part::Head => self.header(line, is_whole)?,
            Part::ChunkSize => self.part = chunk(line)?,
            Part::Trailer if line.is_empty() => self.part = Part::Start,
            Part::Trailer | Part::Data { .. } | Part::Refused => {}
        }
        Some(())
    }

    fn header(&mut self, line: &[u8], is_whole: bool) -> Option<()> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return None;
        }
        // A line without a colon is not a header: hyper rejects it.
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Some(()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        let is_encoding = name.eq_ignore_ascii_case(b"transfer-encoding");
        if !is_length && !is_encoding {
            return Some(());
        }
        let is_second = if is_length { self.length.is_some() } else { self.is_chunked };
        if is_second || !is_whole {
            return None;
        }
        if is_encoding {
            self.is_chunked = true;
            return value.eq_ignore_ascii_case(b"chunked").then_some(());
        }
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        self.length = Some(std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()?);
        Some(())
    }

    /// What follows the head.
    fn body(&self) -> Option<Part> {
        match (self.is_chunked, self.length) {
            (true, Some(_)) => None,
            (true, None) => Some(Part::ChunkSize),
            (false, None | Some(0)) => Some(Part::Start),
            (false, Some(left)) => Some(Part::Data { left, is_chunk: false }),
        }
    }
}

/// What follows the line with a chunk's size.
fn chunk(line: &[u8]) -> Option<Part> {
    let size = line.split(|byte| *byte == b';').next()?.trim_ascii();
    let is_number = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
    let size = std::str::from_utf8(size).ok().filter(|_| is_number)?;
    match u64::from_str_radix(size, 16).ok()? {
        0 => Some(Part::Trailer),
        // The data ends with its own line end.
        size => Some(Part::Data { left: size.checked_add(2)?, is_chunk: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the bytes are rejected, read in pieces of this size.
    fn is_refused(text: &str, piece: usize) -> bool {
        let (mut framing, mut bytes) = (Framing::new(), format!("{text}{GET}").into_bytes());
        bytes.chunks_mut(piece).for_each(|piece| framing.check(piece));
        let is_refused = framing.part == Part::Refused;
        let (first, next) = bytes.split_at(text.len());
        assert!(is_refused || first == text.as_bytes(), "{text:?}");
        let expected = if is_refused { vec![ENDLESS; GET.len()] } else { GET.as_bytes().to_vec() };
        assert_eq!(next, expected, "nothing follows a rejected request: {text:?}");
        is_refused
    }

    const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    #[test]
    fn requests_with_one_meaning_pass() {
        let post =
            |headers: &str, body: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{headers}\r\n\r\n{body}");
        let long = format!("x-long: {}", "a".repeat(1000));
        let requests = [
            GET.to_owned(),
            format!("\r\n{GET}"),
            post("content-length: 5", "a\nb\nc"),
            post("Content-Length:0", ""),
            post("transfer-encoding: chunked", "5\r\na\nb\nc\r\n1;x=y\r\n\n\r\n0\r\n\r\n"),
            post("Transfer-Encoding:\tChunked ", "0\r\nx-trailer: 1\r\n\r\n"),
            post(&long, ""),
            "GET / HTTP/1.1\r\nno colon here\r\n\r\n".to_owned(),
        ];
        for piece in [1, 2, 3, 7, 4096] {
            for request in &requests {
                assert!(!is_refused(request, piece), "{request:?} by {piece}");
                assert!(!is_refused(&format!("{request}{GET}{request}"), piece), "pipelined: {request:?}");
            }
        }
    }

    #[test]
    fn requests_with_two_meanings_are_refused() {
        let many = format!("transfer-encoding:{}chunked", " ".repeat(200));
        let heads = [
            "GET / HTTP/1.1\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\n",
            "GET / HTTP/1.1\r\nhost: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\tb: c\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: identity, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: +3\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 3, 3\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0x5\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;a=\n\r\nx\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\nc: d\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            &format!("POST / HTTP/1.1\r\n{many}\r\n\r\n"),
        ];
        for piece in [1, 2, 3, 7, 4096] {
            for head in heads {
                assert!(is_refused(head, piece), "{head:?} by {piece}");
                assert!(is_refused(&format!("{GET}{head}"), piece), "behind another: {head:?}");
            }
        }
    }
}
