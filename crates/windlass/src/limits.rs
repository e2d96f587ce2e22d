//! Every bound in the system, each with its reason. A bound that is not here does not exist.

use std::time::Duration;

/// Largest payload, result or checkpoint unless configured (M12): what fits a queue row without hurting it.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1 << 20;
/// Largest payload that can be configured (M12).
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// Characters in a type, queue or tenant name (M11).
pub const NAME_CHARS_MAX: usize = 255;
/// Characters in an idempotency, unique or concurrency key (M13).
pub const KEY_CHARS_MAX: usize = 256;
/// Entries in a job's tags (M16).
pub const TAGS_MAX: usize = 64;
/// Characters in the name of a tag (M16).
pub const TAG_NAME_CHARS_MAX: usize = 64;
/// Characters in the value of a tag (M16).
pub const TAG_VALUE_CHARS_MAX: usize = 256;
/// Characters in a correlation id; long enough for any trace header.
pub const CORRELATION_CHARS_MAX: usize = 256;
/// Characters in a callback address; what browsers and proxies pass on unharmed.
pub const CALLBACK_URL_CHARS_MAX: usize = 2048;
/// Callbacks of one tenant that are under way to one receiver at once: a receiver that never answers holds up no others.
pub const CALLBACKS_PER_RECEIVER: u64 = 8;
/// For how long the signing secret before the last one signs beside it: receivers have a day to learn the new one.
pub const WEBHOOK_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// Ports that callbacks and pushes go to unless configured: those of web servers, so that a callback cannot be made to speak
/// to a mail server or a database.
pub const TARGET_PORTS: [u16; 4] = [443, 80, 8443, 8080];
/// Jobs that one server process sends at once to a queue's push target, unless set.
pub const PUSH_CONCURRENCY_DEFAULT: u32 = 10;
/// Jobs that one server process may be told to send at once to a queue's push target: each is a connection.
pub const PUSH_CONCURRENCY_MAX: u32 = 1_000;
/// Queues that may have a push target, a tenant's own counted apart: every server runs a worker for each.
pub const PUSH_TARGETS_MAX: usize = 1_000;
/// How long a push target may take to answer, unless set: what proxies in front of web programs allow.
pub const PUSH_TIME_DEFAULT: Duration = Duration::from_secs(60);
/// Characters in the name of a content type.
pub const CONTENT_TYPE_CHARS_MAX: usize = 255;
/// Characters in a step's or signal's name.
pub const STEP_NAME_CHARS_MAX: usize = 256;
/// Characters in a reason a person gives for an action.
pub const REASON_CHARS_MAX: usize = 1024;
/// Bytes kept of an error message (M45); longer ones are cut, since a failure must never be refused.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 4096;
/// Errors kept behind an error; a chain that is longer is cut, since a failure must never be refused.
pub const ERROR_CAUSES_MAX: usize = 8;
/// Bytes kept of the message of each: all of them together take no more than two messages of errors.
pub const ERROR_CAUSE_BYTES_MAX: usize = 1024;
/// Characters in an error's code.
pub const ERROR_CODE_CHARS_MAX: usize = 128;
/// How long after its time a job may be removed that another process ended long after it was submitted: until then this
/// process does not look at that part of the order of submission again.
pub const PRUNE_LATE_MAX: Duration = Duration::from_secs(3600);
/// Ends of such jobs by this process that are remembered until they are looked at: half a megabyte.
pub const PRUNE_LATE_ENDS_MAX: usize = 1 << 16;
/// Bytes in one line of a job's log; longer lines are cut.
pub const LOG_LINE_BYTES_MAX: usize = 8192;
/// Log lines kept per job; the oldest make room.
pub const LOG_LINES_MAX: u64 = 10_000;
/// Log lines one call may carry.
pub const LOG_LINES_PER_CALL_MAX: usize = 1_000;
/// Characters in a progress message.
pub const PROGRESS_MESSAGE_CHARS_MAX: usize = 1024;
/// Jobs in one submission (M63).
pub const BATCH_JOBS_MAX: usize = 10_000;
/// Bytes of all payloads in one submission, and so in one commit: they are held in memory until it is over.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Dependencies of one job, `after` and `after_any` together (M61).
pub const DEPENDENCIES_MAX: usize = 1_000;
/// Jobs on the longest dependency path (M61).
pub const DEPENDENCY_DEPTH_MAX: u32 = 100;
/// Jobs that one call may claim.
pub const CLAIM_JOBS_MAX: usize = 1_000;
/// Bytes of payloads and checkpoints at which a claim ends although there are more jobs: they are read inside the commit and
/// held in memory. The last job may go beyond it, or a large one would never be claimed.
pub const CLAIM_BYTES_MAX: usize = 32 << 20;
/// Outcomes, heartbeats or leases in one call.
pub const OUTCOMES_PER_CALL_MAX: usize = 1_000;
/// Longest wait inside a claim.
pub const CLAIM_WAIT_MAX: Duration = Duration::from_secs(60);
/// Jobs one page of a list may hold.
pub const PAGE_JOBS_MAX: usize = 500;
/// Jobs that are looked at for one page of a list where no index leads to those that fit: a tenth of a second. A page
/// that is not full then says where to go on.
pub const LIST_SCAN_MAX: usize = 200_000;
/// Bytes of payloads after which a page of a list ends early, so that a look at large jobs does not take all memory.
pub const PAGE_PAYLOADS_MAX: usize = 32 << 20;
/// Records of the audit trail that one round of sealing takes in.
pub const SEAL_RECORDS_MAX: usize = 10_000;
/// How often at most a process logs the head of the audit trail that it seals: often enough to anchor the trail in logs that are
/// kept elsewhere, seldom enough not to fill them.
pub const SEAL_LOGGED_EVERY: Duration = Duration::from_secs(60);
/// How long a process that found another one sealing waits before it looks whether that one still does: whatever two of them
/// hash at once, one hashes in vain.
pub const SEAL_RETRY_AFTER: Duration = Duration::from_secs(3);
/// Names that are given as a hint when nothing has the name that was asked for.
pub const SIMILAR_NAMES_MAX: usize = 5;
/// Characters in which a name may differ from the one that was asked for to be given as a hint: people mistype a few.
pub const SIMILAR_EDITS_MAX: usize = 8;
/// Characters of two names that are compared, without those with which both begin or end: names that differ in more are not
/// mistyped.
pub const SIMILAR_CHARS_MAX: usize = 64;
/// Comparisons of two characters for one hint: some milliseconds. As many names as a tenant may have are compared if they are
/// of ordinary length; of names that were made to be slow, only the first.
pub const SIMILAR_STEPS_MAX: usize = 4_000_000;
/// Records one page of the audit trail may hold.
pub const PAGE_RECORDS_MAX: usize = 1_000;
/// Records that are looked at for one page of the audit trail where no index leads to those that fit: a search for something
/// rare takes several short pages instead of one read that holds a reader for as long as the trail is.
pub const AUDIT_SCAN_MAX: u64 = 100_000;
/// Jobs that one commit of a bulk action touches, so that others get their turn in between.
pub const BULK_JOBS_PER_COMMIT: usize = 500;
/// Places of due jobs that a claim compares when more are due than [`TICK_JOBS_PER_COMMIT`]: they are numbers, not jobs.
pub const DUE_POSITIONS_MAX: usize = 50_000;
/// First jobs of a priority that a claim compares where jobs age (M23), beside the first job of every lane: it looks up their
/// places in an index, about a microsecond each. It is exact up to so many pairs of a lane and a priority below the lane's
/// highest: 40 lanes that use all 101 priorities, or 4,096 that use two. Where there are more, lanes take turns, and each is
/// compared in full once in `pairs / (4,096 - 100)` claims, rounded up.
pub const AGING_HEADS_PER_CLAIM: usize = 4_096;
/// Lanes whose turn to be compared is remembered; all are forgotten when there are more.
pub const AGING_LANES_REMEMBERED: usize = 200_000;
/// Jobs that one maintenance commit moves, so that claims never wait long behind it.
pub const TICK_JOBS_PER_COMMIT: usize = 1_000;
/// Jobs that one commit changes as consequences of what it was asked for (dependents told, priorities passed on, children
/// cancelled, leases of lost workers ended, running jobs of a paused queue suspended). What remains is kept as a cursor and continued by maintenance, as many per
/// commit, so that nothing stops the other callers for long.
pub const CASCADE_JOBS_PER_COMMIT: usize = 1_000;
/// A commit with many outcomes may change so many jobs for each of them: jobs of workflows that end together each have a
/// dependent or two.
pub const CASCADE_JOBS_PER_OUTCOME: usize = 2;
/// Rows that such a commit looks at for each job that it may change: dependents read to find out what they inherit, running
/// jobs read to find those of a lost worker.
pub const CASCADE_ROWS_PER_JOB: usize = 20;
/// A lookup that is made for a single job costs about as much as changing so many jobs in one go.
pub const CASCADE_JOBS_PER_LOOKUP: usize = 4;
/// Edges, children or running jobs that a cascade reads at a time: what it holds in memory.
pub const CASCADE_PAGE: usize = 500;
/// Jobs whose dependencies are read at once to find out what they inherit; each has [`DEPENDENCIES_MAX`] at most.
pub const CASCADE_INHERITING_AT_ONCE: usize = 20;
/// Unfinished cascades that are counted for those who look: with more of them it is enough to know that there are more.
pub const CASCADES_COUNTED_MAX: usize = 1_000;
/// Workers that one commit declares lost or forgets: each is a document of the configuration.
pub const SILENT_WORKERS_PER_COMMIT: usize = 200;
/// Dependents of a final job that are looked at to find out whether one still needs it, and whose edges go with it. A job of
/// which more are stored is kept until some of them have been removed; a commit that removes many jobs stops here too.
pub const DEPENDENTS_LOOKED_AT: usize = 10_000;
/// Pauses that one commit of maintenance lifts because their time is over: each is a document of the configuration.
pub const EXPIRED_PAUSES_PER_COMMIT: usize = 200;
/// Running jobs that are looked at to find out whether a worker that does not beat may be forgotten; beside more of them it
/// stays in the registry.
pub const BUSY_JOBS_SCAN_MAX: usize = 5_000;
/// Signals kept for a job that has not asked for them yet.
pub const SIGNALS_KEPT_MAX: usize = 1_000;
/// Checkpoints of one job; a job with more steps than this should be several jobs.
pub const CHECKPOINTS_MAX: usize = 10_000;
/// Bytes of all checkpoints of one job: a claim hands them out together. What is larger belongs into a store for files.
pub const CHECKPOINTS_BYTES_MAX: usize = 64 << 20;
/// Bytes of results of children that are read together; what is beyond is left out and asked for child by child.
pub const CHILD_RESULTS_BYTES_MAX: usize = 64 << 20;
/// How often maintenance commits although nothing happens, while there are workers that beat: half of the time after which a store
/// without commits counts as not served.
pub const SERVICE_SHOWN_EVERY: Duration = Duration::from_secs(5);
/// Child groups of one job.
pub const CHILD_GROUPS_MAX: u64 = 1_000;
/// Queues or types that one worker may name.
pub const WORKER_NAMES_MAX: usize = 1_000;
/// Bytes of all queues, types and texts that one worker may name, [`WORKER_NAME_OVERHEAD`] counted for each: a thousand names of
/// ordinary length. Every process keeps them in memory for as long as the worker is known.
pub const WORKER_BYTES_MAX: usize = 64 << 10;
/// Bytes that a name takes in memory beside its characters.
pub const WORKER_NAME_OVERHEAD: usize = 32;
/// Workers that one API key may have registered, and all callers without one together: far more than a fleet has. Those that
/// were lost make room.
pub const WORKERS_PER_KEY_MAX: usize = 10_000;
/// The same for all keys of one tenant.
pub const WORKERS_PER_TENANT_MAX: usize = 20_000;
/// Bytes of what the workers of one API key name together: ten thousand workers of some ten queues and types each.
pub const WORKERS_BYTES_PER_KEY_MAX: usize = 8 << 20;
/// The same for all keys of one tenant.
pub const WORKERS_BYTES_PER_TENANT_MAX: usize = 16 << 20;
/// Attempts a retry policy may allow (M40).
pub const ATTEMPTS_MAX: u32 = 100;
/// Crashes after which a job is poison (M6).
pub const CRASHES_MAX_DEFAULT: u32 = 3;
/// Shortest lease (M35): anything shorter could not be acted on in time.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// A lease is extended by no less than this, or a tenth of it: writing every sign of life serves nobody.
pub const LEASE_STEP: Duration = Duration::from_secs(1);
/// Silence after which a worker that beats is dead (M31).
pub const WORKER_SILENCE_MAX: Duration = Duration::from_secs(30);
/// Largest step of a wall clock that a running store follows (M7): drift between two corrections is far below it, and what
/// it can shift is far below a lease or a lifetime.
pub const CLOCK_STEP_MAX: Duration = Duration::from_secs(60);
/// Store time runs at least at one part in this many of real time while the wall clock is behind it.
pub const CLOCK_SLOWEST: i64 = 2;
/// Store time runs at most this many times as fast as real time while the wall clock is ahead of it.
pub const CLOCK_FASTEST: i64 = 2;
/// How long no lifetime ends and nothing is pruned after a store in a file began with a jump of its time: by then a clock that
/// was wrong when the machine started has been set right.
pub const CLOCK_CAUTION: Duration = Duration::from_secs(300);
/// How long leases are kept after a gap in which no worker could report: one heartbeat, and some time for it to arrive.
pub const LEASE_GRACE: Duration = Duration::from_secs(15);
/// How often a worker beats unless told otherwise (M31).
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// A handler as quick as this ends before a claim does: its worker claims ahead, so as not to wait for claims, about as much
/// as its handlers do in this time.
pub const QUICK_HANDLER_MAX: Duration = Duration::from_millis(2);
/// Handlers at once from which on a worker may claim ahead; with fewer, order matters more than speed.
pub const PREFETCH_FROM_SLOTS: usize = 10;
/// Jobs claimed ahead for each handler at most: what is in flight is what a commit can share.
pub const PREFETCH_PER_SLOT: usize = 8;
/// Jobs claimed ahead for one queue of a worker at most: they are as lost as those that run if its process dies.
pub const PREFETCH_MAX: usize = 400;
/// Handlers of one queue in one worker at most; more than any machine runs.
pub const SLOTS_MAX: usize = 1_000_000;
/// How long after its start a job that was claimed ahead is noted as started, so that a crash from then on is charged to it. A
/// handler that is quick enough for claims ahead ends long before, and costs no commit of its own.
pub const START_NOTED_AFTER: Duration = Duration::from_millis(50);
/// How long a job that was claimed ahead waits for its turn before it is given back.
pub const PREFETCH_WAIT_MAX: Duration = Duration::from_millis(100);
/// Jobs that a batch handler may be given at once: no claim brings more.
pub const BATCH_HANDLER_JOBS_MAX: usize = CLAIM_JOBS_MAX;
/// How long a batch handler may let jobs wait for others: they are held meanwhile, and nobody else can run them.
pub const BATCH_COLLECT_MAX: Duration = Duration::from_secs(60);
/// How long a dead or departed worker stays in the registry for people to see.
pub const WORKER_REMEMBERED: Duration = Duration::from_secs(3600);
/// Longest duration anywhere: 100 years.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Callers that may wait for the writer; one more is told the store is overloaded.
pub const WRITES_WAITING_MAX: usize = 4_096;
/// Requests that one group commit takes in.
pub const WRITES_PER_GROUP_MAX: usize = 1_024;
/// Jobs that the requests of one group commit change together, as far as that is known beforehand: one batch, as large as it
/// may be, or many small requests.
pub const GROUP_JOBS_MAX: usize = BATCH_JOBS_MAX;
/// The same beside heartbeats and other urgent requests: heavier work waits for the next commit, so that a sign of life is
/// on disk, and its lease extended, before a bulk commit begins.
pub const GROUP_JOBS_BESIDE_URGENT: usize = 1_000;
/// A claim counts as one in so many of the jobs it asks for: most that ask for many find few.
pub const CLAIM_WEIGHT_SHARE: usize = 16;
/// Events kept in memory for live readers; a slower reader goes on from the durable trail.
pub const LIVE_EVENTS_MAX: usize = 4_096;
/// Commits whose changes are kept for those who watch; whoever falls further behind takes everything to have changed.
pub const LIVE_CHANGES_MAX: usize = 1_024;
/// Characters in a cron expression: every list and range one could mean fits.
pub const CRON_CHARS_MAX: usize = 256;
/// Years in which a day that a cron expression names must come; the rarest, a 29th of February on a given weekday, comes
/// within them.
pub const CRON_YEARS_SEARCHED: i16 = 40;
/// Shortest time between runs of a schedule: what comes more often is a loop, not a schedule.
pub const SCHEDULE_EVERY_MIN: Duration = Duration::from_secs(1);
/// How late a run may be started without having been missed: time is acted on within a second (M35), a commit takes some.
pub const SCHEDULE_LATE_MAX: Duration = Duration::from_secs(2);
/// Missed runs that are made up for at most (M80): enough for a weekend of hours, too few to drown in.
pub const SCHEDULE_MISSED_MAX: usize = 100;
/// Largest result that goes into a callback; who wants a larger one asks for it.
pub const CALLBACK_RESULT_BYTES_MAX: usize = 64 << 10;
/// Schedules in one store: all of them are held in memory.
pub const SCHEDULES_MAX: usize = 10_000;
/// Largest payload of a schedule's job: it is held in memory; a larger one belongs where its handler can fetch it.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// How long a schedule's run that was refused for want of room is tried again, unless the next run comes first: long enough for a
/// backlog to shrink, short enough that nobody takes the job for one of a later run.
pub const SCHEDULE_RETRY_MAX: Duration = Duration::from_secs(3600);
/// Jobs of one schedule that are watched because no two may run side by side; there is one, and those started by hand.
pub const SCHEDULE_OPEN_JOBS_MAX: usize = 100;
/// Schedules whose jobs one commit submits, so that claims never wait long behind it.
pub const TICK_SCHEDULES_PER_COMMIT: usize = 100;
/// Runs of a schedule that are shown ahead (M81).
pub const SCHEDULE_RUNS_SHOWN: usize = 5;
/// API keys in one store: all of them are held in memory.
pub const API_KEYS_MAX: usize = 10_000;
/// How often the use of an API key is written down: a minute is near enough for people, and not a write per request.
pub const KEY_USE_WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// How long a process trusts the API keys it has read; a key that another one revoked is worthless within a second.
pub const KEY_CACHE_TTL: Duration = Duration::from_millis(500);
/// How long an idle claim waits before it looks again without having been woken (M103).
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Claims that wait in one process and each look every [`POLL_INTERVAL`]; with as many more, each looks half as often, and so
/// on up to [`HEARTBEAT_EVERY`], by which a worker must have shown that it lives.
pub const POLL_CROWD: usize = 100;
/// Lanes that one commit names as those with new work; beyond them everybody who waits looks for themselves.
pub const WAKEUP_LANES_MAX: usize = 32;
/// News of work that are remembered for those who were looking while they came.
pub const WAKEUPS_KEPT: usize = 64;
/// How often a waiting process looks whether another one changed the file.
pub const CROSS_PROCESS_EVERY: Duration = Duration::from_millis(20);
/// Minutes for which rates are kept.
pub const RATE_MINUTES_KEPT: i64 = 61;
/// How often the minutes that are over are read anew for those who look at rates: what other nodes add to them late is rare.
pub const RATES_READ_EVERY: Duration = Duration::from_secs(15);
/// Jobs examined by one call of `verify`'s scans at a time.
pub const VERIFY_PAGE: usize = 2_000;
/// When to try again after the store said that it is overloaded: by then thousands of commits have passed.
pub const OVERLOADED_RETRY_AFTER: Duration = Duration::from_secs(1);
/// When to try again after a queue or tenant was too deep: whoever works on it may have ended thousands of jobs by then.
pub const TOO_DEEP_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Callers that may wait for a reader; one more is told the store is overloaded.
pub const READS_WAITING_MAX: usize = 4_096;
/// Of those, how many may wait for one API key: callers are served in turns, so that the others do not wait for them, and they
/// must not take all places either.
pub const READS_WAITING_PER_KEY_MAX: usize = 1_024;
/// The same for all keys of one tenant.
pub const READS_WAITING_PER_TENANT_MAX: usize = 2_048;
/// Queues, types, tenants and costs, of each so many, that one answer with numbers about everything shows: a hundred
/// kilobytes. Lists of queues, types and tenants show all of them page by page.
pub const STATS_NAMES_MAX: usize = 1_000;
/// Reader threads: enough that a long list does not hold up a short look, few enough to leave the writer a core.
pub const READERS: usize = 3;
/// How long a request to cancel a statement may take; the caller of the statement has left.
pub const CANCEL_MAX: Duration = Duration::from_secs(1);
/// Results that are read at once for a list: what is held in memory beyond a page's own bound.
pub const RESULTS_AT_ONCE: usize = 50;
/// Readers beside them that are kept free for short looks which others wait for: keys, settings, readiness. However many
/// long looks there are, a probe and a request's key are looked up at once.
pub const READERS_RESERVED: usize = 1;
/// Lanes whose first jobs are asked for in one question.
pub const LANES_ASKED_AT_ONCE: usize = 1_000;
/// Queues with jobs that a tenant may have unless its `max_queues` says otherwise: every claim and every list of queues passes
/// over them.
pub const QUEUES_PER_TENANT_MAX: u64 = 10_000;
/// The same for types, and `max_types`.
pub const TYPES_PER_TENANT_MAX: u64 = 10_000;
/// The same for lanes (pairs of a queue and a type), and `max_lanes`: each has counters in memory and a document of rates per
/// minute, and the limits on queues and types alone would allow a hundred million.
pub const LANES_PER_TENANT_MAX: u64 = 20_000;
/// Longest look at one snapshot: while it lasts, the write-ahead log cannot begin again from its start.
pub const SNAPSHOT_MAX: Duration = Duration::from_secs(30);
/// Bytes in a page of the database: a commit is mostly writing pages, and fewer, larger ones cost less (measured: 5 % less
/// work per job than with 4096).
pub const PAGE_BYTES: i64 = 8192;
/// Pages the writer keeps in memory, in KiB; with the readers' far below the 256 MB a store may use.
pub const WRITER_CACHE_KIB: i64 = 16 * 1024;
/// Pages each reader keeps in memory, in KiB.
pub const READER_CACHE_KIB: i64 = 8 * 1024;
/// Pages in the write-ahead log from which on they are moved to the database: some 16 MB, so that it stays small on a small
/// disk and in the cache.
pub const LOG_PAGES_MAX: u64 = 2_000;
/// Pages worth moving once the log is that long, so that a long look does not make every commit move a few.
pub const LOG_PAGES_STEP: u64 = 200;
/// Bytes of write-ahead log that stay allocated once it begins again from its start.
pub const LOG_BYTES_KEPT: u64 = 64 << 20;
/// Bytes of write-ahead log above which the writer cuts it when it has nothing else to do.
pub const LOG_BYTES_MAX: u64 = 256 << 20;
/// Disk space held back for running work to end when the disk is full: the whole log fits the database, and some more.
pub const RESERVE_BYTES: u64 = 24 << 20;
/// Disk space held back where the database itself has free pages of [`RESERVE_BYTES`]: moving the log then needs no new
/// pages, and only the log has to fit the disk.
pub const RESERVE_BYTES_BESIDE_FREE_PAGES: u64 = 4 << 20;
/// How often a store without its reserve tries to get it back; each try writes up to that much.
pub const RESERVE_RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long one statement waits for a lock that another process has.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long a group of writes waits in all for its turn among other processes; then callers are told to come again. The
/// deadlines of its requests are usually earlier.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a request may take in a store, in all: waiting in the queue, for locks, for a database that is away and for its
/// answers. With [`ANSWER_MARGIN`] well below the 30 s in which a submission is acknowledged or refused (M32).
pub const REQUEST_MAX: Duration = Duration::from_secs(25);
/// How long after its deadline a caller still waits for the engine's own answer, which says more than that time is up.
pub const ANSWER_MARGIN: Duration = Duration::from_secs(1);
/// How often the look-out for other processes checks whether anybody waits for it.
pub const LISTENER_IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// Tokens in a rate's bucket (M111): with the longest time to fill it, counting them still fits 64 bits.
pub const RATE_COUNT_MAX: u64 = 1_000_000;
/// A tenant's weight (M112): how many jobs it may start while another starts one.
pub const TENANT_WEIGHT_MAX: u32 = 1_000;
/// A tenant's budget in cents: what a JSON number carries unharmed everywhere.
pub const BUDGET_CENTS_MAX: u64 = 1 << 53;
/// How long a connection to a database server may take to be made.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a database server may take to answer; a longer silence is a broken connection. Calls on behalf of requests are
/// also bounded by the requests' deadlines.
pub const CALL_MAX: Duration = Duration::from_secs(35);
/// How long after the deadline of its requests a call to a database server is given up: enough for a rollback.
pub const CALL_MARGIN: Duration = Duration::from_secs(2);
/// How long a transaction may stand idle before the database server ends it: a node that froze must not hold up the others
/// for longer. A healthy node is idle for milliseconds.
pub const TRANSACTION_IDLE_MAX: Duration = Duration::from_secs(2);
/// The same when a group of requests is tried again: on a machine so slow that the server ended its first transaction, the
/// second one must have a chance.
pub const TRANSACTION_IDLE_RETRIED_MAX: Duration = Duration::from_secs(8);
/// How long callers wait for a database server that is away before they are told.
pub const DB_OUTAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the rows of `commits` are kept at least. A node whose connection broke during a commit asks within
/// [`CALL_MAX`] + [`DB_OUTAGE_TIMEOUT`] whether it was made; five times that also covers nodes that were frozen for a while.
pub const COMMITS_KEPT_FOR: Duration = Duration::from_secs(300);
/// Rows of `commits` that are kept however old they are.
pub const COMMITS_KEPT_MIN: i64 = 4_096;
/// Rows of `commits` that one commit forgets at most.
pub const COMMITS_FORGOTTEN_MAX: i64 = 1_024;
/// How long closing a store waits for a database server that is away or does not answer; a server must be gone 10 s after
/// SIGTERM, of which answering requests takes up to 7 s.
pub const CLOSE_MAX: Duration = Duration::from_secs(1);
/// Other nodes whose announcements a node remembers; far more than there are.
pub const NODES_KEPT: usize = 4_096;
/// How long a job must have been claimable, or final, before finding it by polling counts as a missed notification: one that
/// is on its way arrives within this time.
pub const NOTICE_MAX: Duration = Duration::from_millis(250);
/// How often at most other nodes are told of commits: those in between share one notification.
pub const NOTIFY_EVERY: Duration = Duration::from_millis(2);
/// Submissions through the door in SQL that one commit makes jobs of, so that claims never wait long behind it.
pub const INBOX_ENTRIES_PER_COMMIT: usize = 500;
/// Bytes of their payloads that are held in memory at once; one more may come on top.
pub const INBOX_BYTES_MAX: usize = 16 << 20;
/// Rows that one commit of a move holds: enough that its fsync is lost among them, few enough that a progress bar moves.
pub const MOVE_ROWS_PER_COMMIT: usize = 2_000;
/// Bytes of payloads and the like that one commit of a move holds in memory; one more row may come on top.
pub const MOVE_BYTES_PER_COMMIT: usize = 8 << 20;
/// How long a move waits for those who still have the store open: a process that was just ended may need a moment.
pub const MOVE_WAIT_MAX: Duration = Duration::from_secs(5);
/// The largest fence: what every JSON parser reads exactly, also those with floating-point numbers.
pub const FENCE_MAX: u64 = (1 << 53) - 1;
/// The last generation of a store: 12 bits of a fence. A store restored every day reaches it after eleven years; from then
/// on only the random bits tell fences from before and after a restore apart.
pub const GENERATION_MAX: u64 = (1 << 12) - 1;
/// How soon a connection that broke is made anew, the first time.
pub const RECONNECT_EVERY_MIN: Duration = Duration::from_millis(20);
/// How often a database server that is away is tried.
pub const RECONNECT_EVERY_MAX: Duration = Duration::from_secs(1);

/// Outcomes that wait to be reported; a full buffer slows claiming.
pub const REPORTS_BUFFERED_MAX: usize = 4_096;
/// How long a handler that was told to stop may clean up before it is dropped.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// How long a worker that shuts down lets its handlers go on.
pub const DRAIN_DEFAULT: Duration = Duration::from_secs(30);
/// How long a worker that shuts down tries to report what it has done.
pub const SHUTDOWN_REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a step that comes early waits for those that an earlier attempt saved before it, while its handler is busy
/// with something else. A replay reaches a saved step as soon as what lies before it allows; after that long it is taken
/// for a difference in scheduling, and the step runs.
pub const STEP_TURN_WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a new step that comes early waits for those that an earlier attempt saved before it, when nothing in its
/// handler can go on but a copy of its context exists, which may be in a task that is about to call them. A task that
/// calls steps does so sooner; after that long the copy is taken for one that calls none, and the code for changed.
pub const STEP_COPY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a step that an earlier attempt dropped waits for what the handler preferred to it, beside twice the time it
/// took then: enough for a slow answer. After that long what made the handler drop it is taken not to come again, and
/// the step runs.
pub const DROPPED_STEP_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a job that wants to park waits for what else its handler does, other than steps: enough for a turn of work,
/// and no slot is held for a handler that only listens to something.
pub const PARK_WAIT_MAX: Duration = Duration::from_secs(1);
/// What one parked job may wait for at once; each is looked for when it is woken.
pub const PARK_WAITS_MAX: usize = 100;
/// How far the end of a sleep that counts down to a moment may be off in a later attempt: the time between asking the
/// clock and sleeping.
pub const SLEEP_END_TOLERANCE: Duration = Duration::from_secs(60);

/// How long a server may take to answer an ordinary call: by then it has refused what it cannot do (M32), and some more.
pub const SERVER_CALL_MAX: Duration = Duration::from_secs(35);
/// How long connecting to a server may take: any network that is slower is down.
pub const SERVER_CONNECT_MAX: Duration = Duration::from_secs(5);
/// For how long a call is repeated while its server is away, if repeating is safe: a server that restarts is back by then.
pub const SERVER_AWAY_MAX: Duration = Duration::from_secs(10);
/// How long a connection to a server is kept without being used; shorter than servers keep theirs, so that none is used
/// in the moment in which it is closed.
pub const SERVER_IDLE_MAX: Duration = Duration::from_secs(20);
/// Connections that are kept without being used.
pub const SERVER_IDLE_CONNECTIONS_MAX: usize = 64;
/// How long one request waits at the server; a server that has vanished is noticed soon after.
pub const SERVER_WAIT_MAX: Duration = Duration::from_secs(20);
/// How long an action on many jobs may take at a server, on top of an ordinary call: a million jobs in bounded commits.
pub const SERVER_BULK_MAX: Duration = Duration::from_secs(600);
/// Bytes of one answer: a claim of a thousand jobs with payloads at the default limit would still not fit a machine.
pub const SERVER_ANSWER_BYTES_MAX: usize = 512 << 20;
/// How long a stream of events may be silent: servers show that they are alive more often.
pub const SERVER_SILENCE_MAX: Duration = Duration::from_secs(45);
/// Bytes of one event in a stream: a record's texts at their limits, many times over.
pub const SERVER_EVENT_BYTES_MAX: usize = 1 << 20;
/// Queues of tenants that a process keeps totals of for those who watch it: some 10 MB; any more go uncounted.
pub const METRIC_QUEUES_MAX: usize = 10_000;
/// Types of tenants that a process keeps totals of by themselves: each is some 30 time series; any more go uncounted.
pub const METERED_TYPE_TOTALS_MAX: usize = 200;
