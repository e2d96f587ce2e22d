//! Every bound at the door, each with its reason; those of jobs and stores are in the library's own list.

use std::time::Duration;

/// Connections open at once; more wait in the listener's queue until one closes.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Files that a process needs beside its connections: the store's, logs, calls to others.
pub const FILES_KEPT_FREE: u64 = 256;
/// How long a client may take to send a request's head once half of the connections are taken: whoever says nothing makes
/// room for those who do.
pub const HEAD_TIME_CROWDED: Duration = Duration::from_secs(3);
/// How long a client may take to send a request's head, and how long a connection may stay idle between two requests.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes of a request's head: generous for tokens and traces, useless for an attack.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Jobs that a list in the order of claims sorts, where they are not kept in that order.
pub const CLAIM_ORDER_SORTED_MAX: usize = 10_000;
/// Lines of a request's head.
pub const HEAD_LINES_MAX: usize = 100;
/// Connections of one address on which nobody has shown a key, as a share of all: one in so many.
pub const STRANGERS_SHARE: usize = 8;
/// The same at least, however few connections there may be.
pub const STRANGERS_MIN: usize = 16;
/// How often a body that is on its way is looked at, and how many bytes of it must have arrived for each second until then.
pub const BODY_LOOK_EVERY: Duration = Duration::from_secs(5);
/// See [`BODY_LOOK_EVERY`].
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 128;
/// Keys that are not valid which an address may show before it is slowed down: people mistype, programs restart.
pub const GUESSES_FREE: u32 = 10;
/// How long an address that goes on has to wait at most.
pub const GUESS_PAUSE_MAX: Duration = Duration::from_secs(60);
/// After so long without another one, the count of an address starts at zero.
pub const GUESSES_FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// How often the log and the audit trail tell of one address that shows keys which are not valid.
pub const GUESSES_TOLD_EVERY: Duration = Duration::from_secs(60);
/// Addresses that are remembered; of more, none is slowed down.
pub const GUESSING_ADDRESSES_MAX: usize = 10_000;
/// Bytes of the form with which somebody signs in.
pub const SIGN_IN_BYTES_MAX: usize = 4 << 10;
/// How long that form may take to arrive.
pub const SIGN_IN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a client may take to send a request's body: with the store's own time well below the default lease of 30 s.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(20);
/// How long a client may take less than [`WRITE_BYTES_MIN`] of an answer that waits for it before it is cut off.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);
/// Bytes of an answer that a client takes at least in that time: less than the slowest link, and a byte now and then is not
/// enough to keep an answer in memory for ever.
pub const WRITE_BYTES_MIN: usize = 64 << 10;
/// How long a client may take for the TLS handshake.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long requests that are being answered may go on once the server is told to stop; it must be gone within 10 s.
pub const DRAIN_MAX: Duration = Duration::from_secs(7);
/// How long a server may take in all from being told to stop until it is gone; what a database that is away still owes it
/// then is left.
pub const STOP_MAX: Duration = Duration::from_millis(9_500);
/// How long closing the store may take at least, however long the requests before it took.
pub const STORE_CLOSE_MIN: Duration = Duration::from_secs(2);
/// How long `/readyz` waits for the store: a balancer that asks every second must not pile up probes.
pub const READY_WAIT_MAX: Duration = Duration::from_millis(900);
/// How long to wait before a database that could not be reached at the start is tried again.
pub const STORE_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long `windlass health` waits for an answer: health checks have a time limit of their own, 5 s as a rule.
pub const HEALTH_TIME_MAX: Duration = Duration::from_secs(4);
/// How long to wait after a connection could not be accepted, as when the process has no file left to open.
pub const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(50);

/// Bytes in the body of a request that carries no payload.
pub const BODY_BYTES_SMALL: usize = 256 << 10;
/// Bytes in the body of a request that carries many payloads: 10 000 jobs of 6 KB each.
pub const BODY_BYTES_LARGE: usize = 64 << 20;
/// Bytes of a body, or of an answer, that are kept in any case: as many as most requests have.
pub const BODY_BYTES_FREE: usize = 64 << 10;
/// Bytes of all bodies and answers together that are kept beyond those, until requests are answered and answers are written:
/// four of the largest.
pub const BODIES_BYTES_MAX: usize = 256 << 20;
/// What bodies and answers of one key may take of it: the largest there is, and no more.
pub const BODIES_BYTES_PER_KEY_MAX: usize = 64 << 20;
/// What bodies of all keys of one tenant may take of it, so that two tenants with many keys each cannot shut out a third.
pub const BODIES_BYTES_PER_TENANT_MAX: usize = 128 << 20;
/// Bytes of a large answer that a connection is handed at once: what it has taken but not written is in memory as well.
pub const ANSWER_PIECE_BYTES: usize = 64 << 10;
/// How long a client whose body found no room is asked to wait.
pub const BODIES_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes of a body or an answer above which its JSON is read or written beside the threads that answer others.
pub const BODY_BYTES_ASIDE: usize = 1 << 20;
/// Bytes of results and payloads that one page of a list shows, unless its first job alone has more; the page ends there.
pub const LIST_BYTES_MAX: usize = 16 << 20;
/// Bytes around a payload: every other field of a submission at its limit.
pub const ENVELOPE_BYTES: usize = 512 << 10;
/// Bytes of a refused body that are read and thrown away, so that the client gets to see why it was refused.
pub const DISCARD_BYTES_MAX: usize = 64 << 20;
/// How long a refused client may go on sending.
pub const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);
/// Levels of nesting in a body: as deep as JSON readers go without being asked to.
pub const JSON_DEPTH_MAX: usize = 128;
/// Characters of a refused value that are shown again.
pub const SHOWN_CHARS_MAX: usize = 100;
/// Characters of a request id that is taken over from a client or a proxy.
pub const REQUEST_ID_CHARS_MAX: usize = 128;

/// Longest wait for a job's end.
pub const JOB_WAIT_MAX: Duration = Duration::from_secs(300);
/// Jobs that one drawing of a dependency graph shows.
pub const GRAPH_JOBS_MAX: usize = 200;
/// Jobs that one call of a bulk action may be limited to: as many as a batch may submit.
pub const BULK_JOBS_MAX: u64 = 10_000;
/// Jobs that a worker may say it runs at once.
pub const WORKER_CONCURRENCY_MAX: u32 = 100_000;

/// Connections answered at once while the store is being opened: probes, and clients that ask again.
pub const OPENING_CONNECTIONS_MAX: usize = 64;

/// Live event streams open at once.
pub const STREAMS_MAX: usize = 4_096;
/// Those of one key: more than any program needs.
pub const STREAMS_PER_KEY_MAX: usize = 200;
/// Those of one tenant, so that none shuts out the others.
pub const STREAMS_PER_TENANT_MAX: usize = 1_000;
/// Events that wait for one reader; one more, and the reader has as long as [`STREAM_STALL_MAX`] to catch up.
pub const STREAM_EVENTS_BUFFERED: usize = 64;
/// Events kept as they are sent, for streams that send them a moment later than the first.
pub const EVENTS_ENCODED_MAX: usize = 1_024;
/// How long a reader of events may take none before its stream is ended.
pub const STREAM_STALL_MAX: Duration = Duration::from_secs(10);
/// How often a silent stream shows that it is alive, so that proxies keep it open.
pub const STREAM_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Requests per second that one key may make: far above what a fleet in step with the store needs.
pub const REQUESTS_PER_SECOND: u32 = 20_000;
/// Requests that one key may make at once, after a pause.
pub const REQUESTS_BURST: u32 = 40_000;

/// How long one address of a receiver may take to accept a connection and to shake hands; then the next is tried.
pub const CALL_CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Addresses of a receiver that are tried, one after the other; all of them are checked.
pub const CALL_ADDRESSES_MAX: usize = 4;
/// Bytes of the head of a receiver's answer.
pub const CALL_HEAD_BYTES_MAX: usize = 64 << 10;
/// Lines of the head of a receiver's answer.
pub const CALL_HEAD_LINES_MAX: usize = 100;
/// How long a receiver of a callback may take in all: it only has to say that it has it.
pub const CALLBACK_TIME_MAX: Duration = Duration::from_secs(15);
/// Callbacks that one server process delivers at once: many, since each mostly waits.
pub const CALLBACKS_AT_ONCE: usize = 256;
/// Longest delay that a receiver may ask for with `Retry-After`: a callback is worth a look once a day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// How often the push targets in force are looked at. Settings change rarely while news of work come thousands of times a
/// second: a cheap look costs less than being woken.
pub const PUSH_TARGETS_EVERY: Duration = Duration::from_secs(1);
/// How long calls that are under way may go on once the server is told to stop; it must be gone within 10 s.
pub const CALL_DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long a call that was told to stop may take to be gone.
pub const CALL_GRACE: Duration = Duration::from_millis(500);
/// How long to wait when a worker of the server's own could not go on.
pub const CALL_ERROR_PAUSE: Duration = Duration::from_secs(1);

/// How long a job is put off whose program could not be started: the machine may have room again by then.
pub const PROGRAM_PAUSE: Duration = Duration::from_secs(5);
/// Bytes read at once of what a program prints: as much as a pipe holds.
pub const PROGRAM_READ_BYTES: usize = 64 << 10;
/// How long to read on after a program has ended: what it printed is in the pipes, and whoever else holds them is not
/// waited for.
pub const PROGRAM_LINGER: Duration = Duration::from_secs(1);
/// How often a program's log and progress are written at most: a person watching sees no steps, and a chatty program costs
/// four commits a second.
pub const PROGRAM_NOTES_EVERY: Duration = Duration::from_millis(250);
/// How long the last lines of a program's log may take to be written; its outcome waits for them.
pub const PROGRAM_NOTES_TIME_MAX: Duration = Duration::from_secs(5);
/// Lines of a program's log in one call, with room for what stands in for lines left out.
pub const PROGRAM_LINES_PER_CALL: usize = 900;
/// Bytes of a program's log in one call: a call of many long lines must not hold up heartbeats.
pub const PROGRAM_LOG_BYTES_PER_CALL: usize = 256 << 10;
/// Lines of its log that one attempt of a program may write: as many as are kept of a job.
pub const PROGRAM_LINES_MAX: u64 = windlass::limits::LOG_LINES_MAX;
/// Bytes of its log that one attempt of a program may write: logs are for reading, and the store is for jobs.
pub const PROGRAM_LOG_BYTES_MAX: usize = 4 << 20;
/// Bytes of what a program said last that go into its error's message, which holds 4 KiB.
pub const STDERR_TAIL_BYTES: usize = 3 << 10;
/// Levels of nesting in a program's result; a server reads 128, and some are needed around it.
pub const PROGRAM_RESULT_DEPTH_MAX: usize = 100;
/// How long a program may take to end when the store has not been heard, or its worker was killed: the lease ends 10 s
/// after it is told.
pub const PROGRAM_LEASE_LOST_GRACE: Duration = Duration::from_secs(8);
/// How long a worker may take to hear a signal that its program has died of.
pub const PROGRAM_SHARED_SIGNAL: Duration = Duration::from_millis(200);
/// How often a guard looks whether the programs it has told to end have done so.
pub const REAPER_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How much longer than its program's grace a worker waits for a handler: the program is killed in between.
pub const PROGRAM_GRACE_MARGIN: Duration = Duration::from_secs(7);

/// How long a command waits for a server to accept its connection.
pub const CLIENT_CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a command waits for an answer, beside what it asked the server to wait: as long as the server may take.
pub const CLIENT_CALL_TIME_MAX: Duration = Duration::from_secs(35);
/// How long a command's connection is kept for the next call: less than the server keeps it.
pub const CLIENT_IDLE_MAX: Duration = Duration::from_secs(20);
/// Bytes of an answer that a command takes: a page of 500 jobs with payloads of 1 MiB each.
pub const CLIENT_ANSWER_BYTES_MAX: usize = 512 << 20;
/// How long a stream may be silent: three signs of life.
pub const CLIENT_SILENCE_MAX: Duration = Duration::from_secs(45);
/// Bytes of one event.
pub const CLIENT_EVENT_BYTES_MAX: usize = 1 << 20;
/// How long a bulk action may take on the server.
pub const CLIENT_BULK_TIME_MAX: Duration = Duration::from_secs(600);
/// Jobs that one call of a bulk action is limited to by a command: some tenths of a second, so that its progress is seen.
pub const CLIENT_BULK_JOBS: u64 = 2_000;
/// Jobs that a command asks for at once: as many as the API gives.
pub const LIST_PAGE_JOBS: usize = 500;
/// Pages of the newest jobs that are looked through for the end of an id, which no index knows.
pub const ID_SEARCH_PAGES_MAX: usize = 10;
/// Jobs of one batch that is sent: as many as the API takes.
pub const BATCH_JOBS: usize = 10_000;
/// Jobs of one batch after one was refused: a refusal throws the whole batch back.
pub const BATCH_JOBS_CAREFUL: usize = 200;
/// Bytes of one batch that is sent: well below what the server takes.
pub const BATCH_BYTES: usize = 16 << 20;
/// Records of the audit trail that a command asks for at once: as many as the API gives.
pub const AUDIT_PAGE_RECORDS: usize = 1_000;
/// How long to wait before a server that has gone is asked again for its events.
pub const FOLLOW_PAUSE: Duration = Duration::from_secs(1);
/// How often it is asked: a restart takes less.
pub const FOLLOW_TRIES_MAX: u32 = 60;
/// How often a command asks how far a running job is, and whether a job has ended that it cannot have the events of.
pub const JOB_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a command waits for a job's end in one call, beside its events: a proxy lets that pass.
pub const JOB_WAIT: Duration = Duration::from_secs(15);
/// How often a command asks whether a running job has written more to its log.
pub const LOG_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Keys and changes of size that wait for `windlass top`: more than anybody types while one screen is drawn.
pub const TERMINAL_EVENTS_BUFFERED: usize = 256;
/// Looks, answers and refusals that wait to be shown by `windlass top`.
pub const TOP_EVENTS_BUFFERED: usize = 64;
/// How often `windlass top` asks for each kind of thing: often enough to look alive, far too seldom to be felt.
pub const TOP_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long `windlass top` waits at most before it tries a server again that was lost.
pub const TOP_RETRY_MAX: Duration = Duration::from_secs(5);
/// Jobs that each list of `windlass top` holds: several times the rows of the tallest terminal.
pub const TOP_JOBS_MAX: usize = 200;
/// Jobs that failed a moment ago and are asked for one by one, per look.
pub const TOP_FAILURES_PER_POLL: usize = 10;
/// How long `windlass top` shows what became of an order.
pub const TOP_NOTE_TIME: Duration = Duration::from_secs(8);

/// Spans that wait to be sent to a collector: some seconds of a busy server. More are left out.
#[cfg(feature = "otel")]
pub const SPANS_BUFFERED: usize = 8_192;
/// Spans in one call to a collector, as other programs send them.
#[cfg(feature = "otel")]
pub const SPANS_PER_CALL_MAX: usize = 512;
/// How long spans wait for others before they are sent, unless `OTEL_BSP_SCHEDULE_DELAY` says else.
#[cfg(feature = "otel")]
pub const SPANS_SENT_EVERY: Duration = Duration::from_secs(5);
/// How long a call to a collector may take, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says else.
#[cfg(feature = "otel")]
pub const SPAN_CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the last spans may take on their way once the program is told to stop; it must be gone within 10 s.
#[cfg(feature = "otel")]
pub const SPANS_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Queues, types, tenants, workers, schedules or keys in one answer: some megabytes at most.
pub const NAMES_PER_PAGE_MAX: usize = 1_000;

/// Bytes of queues and types that a page of workers shows, unless its first worker alone has more; the page ends there.
pub const WORKERS_PAGE_BYTES_MAX: usize = 4 << 20;

/// Queues with series of their own in `/metrics`: each has about 70, and a scraper stores all of them.
pub const METRIC_QUEUES_MAX: usize = 500;

/// Schedules with a series of their own in `/metrics`.
pub const METRIC_SCHEDULES_MAX: usize = 1_000;
