//! Limits of submissions that are stored without the store's lock, by a node or in SQL, and taken in later.

use std::time::Duration;

/// Threads per node that append submissions without the store's lock, each with a connection. With two, callers that
/// wait for an answer never wait for the answers of others as well.
pub const APPENDERS: usize = 2;
/// Submissions that are appended together.
pub const APPENDS_PER_GROUP_MAX: usize = 64;
/// Jobs of one submission that is appended; a larger batch shares the cost of the lock among its jobs.
pub const APPENDED_JOBS_MAX: usize = 16;
/// Bytes of the payloads of such a submission: what one commit takes in stays in memory.
pub const APPENDED_BYTES_MAX: usize = 64 << 10;
/// Appended jobs after which a node takes in what is there, so that the next claim does not have to take in more.
pub const APPENDED_TAKEN_IN_AFTER: usize = 256;
/// Appended jobs of a node since its last commit; further ones wait for the lock, so that appending cannot get ahead of
/// taking in without end.
pub const APPENDED_AHEAD_MAX: usize = 2_048;
/// Rows of appended jobs that are read at once.
pub const APPENDS_READ_MAX: i64 = 500;
/// How long an appender does without a connection after it could not connect; the writer takes its work meanwhile.
pub const APPENDER_PAUSE: Duration = Duration::from_secs(1);
/// How often an appender reads again which lanes there are because a submission names another.
pub const APPENDER_LOOKS_AFTER: Duration = Duration::from_millis(100);
/// SQL submissions in the inbox that one commit turns into jobs, so that claims never wait long for it.
pub const INBOX_ENTRIES_PER_COMMIT: usize = 500;
/// Bytes of their payloads held in memory at once; one more payload may exceed it.
pub const INBOX_BYTES_MAX: usize = 16 << 20;
