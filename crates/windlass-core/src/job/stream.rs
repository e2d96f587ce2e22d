//! The partial output that a running job streams: how its chunks are numbered, which of them a repeated request has sent
//! before, when output starts over, and how much is kept. Pure; the chunks themselves are job data.

use serde::{Deserialize, Serialize};

use super::{AttemptOutcome, JobRecord};
use crate::error::{FieldError, FieldProblem};
use crate::limits;

/// What a job has streamed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamTotals {
    /// Number of the last chunk; chunks are numbered from 1.
    pub last: u64,
    /// Number of the last chunk that was dropped to make room; 0 if none was.
    #[serde(default)]
    pub dropped: u64,
    /// Bytes that are kept, with [`STREAM_BLOCK_OVERHEAD`](limits::STREAM_BLOCK_OVERHEAD) for each request.
    pub bytes: u64,
    /// The attempt that wrote last.
    pub attempt: u32,
    /// How many chunks that attempt wrote.
    pub of_attempt: u64,
    /// Whether an attempt has ended since without parking: the next attempt runs the handler from its top, so its
    /// output starts over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_interrupted: bool,
}

/// Where new chunks come in a job's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlace {
    /// Number of the first new chunk.
    pub first: u64,
    /// Whether output starts over with it: an earlier attempt that had streamed ended without parking.
    pub is_restart: bool,
}

impl StreamTotals {
    /// How many of the chunks of a request are stored already, because the request is a repeat. `offset` is how many
    /// chunks the attempt had sent before them.
    pub fn known(&self, attempt: u32, offset: Option<u64>, chunks: usize) -> Result<usize, FieldError> {
        let Some(offset) = offset else { return Ok(0) };
        let written = if self.attempt == attempt { self.of_attempt } else { 0 };
        let Some(known) = written.checked_sub(offset) else {
            let problem = FieldProblem::OutOfRange {
                value: offset.to_string(),
                min: "0".into(),
                max: written.to_string(),
            };
            return Err(FieldError::new("offset", problem));
        };
        Ok(usize::try_from(known).unwrap_or(usize::MAX).min(chunks))
    }

    /// Adds chunks of an attempt, which are then [kept](StreamTotals::keep).
    pub fn add(&mut self, attempt: u32, chunks: u64) -> StreamPlace {
        let place = StreamPlace { first: self.last + 1, is_restart: self.is_interrupted && self.last > 0 };
        if self.attempt != attempt {
            (self.attempt, self.of_attempt) = (attempt, 0);
        }
        self.is_interrupted = false;
        self.last += chunks;
        self.of_attempt += chunks;
        place
    }

    /// The chunks of one request are stored in this many bytes.
    pub fn keep(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(limits::STREAM_BLOCK_OVERHEAD);
    }

    /// Whether the oldest chunks have to be dropped.
    pub fn is_full(&self) -> bool {
        self.bytes > limits::STREAM_BYTES_MAX
    }

    /// The oldest chunks, up to the number `last`, were dropped.
    pub fn drop_oldest(&mut self, last: u64, bytes: u64) {
        self.dropped = self.dropped.max(last);
        self.bytes = self.bytes.saturating_sub(bytes.saturating_add(limits::STREAM_BLOCK_OVERHEAD));
    }
}

/// Checks the sizes of the chunks of one request.
pub fn check_chunks<'a>(chunks: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), FieldError> {
    let (length, limit) = (chunks.len(), limits::STREAM_CHUNKS_PER_CALL_MAX);
    if length == 0 {
        return Err(FieldError::new("chunks", FieldProblem::Missing));
    }
    if length > limit {
        return Err(FieldError::new("chunks", FieldProblem::TooLong { length, limit }));
    }
    let mut total = 0;
    for (index, chunk) in chunks.enumerate() {
        let field = || format!("chunks.{index}");
        let (length, limit) = (chunk.len(), limits::STREAM_CHUNK_BYTES_MAX);
        if length > limit {
            return Err(FieldError::new(field(), FieldProblem::TooLong { length, limit }));
        }
        total += length;
        let limit = limits::STREAM_CALL_BYTES_MAX;
        if total > limit {
            return Err(FieldError::new(field(), FieldProblem::TooManyBytes { length: total, limit }));
        }
    }
    Ok(())
}

/// Called when an attempt has ended. After a park the handler continues, so its output does too.
pub(super) fn attempt_ended(job: &mut JobRecord, outcome: Option<AttemptOutcome>) {
    let is_over = outcome.is_some_and(|outcome| outcome != AttemptOutcome::Parked);
    if is_over && job.details.stream.is_some_and(|stream| !stream.is_interrupted) {
        let stream = job.details_mut().stream.as_mut();
        stream.expect("it was there").is_interrupted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_numbered_across_attempts_and_counted_within_one() {
        let mut totals = StreamTotals::default();
        assert_eq!(totals.add(1, 3), StreamPlace { first: 1, is_restart: false });
        assert_eq!(totals.add(1, 2), StreamPlace { first: 4, is_restart: false });
        assert_eq!((totals.last, totals.of_attempt), (5, 5));
        assert_eq!(totals.add(2, 1), StreamPlace { first: 6, is_restart: false }, "the job had parked");
        assert_eq!((totals.last, totals.attempt, totals.of_attempt), (6, 2, 1));
        totals.is_interrupted = true;
        assert_eq!(totals.add(4, 1), StreamPlace { first: 7, is_restart: true });
        assert_eq!(totals.add(4, 1), StreamPlace { first: 8, is_restart: false });
    }

    #[test]
    fn an_interruption_before_the_first_chunk_is_no_restart() {
        let mut totals = StreamTotals { is_interrupted: true, ..StreamTotals::default() };
        assert!(!totals.add(2, 1).is_restart);
    }

    #[test]
    fn a_repeated_request_adds_only_what_is_new_and_a_gap_is_refused() {
        let mut totals = StreamTotals::default();
        totals.add(1, 3);
        assert_eq!(totals.known(1, None, 2).unwrap(), 0, "without an offset all are new");
        assert_eq!(totals.known(1, Some(3), 2).unwrap(), 0);
        assert_eq!(totals.known(1, Some(2), 2).unwrap(), 1);
        assert_eq!(totals.known(1, Some(0), 2).unwrap(), 2, "never more than were sent");
        assert_eq!(totals.known(1, Some(4), 2).unwrap_err().field, "offset");
        assert_eq!(totals.known(2, Some(0), 2).unwrap(), 0, "each attempt counts for itself");
        assert!(totals.known(2, Some(1), 2).is_err());
    }

    #[test]
    fn the_bytes_of_dropped_chunks_make_room() {
        let mut totals = StreamTotals::default();
        totals.keep(limits::STREAM_BYTES_MAX - limits::STREAM_BLOCK_OVERHEAD);
        assert!(!totals.is_full());
        totals.keep(1);
        assert!(totals.is_full());
        totals.drop_oldest(1, limits::STREAM_BYTES_MAX - limits::STREAM_BLOCK_OVERHEAD);
        assert_eq!((totals.dropped, totals.bytes), (1, 1 + limits::STREAM_BLOCK_OVERHEAD));
    }

    #[test]
    fn chunks_and_requests_have_a_largest_size() {
        let fits = vec![0; limits::STREAM_CHUNK_BYTES_MAX];
        let check = |chunks: &[&[u8]]| check_chunks(chunks.iter().copied());
        let field = |chunks: &[&[u8]]| check(chunks).unwrap_err().field;
        check(&[&fits, &fits]).unwrap();
        assert_eq!(field(&[]), "chunks");
        assert_eq!(field(&vec![&b"1"[..]; limits::STREAM_CHUNKS_PER_CALL_MAX + 1]), "chunks");
        assert_eq!(field(&[b"1", &vec![0; fits.len() + 1]]), "chunks.1");
        let most = limits::STREAM_CALL_BYTES_MAX / limits::STREAM_CHUNK_BYTES_MAX;
        check(&vec![&fits[..]; most]).unwrap();
        assert_eq!(field(&vec![&fits[..]; most + 1]), format!("chunks.{most}"));
    }
}
