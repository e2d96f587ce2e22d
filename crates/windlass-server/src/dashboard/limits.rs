//! Every bound of the dashboard, each with its reason.

use std::time::Duration;

/// Jobs on one page of the list: what a person can look over.
pub(super) const JOBS_PER_PAGE: usize = 50;
/// Records on one page of the audit trail.
pub(super) const RECORDS_PER_PAGE: usize = 100;
/// Records looked through for one page of the audit trail: what takes a tenth of a second. A filter that fits little ends
/// there, and the page says so.
pub(super) const RECORDS_LOOKED_AT: u64 = 100_000;
/// Records looked through in one question, where few fit.
pub(super) const RECORDS_STRIDE_MAX: u64 = 16_000;
/// Failed jobs that are looked at to group them by their errors; each comes with its payload.
pub(super) const FAILURES_SAMPLED: usize = 150;
/// Retrying jobs that are looked at, for the same and for when they come; of more it is not said when.
pub(super) const RETRIES_SAMPLED: usize = 100;
/// Dead letters counted one by one for a page, since whether one was redriven is not kept in a counter; "499+" says enough, and
/// takes one question.
pub(super) const DEAD_LETTERS_COUNTED: usize = 499;
/// Queues on the first page; those in trouble come first.
pub(super) const QUEUES_SHOWN: usize = 25;
/// The same for one type: they are picked from among those of all types.
pub(super) const FAILURES_OF_TYPE_SAMPLED: usize = 60;
/// Dead letters that are looked at to group them.
pub(super) const DEAD_LETTERS_SAMPLED: usize = 1_000;
/// Dead letters read at a time: each comes with its payload, and a hundred of the largest still fit into memory.
pub(super) const DEAD_LETTERS_PER_READ: usize = 100;
/// Dead letters of a type that are looked at to find those of a group that is redriven.
pub(super) const GROUP_LOOKED_MAX: usize = 10_000;
/// Jobs counted one by one before an action, where counters do not know; beyond it the page says "more than".
pub(super) const COUNTED_MAX: usize = 10_000;
/// Bytes of a filter in all: a long tag, and some. Every link of the list holds it.
pub(super) const ASKED_BYTES_MAX: usize = 4 << 10;
/// Bytes of a link that stands in every row of a list.
pub(super) const LINK_BYTES_MAX: usize = 400;
/// Names that a search offers when nothing is called what was searched for.
pub(super) const NAMES_ALIKE_SHOWN: usize = 20;
/// Groups of failures shown.
pub(super) const GROUPS_SHOWN: usize = 8;
/// Running jobs that are shown with their workers.
pub(super) const RUNNING_SHOWN: usize = 500;
/// Running jobs that are counted by worker: a lease says whose one is, and no counter does. Of more it is said that there are.
pub(super) const RUNNING_COUNTED: usize = 5_000;
/// Running jobs named per worker.
pub(super) const RUNNING_PER_WORKER: usize = 6;
/// Jobs drawn in a dependency graph; more would not be read.
pub(super) const GRAPH_JOBS_MAX: usize = 60;
/// Children shown one by one.
pub(super) const CHILDREN_SHOWN: usize = 200;
/// Days in the calendar of schedules.
pub(super) const CALENDAR_DAYS: i64 = 7;
/// Runs of one schedule that are worked out for one day: every ten minutes; beyond that the number says little.
pub(super) const CALENDAR_RUNS_MAX: usize = 144;
/// Schedules that are asked for their runs of the week: the soonest.
pub(super) const CALENDAR_SCHEDULES_MAX: usize = 1_000;
/// Schedules on one page of their list.
pub(super) const SCHEDULES_PER_PAGE: usize = 50;
/// Schedules named on one day.
pub(super) const CALENDAR_LINES: usize = 8;
/// Bytes of a payload or result that are shown; the rest can be downloaded.
pub(super) const SHOWN_BYTES_MAX: usize = 64 << 10;
/// Bytes of a checkpoint that are shown.
pub(super) const CHECKPOINT_BYTES_MAX: usize = 4 << 10;
/// Bytes that all checkpoints together take up on a page.
pub(super) const CHECKPOINTS_BYTES_MAX: usize = 128 << 10;
/// Checkpoints shown: each may be a megabyte to read.
pub(super) const CHECKPOINTS_SHOWN: usize = 100;
/// Log lines shown, the latest.
pub(super) const LOG_LINES_SHOWN: u64 = 500;
/// Bytes that the lines of a log take up on a page, which is sent again while more come.
pub(super) const LOG_BYTES_SHOWN: usize = 128 << 10;
/// Characters of one line of a log, and of an attempt's error.
pub(super) const LINE_CHARS_SHOWN: usize = 2_000;
/// Attempts shown, the latest.
pub(super) const ATTEMPTS_SHOWN: usize = 100;
/// Jobs that can be selected one by one for an action: a page of them, and some.
pub(super) const SELECTED_MAX: usize = 500;
/// Bytes of a form: a page of ids and a reason.
pub(super) const FORM_BYTES_MAX: usize = 128 << 10;
/// Sessions at once; the one that was idle longest makes room.
pub(super) const SESSIONS_MAX: usize = 10_000;
/// Sessions of one key at once: a team that shares it, on a few machines each. Its own idlest makes room, nobody else's.
pub(super) const SESSIONS_PER_KEY_MAX: usize = 100;
/// How long a session lasts without a request.
pub(super) const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// How long a session lasts in all: a week, as long as most shifts.
pub(super) const SESSION_LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Live streams at once.
pub(super) const STREAMS_MAX: usize = 1_000;
/// Live streams of one key at once, so that none takes them all; a page without one asks again every few seconds.
pub(super) const STREAMS_PER_KEY_MAX: usize = 200;
/// How often an open page is told of changes at most: more often is flicker, and work for the store.
pub(super) const LIVE_EVERY: Duration = Duration::from_secs(1);
/// How often a job's page is told that something around the job changed, such as a pause or a child: that is anything of its
/// tenant, so less often than what it says itself.
pub(super) const LIVE_AROUND_EVERY: Duration = Duration::from_secs(3);
/// How often an open page is refreshed when nothing happens, so that ages and charts move on.
pub(super) const LIVE_IDLE_EVERY: Duration = Duration::from_secs(15);
/// Queues or types on one page of their list: each comes with the line of its last hour.
pub(super) const NAMES_PER_PAGE: usize = 30;
/// Tenants on one page: each comes with a form for its limits.
pub(super) const TENANTS_PER_PAGE: usize = 24;
/// API keys on one page.
pub(super) const KEYS_PER_PAGE: usize = 50;
/// Names that a field offers; any other can be typed.
pub(super) const NAMES_OFFERED: usize = 200;
