//! The limits of commands, each with its reason; those of the server are in `windlass_server::limits`, those of jobs and
//! stores in the library.

use std::time::Duration;

/// File descriptors a process needs besides its connections: store, logs, outgoing calls.
pub(crate) const FILES_KEPT_FREE: u64 = 256;
/// Maximum time from the stop signal to the exit; an unreachable database is not waited for longer.
pub(crate) const STOP_MAX: Duration = Duration::from_millis(9_500);
/// Minimum time to close the store, however long the requests before took.
pub(crate) const STORE_CLOSE_MIN: Duration = Duration::from_secs(2);
/// Interval of retries if the database cannot be reached at startup.
pub(crate) const STORE_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long `windlass health` waits for a response: health checks usually have a limit of 5 s.
pub(crate) const HEALTH_TIME_MAX: Duration = Duration::from_secs(4);
/// How much longer than the program's grace period a worker waits for a handler: the program is killed in between.
pub(crate) const PROGRAM_GRACE_MARGIN: Duration = Duration::from_secs(7);

/// How often `windlass dev` looks for changed files.
pub(crate) const WATCH_EVERY: Duration = Duration::from_millis(500);
/// Files that it looks at: a folder with more has something in it that is not a program's source.
pub(crate) const WATCHED_FILES_MAX: usize = 20_000;
/// How long a program of `windlass dev` may take to stop.
pub(crate) const DEV_PROGRAM_GRACE: Duration = Duration::from_secs(5);

/// Time for a command to connect to a server.
pub(crate) const CLIENT_CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time for a command to wait for a response, in addition to a requested wait: as long as the server may take.
pub(crate) const CLIENT_CALL_TIME_MAX: Duration = Duration::from_secs(35);
/// How long a command keeps a connection for the next call: less than the server does.
pub(crate) const CLIENT_IDLE_MAX: Duration = Duration::from_secs(20);
/// Bytes of a response that a command accepts: a page of 500 jobs with payloads of 1 MiB each.
pub(crate) const CLIENT_ANSWER_BYTES_MAX: usize = 512 << 20;
/// Maximum silence of a stream: three keep-alives.
pub(crate) const CLIENT_SILENCE_MAX: Duration = Duration::from_secs(45);
/// Bytes of one event.
pub(crate) const CLIENT_EVENT_BYTES_MAX: usize = 1 << 20;
/// Time for a bulk action on the server.
pub(crate) const CLIENT_BULK_TIME_MAX: Duration = Duration::from_secs(600);
/// Jobs per call of a bulk action by a command: some tenths of a second, so that the progress is visible.
pub(crate) const CLIENT_BULK_JOBS: u64 = 2_000;
/// Jobs per page for a command: the API's maximum.
pub(crate) const LIST_PAGE_JOBS: usize = 500;
/// Pages of the newest jobs that are searched for the suffix of an id, which has no index.
pub(crate) const ID_SEARCH_PAGES_MAX: usize = 10;
/// Jobs per batch: the API's maximum.
pub(crate) const BATCH_JOBS: usize = 10_000;
/// Jobs per batch after one was rejected: a rejection affects the whole batch.
pub(crate) const BATCH_JOBS_CAREFUL: usize = 200;
/// Bytes per batch: well below the server's limit.
pub(crate) const BATCH_BYTES: usize = 16 << 20;
/// Audit records per page for a command: the API's maximum.
pub(crate) const AUDIT_PAGE_RECORDS: usize = 1_000;
/// Pause before a lost event stream is reopened.
pub(crate) const FOLLOW_PAUSE: Duration = Duration::from_secs(1);
/// How often that is tried: a restart takes less.
pub(crate) const FOLLOW_TRIES_MAX: u32 = 60;
/// How often a command polls the progress of a running job, and the state of a job without an event stream.
pub(crate) const JOB_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a command's long poll for a job's end lasts: proxies allow it.
pub(crate) const JOB_WAIT: Duration = Duration::from_secs(15);
/// How often a command polls the log of a running job.
pub(crate) const LOG_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Jobs whose logs are read at a time: each is a request per poll.
pub(crate) const LOGS_JOBS_MAX: usize = 100;

/// Terminal events buffered for `windlass top`: more than a person types while one screen is drawn.
#[cfg(feature = "top")]
pub(crate) const TERMINAL_EVENTS_BUFFERED: usize = 256;
/// Updates buffered for `windlass top`.
#[cfg(feature = "top")]
pub(crate) const TOP_EVENTS_BUFFERED: usize = 64;
/// Poll interval of `windlass top`: often enough to appear live, rarely enough to cost nothing.
#[cfg(feature = "top")]
pub(crate) const TOP_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often `windlass top` reads a history of days again, whose points are ten minutes or more apart.
#[cfg(feature = "top")]
pub(crate) const TOP_HISTORY_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum pause before `windlass top` retries a lost server.
#[cfg(feature = "top")]
pub(crate) const TOP_RETRY_MAX: Duration = Duration::from_secs(5);
/// Jobs per list of `windlass top`: several times the rows of the tallest terminal.
#[cfg(feature = "top")]
pub(crate) const TOP_JOBS_MAX: usize = 200;
/// Recently failed jobs that are read one by one, per poll.
#[cfg(feature = "top")]
pub(crate) const TOP_FAILURES_PER_POLL: usize = 10;
/// How long `windlass top` shows the result of a command.
#[cfg(feature = "top")]
pub(crate) const TOP_NOTE_TIME: Duration = Duration::from_secs(8);

/// Nodes of a benchmark: each is a process with several connections.
#[cfg(feature = "bench")]
pub(crate) const BENCH_NODES_MAX: usize = 64;
/// Round trip time that a benchmark adds: more than once around the earth.
#[cfg(feature = "bench")]
pub(crate) const BENCH_RTT_MAX: Duration = Duration::from_secs(1);
/// Combinations of nodes and round trip times in one benchmark: each takes about 20 seconds.
#[cfg(feature = "bench")]
pub(crate) const BENCH_COMBINATIONS_MAX: usize = 64;
/// How long a node of a benchmark may take to start, or to answer beyond the time of a measurement: a busy machine starts
/// many at once.
#[cfg(feature = "bench")]
pub(crate) const BENCH_NODE_REPLY_MAX: Duration = Duration::from_secs(120);

/// The shortest interval of `--watch`: each time a process starts and asks the server.
pub(crate) const WATCH_EVERY_MIN: Duration = Duration::from_millis(200);

/// Bytes of one message that `windlass mcp` reads: as many as a server takes in one request with a payload.
pub(crate) const MCP_LINE_BYTES_MAX: usize = 4 << 20;
