//! Limits on what a running attempt writes, and on how long its steps wait.

use std::time::Duration;

/// Bytes in one line of a job's log; longer lines are truncated.
pub const LOG_LINE_BYTES_MAX: usize = 8192;
/// Log lines stored per job; the oldest are dropped first.
pub const LOG_LINES_MAX: u64 = 10_000;
/// Log lines in one call.
pub const LOG_LINES_PER_CALL_MAX: usize = 1_000;
/// Bytes of one streamed chunk: some thousand words. Larger pieces are several chunks, so that readers see them arrive.
pub const STREAM_CHUNK_BYTES_MAX: usize = 64 << 10;
/// Chunks in one call.
pub const STREAM_CHUNKS_PER_CALL_MAX: usize = 1_000;
/// Bytes of all chunks in one call; they are one row.
pub const STREAM_CALL_BYTES_MAX: usize = 1 << 20;
/// Bytes of streamed output that a job keeps, with [`STREAM_BLOCK_OVERHEAD`] for each call; the oldest are dropped first.
/// Far more than a language model writes; what must be kept whole belongs into the result or into file storage.
pub const STREAM_BYTES_MAX: u64 = 8 << 20;
/// Bytes that a call counts in addition to its chunks: a bound on the rows of a job, and on the rows that one call drops.
pub const STREAM_BLOCK_OVERHEAD: u64 = 1 << 10;
/// Rows of streamed output that are read at once.
pub const STREAM_BLOCKS_AT_ONCE: usize = 64;
/// Chunks on one page of a job's stream.
pub const STREAM_PAGE_CHUNKS_MAX: usize = 1_000;
/// Bytes of chunks after which a page of a job's stream ends early.
pub const STREAM_PAGE_BYTES: usize = 1 << 20;
/// Shortest time between two writes of one attempt's stream: chunks in between share a commit. Shorter than what a
/// reader notices.
pub const STREAM_WRITE_EVERY: Duration = Duration::from_millis(50);
/// Chunks that wait in a worker to be written; a handler that is faster than the store waits.
pub const STREAM_BUFFERED_MAX: usize = 1_000;
/// Shortest time between two reads of a waiting reader if another process wrote something: it does not say for which
/// job.
pub const STREAM_FOREIGN_READ_EVERY: Duration = Duration::from_millis(100);
/// Characters in a progress message.
pub const PROGRESS_MESSAGE_CHARS_MAX: usize = 1024;
/// Jobs submitted in the commit of one completion: many jobs can complete in that commit. More are a child group or a
/// batch of their own.
pub const FOLLOW_UPS_MAX: usize = 100;
/// Time until the end of a sleep or a wait that runs beside other work, and could not be saved, is written again.
pub const DEFERRED_WRITE_AGAIN: Duration = Duration::from_millis(200);
/// Steps listed in an error message: enough to see the mistake.
pub const STEPS_NAMED_MAX: usize = 20;
/// Checkpoints of one job; a job with more steps than this should be several jobs.
pub const CHECKPOINTS_MAX: usize = 10_000;
/// Bytes of all checkpoints of one job: a claim returns them together. Larger data belongs in file storage.
pub const CHECKPOINTS_BYTES_MAX: usize = 64 << 20;
/// How long a step that comes early waits for the steps that an earlier attempt saved before it, while its handler is
/// busy. A replay reaches a saved step as soon as the steps before it allow; after this time the difference is
/// attributed to scheduling, and the step runs.
pub const STEP_TURN_WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a new step that comes early waits for the steps that an earlier attempt saved before it, if nothing in its
/// handler can continue but a copy of its context exists, which may be in a task that is about to call them. Most tasks
/// that call steps do so sooner; after this time the difference is attributed to scheduling, and the step runs.
pub const STEP_COPY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a step that an earlier attempt dropped waits for the call that the handler preferred, in addition to twice
/// the time it took then: enough for a slow response. After this time that call is assumed not to come again, and the
/// step runs.
pub const DROPPED_STEP_WAIT_MAX: Duration = Duration::from_secs(10);
