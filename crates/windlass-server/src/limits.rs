//! The server's limits, each with its reason; those of jobs and stores are in the library.

use std::time::Duration;

/// Open connections; further ones wait in the listener's queue until one closes.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections that wait to be accepted; the system may allow fewer. Once they are all taken, the system resets connections,
/// also those of honest clients.
pub const LISTEN_QUEUE_MAX: u32 = 16_384;
/// Time to send a request's head once half of the connections are in use: idle connections are closed in favour of active
/// ones.
pub const HEAD_TIME_CROWDED: Duration = Duration::from_secs(3);
/// Time to send a request's head, and maximum idle time between two requests.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes of a request's head: enough for tokens and traces.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Jobs that a list in claim order sorts, if they are not indexed in that order.
pub const CLAIM_ORDER_SORTED_MAX: usize = 10_000;
/// Timers that one request applies when it moves the clock of a server for development; each waits for workers.
pub const DEV_STEPS_MAX: usize = 10_000;
/// How long that request waits for jobs that run, in real time, unless it says so itself.
pub const DEV_WAIT: Duration = Duration::from_secs(10);
/// How long it waits for workers to take jobs that are ready: some may have no worker.
pub const DEV_READY_WAIT: Duration = Duration::from_secs(1);
/// How much longer than others that request may take.
pub const DEV_REQUEST_MAX: Duration = Duration::from_secs(600);
/// How often it looks.
pub const DEV_POLL: Duration = Duration::from_millis(2);
/// Header lines of a request.
pub const HEAD_LINES_MAX: usize = 100;
/// Connections of one address without a valid key, as a share of all: one in this many.
pub const STRANGERS_SHARE: usize = 8;
/// Minimum of that number, however few connections there are.
pub const STRANGERS_MIN: usize = 16;
/// How often an arriving body is checked; [`BODY_BYTES_PER_SECOND_MIN`] is the required rate.
pub const BODY_LOOK_EVERY: Duration = Duration::from_secs(5);
/// See [`BODY_LOOK_EVERY`].
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 128;
/// Invalid keys an address may send before it is throttled: people make typing errors, programs restart.
pub const GUESSES_FREE: u32 = 10;
/// Maximum time an address is blocked for invalid keys.
pub const GUESS_PAUSE_MAX: Duration = Duration::from_secs(60);
/// The count of an address is reset after this time without an invalid key.
pub const GUESSES_FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// How often the log and the audit trail report an address that sends invalid keys.
pub const GUESSES_TOLD_EVERY: Duration = Duration::from_secs(60);
/// Addresses that are tracked; with more, none is throttled.
pub const GUESSING_ADDRESSES_MAX: usize = 10_000;
/// Bytes of the sign-in form.
pub const SIGN_IN_BYTES_MAX: usize = 4 << 10;
/// Time for that form to arrive.
pub const SIGN_IN_TIME_MAX: Duration = Duration::from_secs(5);
/// Time to send a request's body: together with the store's time well below the default lease of 30 s.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(20);
/// A client that takes less than [`WRITE_BYTES_MIN`] of a pending response in this time is disconnected.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);
/// Bytes of a response that a client must take in that time: less than the slowest link, but a byte now and then does not
/// keep a response in memory forever.
pub const WRITE_BYTES_MIN: usize = 64 << 10;
/// Time for the TLS handshake.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long running requests may continue once the server stops; it must exit within 10 s.
pub const DRAIN_MAX: Duration = Duration::from_secs(7);
/// How long `/readyz` waits for the store: checks every second must not pile up.
pub const READY_WAIT_MAX: Duration = Duration::from_millis(900);
/// Pause after a connection could not be accepted, for example without free file descriptors.
pub const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(50);

/// Bytes of a body without a payload.
pub const BODY_BYTES_SMALL: usize = 256 << 10;
/// Bytes of a body with many payloads: 10 000 jobs of 6 KB each.
pub const BODY_BYTES_LARGE: usize = 64 << 20;
/// Bytes of a body or response that are always available: enough for most requests.
pub const BODY_BYTES_FREE: usize = 64 << 10;
/// Bytes of all larger bodies and responses together, until they are processed or sent: four of the largest.
pub const BODIES_BYTES_MAX: usize = 256 << 20;
/// The share of one key: a single body of maximum size.
pub const BODIES_BYTES_PER_KEY_MAX: usize = 64 << 20;
/// The share of one tenant, so that two tenants with many keys each cannot use it up.
pub const BODIES_BYTES_PER_TENANT_MAX: usize = 128 << 20;
/// Bytes of a large response that a connection gets at once: bytes it has taken but not sent are in memory as well.
pub const ANSWER_PIECE_BYTES: usize = 64 << 10;
/// `Retry-After` for a body that exceeds the budget.
pub const BODIES_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes of a body or response above which its JSON is parsed or encoded on a separate thread.
pub const BODY_BYTES_ASIDE: usize = 1 << 20;
/// Bytes of results and payloads on one page of a list, unless its first job alone has more; the page ends there.
pub const LIST_BYTES_MAX: usize = 16 << 20;
/// Bytes around a payload: every other field of a submission at its limit.
pub const ENVELOPE_BYTES: usize = 512 << 10;
/// Bytes of a rejected body that are read and discarded, so that the client receives the error.
pub const DISCARD_BYTES_MAX: usize = 64 << 20;
/// How long a rejected client may continue sending.
pub const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);
/// Nesting depth of a body: the usual limit of JSON parsers.
pub const JSON_DEPTH_MAX: usize = 128;
/// Characters of a request id from a client or a proxy.
pub const REQUEST_ID_CHARS_MAX: usize = 128;

/// Maximum wait for a job to become final.
pub const JOB_WAIT_MAX: Duration = Duration::from_secs(300);
/// Jobs of a dependency graph.
pub const GRAPH_JOBS_MAX: usize = 200;
/// Maximum `limit` of a bulk action: as many as a batch may submit.
pub const BULK_JOBS_MAX: u64 = 10_000;

/// Connections served while the store is being opened: health checks and retries.
pub const OPENING_CONNECTIONS_MAX: usize = 64;

/// Open live event streams.
pub const STREAMS_MAX: usize = 4_096;
/// Streams per key: more than any program needs.
pub const STREAMS_PER_KEY_MAX: usize = 200;
/// Streams per tenant.
pub const STREAMS_PER_TENANT_MAX: usize = 1_000;
/// Events buffered for one client; if the buffer is full, it has [`STREAM_STALL_MAX`] to catch up.
pub const STREAM_EVENTS_BUFFERED: usize = 64;
/// Encoded events kept for streams that send them a moment later than the first.
pub const EVENTS_ENCODED_MAX: usize = 1_024;
/// How long a client may read no events before its stream is closed.
pub const STREAM_STALL_MAX: Duration = Duration::from_secs(10);
/// Interval of keep-alives on an idle stream, so that proxies keep it open.
pub const STREAM_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Requests per second per key: far above the needs of a large fleet.
pub const REQUESTS_PER_SECOND: u32 = 20_000;
/// Burst of requests per key.
pub const REQUESTS_BURST: u32 = 40_000;
/// Requests per second with tokens of one job: they are in pages, which poll it.
pub const TOKEN_REQUESTS_PER_SECOND: u32 = 50;
/// Burst of requests with tokens of one job.
pub const TOKEN_REQUESTS_BURST: u32 = 500;
/// Callers whose requests are counted at a time, keys and tokens for themselves: each takes memory.
pub const RATE_BUCKETS_MAX: usize = windlass::limits::API_KEYS_MAX;

/// Time to connect to one address of a receiver, including the handshake; then the next is tried.
pub const CALL_CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Addresses of a receiver that are tried, one after the other; all of them are checked.
pub const CALL_ADDRESSES_MAX: usize = 4;
/// Bytes of the head of a receiver's response.
pub const CALL_HEAD_BYTES_MAX: usize = 64 << 10;
/// Longest `tracestate` or `baggage` that a push carries, in bytes: half of the shortest line limit in use (8 KB).
pub const PUSH_HEADER_BYTES_MAX: usize = 4096;
/// Header lines of a receiver's response.
pub const CALL_HEAD_LINES_MAX: usize = 100;
/// Time for a receiver to respond to a callback: it only has to acknowledge it.
pub const CALLBACK_TIME_MAX: Duration = Duration::from_secs(15);
/// Callbacks that one server process delivers at once: many, since they mostly wait.
pub const CALLBACKS_AT_ONCE: usize = 256;
/// Maximum `Retry-After` of a receiver: callbacks are retried at least once a day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// How often push targets are read. Settings change rarely, while jobs change thousands of times a second: polling is
/// cheaper than notifications.
pub const PUSH_TARGETS_EVERY: Duration = Duration::from_secs(1);
/// How long running calls may continue once the server stops; it must exit within 10 s.
pub const CALL_DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long a cancelled call may take to end.
pub const CALL_GRACE: Duration = Duration::from_millis(500);
/// Pause before one of the server's own workers restarts after an error.
pub const CALL_ERROR_PAUSE: Duration = Duration::from_secs(1);

/// Delay of a job whose program could not be started: resources may be available again by then.
pub const PROGRAM_PAUSE: Duration = Duration::from_secs(5);
/// Bytes read at once of a program's output: the size of a pipe.
pub const PROGRAM_READ_BYTES: usize = 64 << 10;
/// How long to read on after a program has ended: its output is in the pipes, and other processes that hold them are not
/// waited for.
pub const PROGRAM_LINGER: Duration = Duration::from_secs(1);
/// Minimum interval between writes of a program's log and progress: short enough to appear live, and at most four commits a
/// second.
pub const PROGRAM_NOTES_EVERY: Duration = Duration::from_millis(250);
/// Time to write the last lines of a program's log; its outcome waits for them.
pub const PROGRAM_NOTES_TIME_MAX: Duration = Duration::from_secs(5);
/// Lines of a program's log per call, leaving space for the note on lines left out.
pub const PROGRAM_LINES_PER_CALL: usize = 900;
/// Bytes of a program's log per call: large calls must not delay heartbeats.
pub const PROGRAM_LOG_BYTES_PER_CALL: usize = 256 << 10;
/// Log lines per attempt of a program: as many as are kept for a job.
pub const PROGRAM_LINES_MAX: u64 = windlass::limits::LOG_LINES_MAX;
/// Log bytes per attempt of a program.
pub const PROGRAM_LOG_BYTES_MAX: usize = 4 << 20;
/// Bytes of standard error in an error message, which is limited to 4 KiB.
pub const STDERR_TAIL_BYTES: usize = 3 << 10;
/// Nesting depth of a program's result; the server accepts 128, including the levels around it.
pub const PROGRAM_RESULT_DEPTH_MAX: usize = 100;
/// How long a program may take to exit if the store cannot be reached or its worker was killed: the lease expires 10 s
/// later.
pub const PROGRAM_LEASE_LOST_GRACE: Duration = Duration::from_secs(8);
/// How long a worker may take to receive a signal that killed its program.
pub const PROGRAM_SHARED_SIGNAL: Duration = Duration::from_millis(200);
/// How often the reaper checks whether the programs have exited.
pub const REAPER_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Spans buffered for a collector: some seconds of a busy server. Further ones are dropped.
#[cfg(feature = "otel")]
pub const SPANS_BUFFERED: usize = 8_192;
/// Spans per call to a collector, the usual default.
#[cfg(feature = "otel")]
pub const SPANS_PER_CALL_MAX: usize = 512;
/// How long spans are collected before they are sent, unless `OTEL_BSP_SCHEDULE_DELAY` is set.
#[cfg(feature = "otel")]
pub const SPANS_SENT_EVERY: Duration = Duration::from_secs(5);
/// Time for a call to a collector, unless `OTEL_EXPORTER_OTLP_TIMEOUT` is set.
#[cfg(feature = "otel")]
pub const SPAN_CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Time to send the last spans at shutdown; the process must exit within 10 s.
#[cfg(feature = "otel")]
pub const SPANS_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Queues, types, tenants, workers, schedules or keys per page: some megabytes at most.
pub const NAMES_PER_PAGE_MAX: usize = 1_000;

/// Bytes of queues and types on a page of workers, unless its first worker alone has more; the page ends there.
pub const WORKERS_PAGE_BYTES_MAX: usize = 4 << 20;

/// Queues with series in `/metrics`: each has about 70, and a scraper stores all of them.
pub const METRIC_QUEUES_MAX: usize = 500;

/// Schedules with series in `/metrics`.
pub const METRIC_SCHEDULES_MAX: usize = 1_000;

/// Bytes from which a response is compressed: below, one packet carries it anyway.
pub const COMPRESS_BYTES_MIN: u64 = 1 << 10;
/// Bytes up to which a response is compressed: about 40 ms of a processor. Larger ones are rare and for programs.
pub const COMPRESS_BYTES_MAX: u64 = 4 << 20;
/// The level of gzip: the fastest. Higher ones take several times as long for a tenth less.
pub const COMPRESS_LEVEL: u32 = 1;

/// Failed jobs and dead letters counted one by one, since no counter knows which were redriven; "499+" is enough, and takes
/// one query each.
pub const UNRESOLVED_COUNTED: usize = 499;

/// Characters of a search in the reference: more than a person types, and little enough to repeat in the page.
pub const SEARCH_CHARS_MAX: usize = 200;

/// Bytes of one answer of the API that a tool of `/mcp` reads: a page of jobs with their results.
pub const MCP_READ_BYTES_MAX: usize = 32 << 20;
/// Bytes of a tool's answer: some 30,000 tokens, beyond which a model does not read it with care.
pub const MCP_ANSWER_BYTES_MAX: usize = 128 << 10;
/// Characters of one text in a tool's answer.
pub const MCP_TEXT_CHARS_MAX: usize = 4_000;
/// Items of one list in a tool's answer.
pub const MCP_ITEMS_MAX: usize = 100;

/// How long a token for one job is valid if nothing is said: a visit to a page.
pub(crate) const JOB_TOKEN_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// How long browsers remember which requests a page may send, in seconds.
pub(crate) const CORS_MAX_AGE_SECS: u32 = 600;
/// Characters of a field that a refusal names: a caller can find it by them, and cannot have a large body sent back.
pub(crate) const REFUSED_FIELD_CHARS_MAX: usize = 256;
/// Characters of the reason for a refused field: enough for the names of all fields of a body.
pub(crate) const REFUSAL_CHARS_MAX: usize = 1_000;
