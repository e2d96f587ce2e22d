//! Every bound of the dashboard, each with its reason.

use std::time::Duration;

/// Jobs on one page of the list: what a person can look over.
pub(in crate::dashboard) const JOBS_PER_PAGE: usize = 50;
/// Records on one page of the audit trail.
pub(in crate::dashboard) const RECORDS_PER_PAGE: usize = 100;
/// Records looked through for one page of the audit trail: what takes a tenth of a second. A filter that fits little ends
/// there, and the page says so.
pub(in crate::dashboard) const RECORDS_LOOKED_AT: u64 = 100_000;
/// Records looked through in one question, where few fit.
pub(in crate::dashboard) const RECORDS_STRIDE_MAX: u64 = 16_000;
/// Failed jobs that are looked at to group them by their errors; each comes with its payload.
pub(in crate::dashboard) const FAILURES_SAMPLED: usize = 150;
/// Retrying jobs that are looked at, for the same and for when they come; of more it is not said when.
pub(in crate::dashboard) const RETRIES_SAMPLED: usize = 100;
/// Dead letters counted one by one for a page, since whether one was redriven is not kept in a counter; "499+" says enough, and
/// takes one question.
pub(in crate::dashboard) const DEAD_LETTERS_COUNTED: usize = 499;
/// Queues on the first page; those in trouble come first.
pub(in crate::dashboard) const QUEUES_SHOWN: usize = 25;
/// The same for one type: they are picked from among those of all types.
pub(in crate::dashboard) const FAILURES_OF_TYPE_SAMPLED: usize = 60;
/// Dead letters that are looked at to group them.
pub(in crate::dashboard) const DEAD_LETTERS_SAMPLED: usize = 1_000;
/// Dead letters read at a time: each comes with its payload, and a hundred of the largest still fit into memory.
pub(in crate::dashboard) const DEAD_LETTERS_PER_READ: usize = 100;
/// Dead letters of a type that are looked at to find those of a group that is redriven.
pub(in crate::dashboard) const GROUP_LOOKED_MAX: usize = 10_000;
/// Jobs counted one by one before an action, where counters do not know; beyond it the page says "more than".
pub(in crate::dashboard) const COUNTED_MAX: usize = 10_000;
/// Bytes of a filter in all: a long tag, and some. Every link of the list holds it.
pub(in crate::dashboard) const ASKED_BYTES_MAX: usize = 4 << 10;
/// Bytes of a link that stands in every row of a list.
pub(in crate::dashboard) const LINK_BYTES_MAX: usize = 400;
/// Names that a search offers when nothing is called what was searched for.
pub(in crate::dashboard) const NAMES_ALIKE_SHOWN: usize = 20;
/// Groups of failures shown.
pub(in crate::dashboard) const GROUPS_SHOWN: usize = 8;
/// Running jobs that are shown with their workers.
pub(in crate::dashboard) const RUNNING_SHOWN: usize = 500;
/// Running jobs that are counted by worker: a lease says whose one is, and no counter does. Of more it is said that there are.
pub(in crate::dashboard) const RUNNING_COUNTED: usize = 5_000;
/// Running jobs named per worker.
pub(in crate::dashboard) const RUNNING_PER_WORKER: usize = 6;
/// Jobs drawn in a dependency graph; more would not be read.
pub(in crate::dashboard) const GRAPH_JOBS_MAX: usize = 60;
/// Children shown one by one.
pub(in crate::dashboard) const CHILDREN_SHOWN: usize = 200;
/// Days in the calendar of schedules.
pub(in crate::dashboard) const CALENDAR_DAYS: i64 = 7;
/// Runs of one schedule that are worked out for one day: every ten minutes; beyond that the number says little.
pub(in crate::dashboard) const CALENDAR_RUNS_MAX: usize = 144;
/// Schedules that are asked for their runs of the week: the soonest.
pub(in crate::dashboard) const CALENDAR_SCHEDULES_MAX: usize = 1_000;
/// Schedules on one page of their list.
pub(in crate::dashboard) const SCHEDULES_PER_PAGE: usize = 50;
/// Schedules named on one day.
pub(in crate::dashboard) const CALENDAR_LINES: usize = 8;
/// Bytes of a payload or result that are shown; the rest can be downloaded.
pub(in crate::dashboard) const SHOWN_BYTES_MAX: usize = 64 << 10;
/// Bytes of a checkpoint that are shown.
pub(in crate::dashboard) const CHECKPOINT_BYTES_MAX: usize = 4 << 10;
/// Bytes that all checkpoints together take up on a page.
pub(in crate::dashboard) const CHECKPOINTS_BYTES_MAX: usize = 128 << 10;
/// Checkpoints shown: each may be a megabyte to read.
pub(in crate::dashboard) const CHECKPOINTS_SHOWN: usize = 100;
/// Log lines shown, the latest.
pub(in crate::dashboard) const LOG_LINES_SHOWN: u64 = 500;
/// Bytes that the lines of a log take up on a page, which is sent again while more come.
pub(in crate::dashboard) const LOG_BYTES_SHOWN: usize = 128 << 10;
/// Characters of one line of a log, and of an attempt's error.
pub(in crate::dashboard) const LINE_CHARS_SHOWN: usize = 2_000;
/// Attempts shown, the latest.
pub(in crate::dashboard) const ATTEMPTS_SHOWN: usize = 100;
/// Jobs that can be selected one by one for an action: a page of them, and some.
pub(in crate::dashboard) const SELECTED_MAX: usize = 500;
/// Bytes of a form: a page of ids and a reason.
pub(in crate::dashboard) const FORM_BYTES_MAX: usize = 128 << 10;
/// Sessions at once; the one that was idle longest makes room.
pub(in crate::dashboard) const SESSIONS_MAX: usize = 10_000;
/// Sessions of one key at once: a team that shares it, on a few machines each. Its own idlest makes room, nobody else's.
pub(in crate::dashboard) const SESSIONS_PER_KEY_MAX: usize = 100;
/// How long a session lasts without a request.
pub(in crate::dashboard) const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// How long a session lasts in all: a week, as long as most shifts.
pub(in crate::dashboard) const SESSION_LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Live streams at once.
pub(in crate::dashboard) const STREAMS_MAX: usize = 1_000;
/// Live streams of one key at once, so that none takes them all; a page without one asks again every few seconds.
pub(in crate::dashboard) const STREAMS_PER_KEY_MAX: usize = 200;
/// How often an open page is told of changes at most: more often is flicker, and work for the store.
pub(in crate::dashboard) const LIVE_EVERY: Duration = Duration::from_secs(1);
/// How often a job's page is told that something around the job changed, such as a pause or a child: that is anything of its
/// tenant, so less often than what it says itself.
pub(in crate::dashboard) const LIVE_AROUND_EVERY: Duration = Duration::from_secs(3);
/// How often an open page is refreshed when nothing happens, so that ages and charts move on.
pub(in crate::dashboard) const LIVE_IDLE_EVERY: Duration = Duration::from_secs(15);
/// Queues or types on one page of their list: each comes with the line of its last hour.
pub(in crate::dashboard) const NAMES_PER_PAGE: usize = 30;
/// Tenants on one page: each comes with a form for its limits.
pub(in crate::dashboard) const TENANTS_PER_PAGE: usize = 24;
/// API keys on one page.
pub(in crate::dashboard) const KEYS_PER_PAGE: usize = 50;
/// Names that a field offers; any other can be typed.
pub(in crate::dashboard) const NAMES_OFFERED: usize = 200;
