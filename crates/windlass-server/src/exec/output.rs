//! A program's standard output as the job's result: JSON if it is valid JSON, otherwise text. Output beyond the limit is
//! read and discarded, so that a full pipe never blocks the program.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limits;

/// A result to be stored.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct ProgramResult(Box<RawValue>);

/// The output is too large for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge {
    pub(super) bytes: u64,
}

/// The output so far.
pub(super) struct Output {
    bytes_max: usize,
    printed: Mutex<Capture>,
}

#[derive(Default)]
struct Capture {
    kept: Vec<u8>,
    bytes: u64,
}

impl Output {
    /// Keeps at most this much.
    pub(super) fn new(bytes_max: usize) -> Output {
        Output { bytes_max, printed: Mutex::default() }
    }

    /// Reads until all writers have closed the pipe.
    pub(super) async fn read(&self, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; limits::PROGRAM_READ_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
            printed.bytes += count as u64;
            // White space around a result is not part of it.
            let room = (self.bytes_max + limits::PROGRAM_READ_BYTES).saturating_sub(printed.kept.len());
            printed.kept.extend_from_slice(&buffer[..count.min(room)]);
        }
    }

    /// The result; None if nothing was printed.
    pub(super) fn answer(&self) -> Result<Option<ProgramResult>, TooLarge> {
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.bytes > printed.kept.len() as u64 {
            return Err(TooLarge { bytes: printed.bytes });
        }
        let Some(answer) = read(&printed.kept) else { return Ok(None) };
        // Text is longer as JSON.
        let bytes = answer.0.get().len();
        if bytes > self.bytes_max { Err(TooLarge { bytes: bytes as u64 }) } else { Ok(Some(answer)) }
    }
}

fn read(printed: &[u8]) -> Option<ProgramResult> {
    let trimmed = printed.trim_ascii();
    if trimmed.is_empty() {
        return None;
    }
    if let Some(json) = json(trimmed) {
        return Some(ProgramResult(json));
    }
    let text = String::from_utf8_lossy(printed);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Some(ProgramResult(to_raw_value(text).expect("text can always be written as JSON")))
}

/// The text itself, if it is JSON.
fn json(text: &[u8]) -> Option<Box<RawValue>> {
    if depth(text) > limits::PROGRAM_RESULT_DEPTH_MAX {
        return None;
    }
    // Parsed completely: raw JSON alone would accept numbers and characters that cannot be read again.
    serde_json::from_slice::<serde_json::Value>(text).ok()?;
    serde_json::from_slice(text).ok()
}

/// The nesting depth of brackets outside of strings.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut is_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'[' | b'{' if !is_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(printed: &[u8], bytes_max: usize) -> Result<Option<String>, TooLarge> {
        let output = Output::new(bytes_max);
        output.read(printed).await;
        Ok(output.answer()?.map(|answer| answer.0.get().to_owned()))
    }

    #[tokio::test]
    async fn json_is_kept_as_it_was_written_and_all_else_is_text() {
        for (printed, result) in [
            (&b"{\"a\": 1.10}\n"[..], Some("{\"a\": 1.10}")),
            (b" 12 ", Some("12")),
            (b"hello\nyou\n", Some("\"hello\\nyou\"")),
            (b"{\"a\": 1} {\"b\": 2}", Some("\"{\\\"a\\\": 1} {\\\"b\\\": 2}\"")),
            (b"\xff", Some("\"\u{fffd}\"")),
            (b"\"\\ud800\"", Some("\"\\\"\\\\ud800\\\"\"")),
            (b" \n", None),
            (b"", None),
        ] {
            assert_eq!(answer(printed, 100).await, Ok(result.map(str::to_owned)), "{printed:?}");
        }
    }

    #[tokio::test]
    async fn a_result_has_a_limit_and_white_space_around_it_does_not_count() {
        let printed = format!("\"{}\"\n", "x".repeat(98));
        assert!(answer(printed.as_bytes(), 100).await.unwrap().is_some());
        assert_eq!(answer(printed.as_bytes(), 99).await, Err(TooLarge { bytes: 100 }));
        let megabytes = vec![b'x'; 3 << 20];
        assert_eq!(answer(&megabytes, 100).await, Err(TooLarge { bytes: 3 << 20 }));
    }

    #[tokio::test]
    async fn brackets_too_deep_for_a_result_are_text() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(answer(deep(100).as_bytes(), 1_000).await.unwrap().unwrap().starts_with('['));
        assert!(answer(deep(101).as_bytes(), 1_000).await.unwrap().unwrap().starts_with('"'));
        let string = format!("\"{}\"", "[".repeat(200));
        assert_eq!(answer(string.as_bytes(), 1_000).await, Ok(Some(string)));
    }
}
