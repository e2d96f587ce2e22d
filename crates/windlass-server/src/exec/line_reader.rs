//! Splits bytes into lines of bounded length: the rest of a longer line is counted and discarded.

use windlass::limits;

/// Space reserved for the note at the end of a cut line.
const REMARK_BYTES: usize = 64;
/// Bytes kept of a line.
const KEPT_BYTES: usize = limits::LOG_LINE_BYTES_MAX - REMARK_BYTES;

/// An incomplete line.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    left_out: usize,
}

impl Lines {
    /// Adds bytes, and calls `whole` for each complete line.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut whole: impl FnMut(String)) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..at]);
            whole(self.take());
            bytes = &bytes[at + 1..];
        }
        self.keep(bytes);
    }

    /// The text after the last line end, if any.
    pub(super) fn rest(&mut self) -> Option<String> {
        (!self.begun.is_empty()).then(|| self.take())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let (kept, left_out) = bytes.split_at(bytes.len().min(KEPT_BYTES - self.begun.len()));
        self.begun.extend_from_slice(kept);
        self.left_out += left_out.len();
    }

    fn take(&mut self) -> String {
        let (bytes, mut left_out) = (std::mem::take(&mut self.begun), std::mem::take(&mut self.left_out));
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(&bytes);
        // Replacing invalid UTF-8 makes the text longer.
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        let end = (0..=KEPT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        left_out += text.len() - end;
        text.truncate(end);
        if left_out == 0 { text } else { format!("{text} … ({left_out} bytes left out)") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, |line| found.push(line));
        }
        found.extend(lines.rest());
        found
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        assert_eq!(lines(&[b"one\ntw", b"o\r\n", b"\nlast"]), ["one", "two", "", "last"]);
        assert_eq!(lines(&[b""]), [""; 0]);
    }

    #[test]
    fn a_character_that_arrives_in_two_pieces_is_one() {
        let text = "grün\n".as_bytes();
        assert_eq!(lines(&[&text[..3], &text[3..]]), ["grün"]);
    }

    #[test]
    fn what_is_no_text_is_made_safe() {
        assert_eq!(lines(&[b"a\xffb\xf0\x9f\n"]), ["a\u{fffd}b\u{fffd}"]);
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let long = vec![b'x'; 3 * KEPT_BYTES];
        let seeds = [&b"one\ntwo\r\n\nlast"[..], "gr\u{fc}n\n".as_bytes(), b"a\xffb\xf0\x9f\n", &long];
        windlass_fuzz::Family::new("lines").seeds(seeds).words(["\n", "\r", "\r\n"]).cases(1_000).bytes(
            |bytes| {
                let whole = lines(&[bytes]);
                for size in [1, 3, 4_000] {
                    let cut: Vec<&[u8]> = bytes.chunks(size).collect();
                    if lines(&cut) != whole {
                        return Err(format!("in pieces of {size}: {:?}, at once: {whole:?}", lines(&cut)));
                    }
                }
                match whole.iter().find(|line| line.len() > limits::LOG_LINE_BYTES_MAX || line.contains('\n'))
                {
                    None => Ok(()),
                    Some(line) => Err(format!("a line of {} bytes", line.len())),
                }
            },
        );
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        for filling in [b'x', b'\xff'] {
            let long = vec![filling; 1 << 20];
            let found = lines(&[&long, &long, b"\nnext\n"]);
            assert_eq!(found.len(), 2);
            assert!(found[0].len() <= limits::LOG_LINE_BYTES_MAX, "{}", found[0].len());
            assert!(found[0].ends_with("bytes left out)"));
            assert_eq!(found[1], "next");
        }
    }
}
