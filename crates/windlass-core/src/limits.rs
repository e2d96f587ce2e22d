//! All limits of the system, each with its reason. Every limit is defined here.

mod alerts;
mod appends;
mod attempts;
mod children;
mod history;
mod leases;
mod schedules;
mod schemas;

use std::time::Duration;

pub use self::alerts::*;
pub use self::appends::*;
pub use self::attempts::*;
pub use self::children::*;
pub use self::history::*;
pub use self::leases::*;
pub use self::schedules::*;
pub use self::schemas::*;

/// Largest payload, result or checkpoint unless configured: a size that a database row handles well.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1 << 20;
/// Largest payload that can be configured.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// Characters in a type, queue or tenant name.
pub const NAME_CHARS_MAX: usize = 255;
/// Characters in a version that a job requires of its worker: as many as a worker may register with.
pub const REQUIRED_VERSION_CHARS_MAX: usize = NAME_CHARS_MAX;
/// Characters in an idempotency, unique or concurrency key.
pub const KEY_CHARS_MAX: usize = 256;
/// Entries in a job's tags.
pub const TAGS_MAX: usize = 64;
/// Characters in the name of a tag.
pub const TAG_NAME_CHARS_MAX: usize = 64;
/// Characters in the value of a tag.
pub const TAG_VALUE_CHARS_MAX: usize = 256;
/// Characters in a correlation id; long enough for any trace header.
pub const CORRELATION_CHARS_MAX: usize = 256;
/// Characters in a `tracestate`: as many as W3C Trace Context asks to pass on.
pub const TRACESTATE_CHARS_MAX: usize = 512;
/// Characters in `baggage`: as many as W3C Baggage asks to pass on.
pub const BAGGAGE_CHARS_MAX: usize = 8192;
/// Characters in a callback URL; browsers and proxies handle this length.
pub const CALLBACK_URL_CHARS_MAX: usize = 2048;
/// Concurrent callbacks of one tenant to one receiver: a receiver that never responds does not delay others.
pub const CALLBACKS_PER_RECEIVER: u64 = 8;
/// How long the previous signing secret is used beside the new one: receivers have a day to switch.
pub const WEBHOOK_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// Ports for callbacks and pushes unless configured: those of web servers, so that a callback cannot reach a mail
/// server or a database.
pub const TARGET_PORTS: [u16; 4] = [443, 80, 8443, 8080];
/// Concurrent jobs per server process to a queue's push target, unless set.
pub const PUSH_CONCURRENCY_DEFAULT: u32 = 10;
/// Most concurrent jobs per server process to a queue's push target: each is a connection.
pub const PUSH_CONCURRENCY_MAX: u32 = 1_000;
/// Queues with a push target, a tenant's own queues counted separately: every server runs a worker for each.
pub const PUSH_TARGETS_MAX: usize = 1_000;
/// Response timeout of a push target, unless set: the usual timeout of reverse proxies.
pub const PUSH_TIME_DEFAULT: Duration = Duration::from_secs(60);
/// Characters in a content type.
pub const CONTENT_TYPE_CHARS_MAX: usize = 255;
/// Characters in the name of a step or signal.
pub const STEP_NAME_CHARS_MAX: usize = 256;
/// Characters in the reason for an action.
pub const REASON_CHARS_MAX: usize = 1024;
/// Bytes stored of an error message; longer messages are truncated, because a failure must never be rejected.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 4096;
/// Causes stored with an error; a longer chain is truncated, because a failure must never be rejected.
pub const ERROR_CAUSES_MAX: usize = 8;
/// Bytes stored of the message of each cause: together they take no more than two error messages.
pub const ERROR_CAUSE_BYTES_MAX: usize = 1024;
/// Characters in an error's code.
pub const ERROR_CODE_CHARS_MAX: usize = 128;
/// How long pruning may be late for a job that another process finished long after its submission: until then this
/// process does not scan that part of the submission order again.
pub const PRUNE_LATE_MAX: Duration = Duration::from_secs(3600);
/// Such late finishes by this process that are remembered until the next scan: half a megabyte.
pub const PRUNE_LATE_ENDS_MAX: usize = 1 << 16;
/// Characters of a rejected value in a message.
pub const SHOWN_CHARS_MAX: usize = 100;
/// Jobs in one submission.
pub const BATCH_JOBS_MAX: usize = 10_000;
/// Bytes of all payloads in one submission, and so in one commit: they are held in memory until the commit.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Dependencies of one job, `after` and `after_any` together.
pub const DEPENDENCIES_MAX: usize = 1_000;
/// Jobs on the longest dependency path.
pub const DEPENDENCY_DEPTH_MAX: u32 = 100;
/// Maximum concurrency of a worker.
pub const WORKER_CONCURRENCY_MAX: u32 = 100_000;
/// Jobs in one claim.
pub const CLAIM_JOBS_MAX: usize = 1_000;
/// Bytes of payloads and checkpoints after which a claim takes no more jobs: they are read inside the commit and held
/// in memory. The last job may exceed it, otherwise a large job could never be claimed.
pub const CLAIM_BYTES_MAX: usize = 32 << 20;
/// Outcomes, heartbeats or leases in one call.
pub const OUTCOMES_PER_CALL_MAX: usize = 1_000;
/// Longest wait inside a claim.
pub const CLAIM_WAIT_MAX: Duration = Duration::from_secs(60);
/// Jobs on one page of a list.
pub const PAGE_JOBS_MAX: usize = 500;
/// Jobs scanned for one page of a list if no index finds the matches: a tenth of a second. A page that is not full then
/// has a cursor to continue.
pub const LIST_SCAN_MAX: usize = 200_000;
/// Bytes of payloads after which a page of a list ends early, so that a list of large jobs does not use up memory.
pub const PAGE_PAYLOADS_MAX: usize = 32 << 20;
/// Audit records hashed in one round of sealing.
pub const SEAL_RECORDS_MAX: usize = 10_000;
/// Shortest interval at which a process logs the sealed head of the audit trail: often enough to anchor the trail in
/// external logs, rarely enough not to fill them.
pub const SEAL_LOGGED_EVERY: Duration = Duration::from_secs(60);
/// How long a process waits before it checks again whether another process still seals: if two seal at once, the work
/// of one is wasted.
pub const SEAL_RETRY_AFTER: Duration = Duration::from_secs(3);
/// Similar names suggested if a name does not exist.
pub const SIMILAR_NAMES_MAX: usize = 5;
/// Characters in which a suggested name may differ: a typing error changes only a few.
pub const SIMILAR_EDITS_MAX: usize = 8;
/// Characters compared of two names, without their common prefix and suffix: names that differ in more are not typing
/// errors.
pub const SIMILAR_CHARS_MAX: usize = 64;
/// Character comparisons for one suggestion: some milliseconds. This covers all names a tenant may have if they have
/// ordinary length; of names made to be slow, only the first are compared.
pub const SIMILAR_STEPS_MAX: usize = 4_000_000;
/// Records on one page of the audit trail.
pub const PAGE_RECORDS_MAX: usize = 1_000;
/// Records scanned for one page of the audit trail if no index finds the matches: a search for a rare record takes
/// several short pages instead of one read that occupies a reader for the whole trail.
pub const AUDIT_SCAN_MAX: u64 = 100_000;
/// Jobs changed by one commit of a bulk action, so that other requests run in between.
pub const BULK_JOBS_PER_COMMIT: usize = 500;
/// Positions of due jobs, not jobs, that a claim compares if more are due than [`TICK_JOBS_PER_COMMIT`].
pub const DUE_POSITIONS_MAX: usize = 50_000;
/// Positions that a claim reads in aging lanes it does not know yet, about a microsecond each, beside the first job of
/// each; if there are more, lanes take turns.
pub const AGING_HEADS_PER_CLAIM: usize = 4_096;
/// Positions of aging lanes that a connection remembers, some 12 MB; if there are more, all are cleared.
pub const AGING_HEADS_REMEMBERED: usize = 500_000;
/// Lanes whose turn to be compared is remembered; if there are more, all are cleared.
pub const AGING_LANES_REMEMBERED: usize = 200_000;
/// Jobs changed by one maintenance commit, so that others wait some 30 ms for it on SQLite, 100 on PostgreSQL.
pub const TICK_JOBS_PER_COMMIT: usize = 500;
/// Of these, how many each duty may change even if the others have much to do, so that none waits for their end.
pub const TICK_SHARE_MIN: usize = 100;
/// Jobs that one commit changes as a consequence of its request: dependents, inherited priorities, cancelled children,
/// expired leases of lost workers, suspended jobs of a paused queue. The rest is stored as a cursor and continued by
/// maintenance with the same limit per commit, so that other requests never wait long.
pub const CASCADE_JOBS_PER_COMMIT: usize = 500;
/// Consequences per outcome in a commit with many: jobs of workflows that finish together have one or two dependents.
pub const CASCADE_JOBS_PER_OUTCOME: usize = 2;
/// Rows such a commit reads for each job that it may change: dependents whose inherited priority is computed, running
/// jobs searched for those of a lost worker.
pub const CASCADE_ROWS_PER_JOB: usize = 20;
/// A lookup for a single job costs about as much as changing this many jobs at once.
pub const CASCADE_JOBS_PER_LOOKUP: usize = 4;
/// Edges, children or running jobs that a cascade reads at a time and holds in memory.
pub const CASCADE_PAGE: usize = 500;
/// Jobs whose dependencies are read at once to compute inherited priorities; each has at most [`DEPENDENCIES_MAX`].
pub const CASCADE_INHERITING_AT_ONCE: usize = 20;
/// Unfinished cascades that are counted for statistics: beyond that, "more" is enough.
pub const CASCADES_COUNTED_MAX: usize = 1_000;
/// Workers that one commit marks as lost or removes: each is a configuration document.
pub const SILENT_WORKERS_PER_COMMIT: usize = 100;
/// Dependents of a final job that are checked for whether they still need it, and whose edges are deleted with it. A
/// job with more stored dependents is kept until some of them have been removed; a commit that removes many jobs stops
/// here too.
pub const DEPENDENTS_LOOKED_AT: usize = 10_000;
/// Expired pauses that one maintenance commit ends: each is a configuration document.
pub const EXPIRED_PAUSES_PER_COMMIT: usize = 200;
/// Running jobs scanned to find out whether a worker without heartbeats can be removed; if there are more, it stays in
/// the registry.
pub const BUSY_JOBS_SCAN_MAX: usize = 5_000;
/// Signals stored for a job that does not wait for them yet.
pub const SIGNALS_KEPT_MAX: usize = 1_000;
/// How often maintenance commits on an idle store while workers send heartbeats: half of the time after which a store
/// without commits counts as not served.
pub const SERVICE_SHOWN_EVERY: Duration = Duration::from_secs(5);
/// Queues or types that one worker subscribes to.
pub const WORKER_NAMES_MAX: usize = 1_000;
/// Bytes of all queue names, type names and texts of one worker, plus [`WORKER_NAME_OVERHEAD`] for each: a thousand
/// names of ordinary length. Every process keeps them in memory while the worker is registered.
pub const WORKER_BYTES_MAX: usize = 64 << 10;
/// Memory overhead of a name, in bytes.
pub const WORKER_NAME_OVERHEAD: usize = 32;
/// Registered workers of one API key, and of all callers without a key together: far more than a fleet has. Lost
/// workers are removed first.
pub const WORKERS_PER_KEY_MAX: usize = 10_000;
/// Registered workers of all keys of one tenant.
pub const WORKERS_PER_TENANT_MAX: usize = 20_000;
/// Bytes of the names of all workers of one API key: ten thousand workers with some ten queues and types each.
pub const WORKERS_BYTES_PER_KEY_MAX: usize = 8 << 20;
/// Bytes of the names of all workers of one tenant.
pub const WORKERS_BYTES_PER_TENANT_MAX: usize = 16 << 20;
/// Attempts a retry policy may allow.
pub const ATTEMPTS_MAX: u32 = 100;
/// Crashes after which a job is poison.
pub const CRASHES_MAX_DEFAULT: u32 = 3;
/// A handler faster than this finishes before a claim does. Its worker claims ahead about as many jobs as its handlers
/// run in this time, so that slots do not wait for claims; or as long as its claims take, if that is longer.
pub const QUICK_HANDLER_MAX: Duration = Duration::from_millis(2);
/// Slots from which on a worker may claim ahead; with fewer, order matters more than speed.
pub const PREFETCH_FROM_SLOTS: usize = 10;
/// Most jobs claimed ahead per slot while claims are quick: jobs in flight can share a commit.
pub const PREFETCH_PER_SLOT: usize = 8;
/// Most jobs claimed ahead per queue of a worker while claims are quick: they are lost like running jobs if its process dies.
pub const PREFETCH_MAX: usize = 400;
/// How many times as many that may be where claims take longer than [`QUICK_HANDLER_MAX`], such as far from the database.
pub const PREFETCH_STRETCH: usize = 2;
/// Most slots per queue in one worker; more than any machine can run.
pub const SLOTS_MAX: usize = 1_000_000;
/// How long after its submission a run is part of the submission's trace. Later runs, and retries, are traces of their
/// own that are linked to it: collectors decide about a trace within minutes, and cannot wait for it to end.
pub const TRACE_CHILD_MAX: Duration = Duration::from_secs(60 * 60);
/// How long after its start a job that was claimed ahead is recorded as started, so that a later crash is charged to
/// it. A handler fast enough for claiming ahead finishes long before, and costs no additional commit.
pub const START_NOTED_AFTER: Duration = Duration::from_millis(50);
/// How long a job that was claimed ahead waits for a slot before it is released.
pub const PREFETCH_WAIT_MAX: Duration = Duration::from_millis(100);
/// Most jobs in one call of a batch handler: a claim returns no more.
pub const BATCH_HANDLER_JOBS_MAX: usize = CLAIM_JOBS_MAX;
/// Longest time that a batch collects jobs: they are leased meanwhile, and no other worker can run them.
pub const BATCH_COLLECT_MAX: Duration = Duration::from_secs(60);
/// How long a lost or stopped worker stays in the registry, to be shown to people.
pub const WORKER_REMEMBERED: Duration = Duration::from_secs(3600);
/// Longest duration of any setting: 100 years.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Requests that may wait for the writer; further requests fail as overloaded.
pub const WRITES_WAITING_MAX: usize = 4_096;
/// Requests in one group commit.
pub const WRITES_PER_GROUP_MAX: usize = 1_024;
/// Jobs changed together by the requests of one group commit, as far as known in advance: one batch of the largest
/// size, or many small requests.
pub const GROUP_JOBS_MAX: usize = BATCH_JOBS_MAX;
/// Like [`GROUP_JOBS_MAX`] if the group has heartbeats or other urgent requests: heavier work waits for the next
/// commit, so that a lease renewal is on disk before a bulk commit starts.
pub const GROUP_JOBS_BESIDE_URGENT: usize = 1_000;
/// A claim counts as one in so many of the jobs it requests: most claims that request many find few.
pub const CLAIM_WEIGHT_SHARE: usize = 16;
/// Events kept in memory for live readers; a slower reader continues from the stored audit trail.
pub const LIVE_EVENTS_MAX: usize = 4_096;
/// Commits whose changes are kept for watchers; a watcher that falls further behind assumes that everything changed.
pub const LIVE_CHANGES_MAX: usize = 1_024;
/// Largest result included in a callback; a larger one must be fetched.
pub const CALLBACK_RESULT_BYTES_MAX: usize = 64 << 10;
/// Schedules, push targets or metrics of names that a tenant may have even if others have taken all of them.
pub const SHARE_GUARANTEED: usize = 20;
/// API keys in one store: all of them are held in memory.
pub const API_KEYS_MAX: usize = 10_000;
/// How often the use of an API key is recorded: once a minute is precise enough, and avoids a write per request.
pub const KEY_USE_WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// How long a process caches API keys; a key revoked by another process is rejected within a second.
pub const KEY_CACHE_TTL: Duration = Duration::from_millis(500);
/// How long an idle claim waits before it polls without a notification.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Waiting claims in one process that each poll every [`POLL_INTERVAL`]; with twice as many, each polls half as often,
/// and so on up to [`HEARTBEAT_EVERY`], the interval in which a worker must send a heartbeat.
pub const POLL_CROWD: usize = 100;
/// Lanes that one commit lists as having new work; beyond that, every waiting claim polls.
pub const WAKEUP_LANES_MAX: usize = 32;
/// Wake-ups kept for claims that were polling when they arrived.
pub const WAKEUPS_KEPT: usize = 64;
/// How often a waiting process checks whether another process changed the file.
pub const CROSS_PROCESS_EVERY: Duration = Duration::from_millis(20);
/// Characters of an error message that its fingerprint depends on: later ones are details.
pub const FINGERPRINT_CHARS: usize = 200;
/// Minutes for which rates are stored.
pub const RATE_MINUTES_KEPT: i64 = 61;
/// How often past minutes are read again for rates: other nodes rarely add to them later.
pub const RATES_READ_EVERY: Duration = Duration::from_secs(15);
/// Jobs that `verify` examines at a time.
pub const VERIFY_PAGE: usize = 2_000;
/// Findings of one invariant for which a repair is planned at a time: a list that a person can look through.
pub const REPAIRS_PLANNED_MAX: usize = 10_000;
/// Findings that the audit record of a repair repeats: those of one job are few.
pub const REPAIR_FINDINGS_RECORDED: usize = 10;
/// Retry delay after an overload: thousands of commits happen in this time.
pub const OVERLOADED_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Retry delay if a queue or tenant has too many jobs: its workers may have finished thousands of jobs by then.
pub const TOO_DEEP_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Requests that may wait for a reader; further requests fail as overloaded.
pub const READS_WAITING_MAX: usize = 4_096;
/// Waiting reads of one API key: callers take turns, so others do not wait for them, but they must not use up the queue
/// either.
pub const READS_WAITING_PER_KEY_MAX: usize = 1_024;
/// Waiting reads of all keys of one tenant.
pub const READS_WAITING_PER_TENANT_MAX: usize = 2_048;
/// Queues, types, tenants and costs listed in one statistics response, each: a hundred kilobytes. Lists of queues,
/// types and tenants show all of them page by page.
pub const STATS_NAMES_MAX: usize = 1_000;
/// Reader threads: enough that a long list does not delay a short read, few enough to leave the writer a core.
pub const READERS: usize = 3;
/// How long a request to cancel a statement may take; the statement's caller has already left.
pub const CANCEL_MAX: Duration = Duration::from_secs(1);
/// Results read at once for a list: memory used in addition to a page's own limit.
pub const RESULTS_AT_ONCE: usize = 50;
/// Additional readers for short reads that other requests wait for (keys, settings, readiness), beside any long reads.
pub const READERS_RESERVED: usize = 1;
/// Lanes whose first jobs are read in one query.
pub const LANES_ASKED_AT_ONCE: usize = 1_000;
/// Queues with jobs, or with settings or pauses, that a tenant may have unless `max_queues` is set: lists scan them.
pub const QUEUES_PER_TENANT_MAX: u64 = 10_000;
/// Job types that a tenant may have, unless `max_types` is set.
pub const TYPES_PER_TENANT_MAX: u64 = 10_000;
/// Lanes (pairs of a queue and a type, and a required version) that a tenant may have, unless `max_lanes` is set: each has counters in memory
/// and a document of rates per minute, and the limits on queues and types alone would allow a hundred million.
pub const LANES_PER_TENANT_MAX: u64 = 20_000;
/// Concurrency keys that the unfinished jobs of a tenant may have, unless `max_concurrency_keys` is set: each has a row
/// of some hundred bytes, a document if its queue limits starts per key, and a lookup of its running jobs in the claims
/// that reach it. Far more than a key per customer, far less than a key per job of a long backlog.
pub const CONCURRENCY_KEYS_PER_TENANT_MAX: u64 = 100_000;
/// Longest read from one snapshot: while it lasts, the write-ahead log cannot restart.
pub const SNAPSHOT_MAX: Duration = Duration::from_secs(30);
/// Bytes in a database page: a commit mostly writes pages, and fewer, larger ones cost less (measured: 5 % less work
/// per job than with 4096).
pub const PAGE_BYTES: i64 = 8192;
/// Page cache of the writer, in KiB; with the readers' caches far below the 256 MB that a store may use.
pub const WRITER_CACHE_KIB: i64 = 16 * 1024;
/// Page cache of each reader, in KiB.
pub const READER_CACHE_KIB: i64 = 8 * 1024;
/// Pages in the write-ahead log from which on a checkpoint is made: some 16 MB, so that the log stays small on disk and
/// in the cache.
pub const LOG_PAGES_MAX: u64 = 2_000;
/// Pages that a further checkpoint must move, so that a long read does not make every commit move a few.
pub const LOG_PAGES_STEP: u64 = 200;
/// Bytes of write-ahead log that stay allocated when it restarts.
pub const LOG_BYTES_KEPT: u64 = 64 << 20;
/// Bytes of write-ahead log above which the idle writer truncates it.
pub const LOG_BYTES_MAX: u64 = 256 << 20;
/// Disk space reserved for finishing running jobs when the disk is full: the database can absorb the whole log, and
/// some more.
pub const RESERVE_BYTES: u64 = 24 << 20;
/// Disk space reserved if the database itself has [`RESERVE_BYTES`] of free pages: a checkpoint then needs no new
/// pages, and only the log has to fit on the disk.
pub const RESERVE_BYTES_BESIDE_FREE_PAGES: u64 = 4 << 20;
/// How often a store without its reserve tries to allocate it again; each try writes up to that much.
pub const RESERVE_RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long one statement waits for a lock of another process.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long a group of writes waits in total for locks of other processes; then its requests fail as retryable. The
/// deadlines of its requests are usually earlier.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
/// Longest total time of a request in a store: waiting in the queue, for locks, for an unavailable database and for its
/// responses. With [`ANSWER_MARGIN`] well below the 30 s in which a submission is acknowledged or refused.
pub const REQUEST_MAX: Duration = Duration::from_secs(25);
/// How long after its deadline a caller still waits for the engine's own response, which is more specific than a
/// timeout.
pub const ANSWER_MARGIN: Duration = Duration::from_secs(1);
/// How often the change listener checks whether any request waits for changes of other processes.
pub const LISTENER_IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// Polls in a row without a waiter after which other nodes need not announce their commits to this one any more.
pub const LISTENER_LEAVES_AFTER: u32 = 3;

/// Tokens in a rate limit's bucket: with the longest refill time, the arithmetic still fits 64 bits.
pub const RATE_COUNT_MAX: u64 = 1_000_000;
/// A tenant's weight: how many jobs it may start while another tenant starts one.
pub const TENANT_WEIGHT_MAX: u32 = 1_000;
/// A tenant's budget in cents: the largest integer that JSON numbers represent exactly.
pub const BUDGET_CENTS_MAX: u64 = 1 << 53;
/// Connect timeout of a database server.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Response timeout of a database server; a longer silence is a broken connection. Calls for requests are also bounded
/// by the requests' deadlines.
pub const CALL_MAX: Duration = Duration::from_secs(35);
/// How long after the deadline of its requests a call to a database server is abandoned: enough for a rollback.
pub const CALL_MARGIN: Duration = Duration::from_secs(2);
/// How long a transaction may be idle before the database server ends it: a frozen node must not block the others for
/// longer. A healthy node is idle for milliseconds.
pub const TRANSACTION_IDLE_MIN: Duration = Duration::from_millis(150);
/// The most that [`TRANSACTION_IDLE_MIN`] grows to on a machine so slow that the server ends its transactions although they
/// are being worked on: the next attempt must have a chance.
pub const TRANSACTION_IDLE_MAX: Duration = Duration::from_secs(8);
/// How often a store is tried to be opened whose connection to the database server breaks meanwhile.
pub const OPEN_ATTEMPTS: u32 = 5;
/// Connect timeout of each host of an address with several: the next one may have taken over.
pub const CONNECT_HOST_MAX: Duration = Duration::from_secs(2);
/// How long data to one of several hosts may be unacknowledged, or a silent connection without a sign of the host.
pub const HOST_SILENCE_MAX: Duration = Duration::from_secs(2);
/// How long a connection to one of several hosts is silent before the host is asked for a sign, and how often.
pub const HOST_PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long requests wait for an unavailable database server before they fail.
pub const DB_OUTAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the rows of `commits` are kept at least. A node whose connection broke during a commit checks within
/// [`CALL_MAX`] + [`DB_OUTAGE_TIMEOUT`] whether it succeeded; five times that also covers nodes that were frozen for a
/// while.
pub const COMMITS_KEPT_FOR: Duration = Duration::from_secs(300);
/// Rows of `commits` that are kept whatever their age.
pub const COMMITS_KEPT_MIN: i64 = 4_096;
/// Rows of `commits` that one commit deletes.
pub const COMMITS_FORGOTTEN_MAX: i64 = 1_024;
/// How long closing a store waits for an unavailable database server; a server must exit within 10 s after SIGTERM, of
/// which finishing requests takes up to 7 s.
pub const CLOSE_MAX: Duration = Duration::from_secs(1);
/// Other nodes whose notifications a node tracks; far more than there are.
pub const NODES_KEPT: usize = 4_096;
/// How long a job must have been ready, or final, before finding it by polling counts as a missed notification: a
/// notification arrives within this time.
pub const NOTICE_MAX: Duration = Duration::from_millis(250);
/// Shortest interval between notifications to other nodes: commits in between share one.
pub const NOTIFY_EVERY: Duration = Duration::from_millis(2);
/// The same for a node that always has something to announce. Workers that are busy do not wait for it.
pub const NOTIFY_EVERY_BUSY: Duration = Duration::from_millis(16);
/// Notifications in a row after which a node always has something to announce.
pub const NOTIFY_IN_A_ROW: u32 = 8;
/// Rows in one commit of a move: enough that its fsync does not matter, few enough that a progress bar moves.
pub const MOVE_ROWS_PER_COMMIT: usize = 2_000;
/// Bytes of payloads and other data that one commit of a move holds in memory; one more row may exceed it.
pub const MOVE_BYTES_PER_COMMIT: usize = 8 << 20;
/// How long a move waits for programs that still have the store open: a process that just ended may need a moment.
pub const MOVE_WAIT_MAX: Duration = Duration::from_secs(5);
/// The largest fence: every JSON parser reads it exactly, also those with floating-point numbers.
pub const FENCE_MAX: u64 = (1 << 53) - 1;
/// The last generation of a store: 12 bits of a fence. A store restored every day reaches it after eleven years; from
/// then on only the random bits distinguish fences from before and after a restore.
pub const GENERATION_MAX: u64 = (1 << 12) - 1;
/// First delay before a broken connection is reopened.
pub const RECONNECT_EVERY_MIN: Duration = Duration::from_millis(20);
/// How often an unavailable database server is tried.
pub const RECONNECT_EVERY_MAX: Duration = Duration::from_secs(1);

/// Outcomes that wait to be reported; a full buffer slows claiming.
pub const REPORTS_BUFFERED_MAX: usize = 4_096;
/// How long a handler may clean up after it was asked to stop, before it is dropped.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// How long handlers may continue when a worker shuts down.
pub const DRAIN_DEFAULT: Duration = Duration::from_secs(30);
/// How long a worker that shuts down waits for handlers to be dropped before it releases their jobs: longer only if one
/// blocks its thread.
pub const HANDLER_DROP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a worker that shuts down tries to report its outcomes.
pub const SHUTDOWN_REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a job that wants to park waits for the rest of its handler, other than steps: enough for a short piece of
/// work, and no slot is held for a handler that only listens.
pub const PARK_WAIT_MAX: Duration = Duration::from_secs(1);
/// Waits of one parked job; each is checked when it is woken.
pub const PARK_WAITS_MAX: usize = 100;
/// How far the end of a sleep that counts down to a fixed time may differ in a later attempt: the time between reading
/// the clock and sleeping.
pub const SLEEP_END_TOLERANCE: Duration = Duration::from_secs(60);

/// Response timeout of a server for an ordinary request: by then it has refused what it cannot do, with some
/// margin.
pub const SERVER_CALL_MAX: Duration = Duration::from_secs(35);
/// Connect timeout of a server: a slower network is down.
pub const SERVER_CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a request is retried while its server is unavailable, if retrying is safe: a restarting server is back by
/// then.
pub const SERVER_AWAY_MAX: Duration = Duration::from_secs(10);
/// How long an idle connection to a server is kept; servers keep theirs longer, so that none is closed in use.
pub const SERVER_IDLE_MAX: Duration = Duration::from_secs(20);
/// Idle connections that are kept.
pub const SERVER_IDLE_CONNECTIONS_MAX: usize = 64;
/// How long one request waits at the server.
pub const SERVER_WAIT_MAX: Duration = Duration::from_secs(20);
/// Additional time for a bulk action at a server: a million jobs in bounded commits.
pub const SERVER_BULK_MAX: Duration = Duration::from_secs(600);
/// Bytes of one response: a claim of a thousand jobs with payloads at the default limit would exceed it.
pub const SERVER_ANSWER_BYTES_MAX: usize = 512 << 20;
/// Longest time of a heartbeat, besides its wait: a connection that is half dead must leave time for another one.
pub const SERVER_HEARTBEAT_MAX: Duration = Duration::from_secs(8);
/// How long an event stream may be silent: servers send keep-alives more often.
pub const SERVER_SILENCE_MAX: Duration = Duration::from_secs(45);
/// Bytes of one event in a stream: many times the limits of a record's texts.
pub const SERVER_EVENT_BYTES_MAX: usize = 1 << 20;
/// Queues of tenants with metrics in one process: some 10 MB; further queues are not counted.
pub const METRIC_QUEUES_MAX: usize = 10_000;
/// Types of tenants with metrics in one process: each is some 30 time series; further types are not counted.
pub const METERED_TYPE_TOTALS_MAX: usize = 200;
