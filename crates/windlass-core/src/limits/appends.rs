//! Limits of submissions that are stored without the store's lock, by a node or in SQL, and taken in later.

use std::time::Duration;

/// Threads per node that append submissions without the store's lock, each with a connection. With two, many callers, and
/// those beside a slow append, do not wait for the answers of others.
pub const APPENDERS: usize = 2;
/// Submissions that are appended together.
pub const APPENDS_PER_GROUP_MAX: usize = 64;
/// Submissions from which on an appender waits for no more of them; two appends of so many are on their way at once.
pub const APPENDS_GATHERED_MAX: usize = 16;
/// The most that submissions wait for those of callers which were answered with them.
pub const APPENDS_GATHERED_FOR: Duration = Duration::from_micros(300);
/// The same as a part of the time that an append takes: a tenth.
pub const APPENDS_GATHERED_SHARE: u32 = 10;
/// How long submissions wait for a smaller group that is being appended, or twice as long as the last append took; after
/// that the other appender takes them.
pub const APPENDS_OVERLAP_AFTER: Duration = Duration::from_millis(2);
/// The same at most: an append that took long, because it connected or waited for a standby, keeps no caller waiting as long.
pub const APPENDS_OVERLAP_MAX: Duration = Duration::from_millis(100);
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
/// How often an appender reads settings and lanes again because a submission names another lane, or cannot be appended.
pub const APPENDER_LOOKS_AFTER: Duration = Duration::from_millis(100);
/// SQL submissions in the inbox that one commit turns into jobs, so that claims never wait long for it.
pub const INBOX_ENTRIES_PER_COMMIT: usize = 500;
/// Bytes of their payloads held in memory at once; one more payload may exceed it.
pub const INBOX_BYTES_MAX: usize = 16 << 20;
