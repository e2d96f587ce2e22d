//! Limits on what a running attempt writes.

use std::time::Duration;

/// Bytes in one line of a job's log; longer lines are truncated.
pub const LOG_LINE_BYTES_MAX: usize = 8192;
/// Log lines stored per job; the oldest are dropped first.
pub const LOG_LINES_MAX: u64 = 10_000;
/// Log lines in one call.
pub const LOG_LINES_PER_CALL_MAX: usize = 1_000;
/// Characters in a progress message.
pub const PROGRESS_MESSAGE_CHARS_MAX: usize = 1024;
/// Jobs submitted in the commit of one completion: many jobs can complete in that commit. More are a child group or a
/// batch of their own.
pub const FOLLOW_UPS_MAX: usize = 100;
/// How long the record of a wait may stay unsaved while it is not known whether the job parks: parking writes it in the
/// same commit, and it must not depend on work that runs beside the wait.
pub const DEFERRED_WRITE_MAX: Duration = Duration::from_millis(10);
