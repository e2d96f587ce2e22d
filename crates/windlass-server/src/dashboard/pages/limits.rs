//! The limits of the dashboard, each with its reason.

use std::time::Duration;

/// Jobs per page of the list.
pub(in crate::dashboard) const JOBS_PER_PAGE: usize = 50;
/// Columns of the job list besides those that are always there: more do not fit a screen.
pub(in crate::dashboard) const COLUMNS_MAX: usize = 16;
/// Characters of a payload or of tags in a cell.
pub(in crate::dashboard) const CELL_CHARS: usize = 80;
/// Saved views of the job list; they are sent with every request.
pub(in crate::dashboard) const VIEWS_MAX: usize = 12;
/// Bytes of all saved views: browsers keep cookies of 4,096 bytes.
pub(in crate::dashboard) const VIEWS_BYTES_MAX: usize = 3_000;
/// Characters of the name of a view.
pub(in crate::dashboard) const VIEW_NAME_CHARS_MAX: usize = 40;
/// How long a browser keeps what its visitor chose.
pub(in crate::dashboard) const PREFERENCES_KEPT: Duration = Duration::from_secs(365 * 24 * 3600);
/// Jobs read for the preview of limits per key: no statistics know keys.
pub(in crate::dashboard) const KEYED_JOBS_READ: usize = 1_000;
/// The same in one read: each is read with its payload.
pub(in crate::dashboard) const KEYED_JOBS_PER_READ: usize = 100;
/// Alerts per page of the list.
pub(in crate::dashboard) const ALERTS_PER_PAGE: usize = 100;
/// Records per page of the audit trail.
pub(in crate::dashboard) const RECORDS_PER_PAGE: usize = 100;
/// Records read for one page of the audit trail: about a tenth of a second. The page says so if a filter reaches this.
pub(in crate::dashboard) const RECORDS_LOOKED_AT: u64 = 100_000;
/// Records read in one query if few match.
pub(in crate::dashboard) const RECORDS_STRIDE_MAX: u64 = 16_000;
/// Failed jobs read to group them by their errors; each is read with its payload.
pub(in crate::dashboard) const FAILURES_SAMPLED: usize = 150;
/// Retrying jobs read, to group them and for their next run; with more, the next run is not shown.
pub(in crate::dashboard) const RETRIES_SAMPLED: usize = 100;
/// Dead letters counted one by one for a page.
pub(in crate::dashboard) const DEAD_LETTERS_COUNTED: usize = crate::limits::UNRESOLVED_COUNTED;
/// Queues on the overview; those with issues come first.
pub(in crate::dashboard) const QUEUES_SHOWN: usize = 25;
/// Like `FAILURES_SAMPLED`, for one type: they are picked from those of all types.
pub(in crate::dashboard) const FAILURES_OF_TYPE_SAMPLED: usize = 60;
/// Errors on the page of errors, those with the most open jobs.
pub(in crate::dashboard) const ERROR_GROUPS_SHOWN: usize = 25;
/// Types named for an error.
pub(in crate::dashboard) const ERROR_TYPES_SHOWN: usize = 5;
/// Final jobs that are searched for those that one worker completed; each is read with its payload.
pub(in crate::dashboard) const WORKER_JOBS_SEARCHED: usize = 200;
/// Completed jobs on a worker's page.
pub(in crate::dashboard) const WORKER_JOBS_SHOWN: usize = 20;
/// Jobs in an exported file; the command line exports any number.
pub(in crate::dashboard) const EXPORTED_JOBS: usize = 5_000;
/// Jobs read at once for an export; each is read with its payload.
pub(in crate::dashboard) const EXPORTED_PER_READ: usize = 100;
/// Dead letters read to group them.
pub(in crate::dashboard) const DEAD_LETTERS_SAMPLED: usize = 1_000;
/// Dead letters per read: each is read with its payload, and a hundred of the largest fit into memory.
pub(in crate::dashboard) const DEAD_LETTERS_PER_READ: usize = 100;
/// Dead letters of a type that are read to find those of a group to redrive.
pub(in crate::dashboard) const GROUP_LOOKED_MAX: usize = 10_000;
/// Jobs counted one by one before an action if counters do not know the number; beyond it the page says "more than".
pub(in crate::dashboard) const COUNTED_MAX: usize = 10_000;
/// Total bytes of a filter: a long tag and some more. Every link of the list contains it.
pub(in crate::dashboard) const ASKED_BYTES_MAX: usize = 4 << 10;
/// Bytes of a link in every row of a list.
pub(in crate::dashboard) const LINK_BYTES_MAX: usize = 400;
/// Similar names that a search without a match shows.
pub(in crate::dashboard) const NAMES_ALIKE_SHOWN: usize = 20;
/// Digits of a part of an id from which it is searched: the shortest that tables show have eight.
pub(in crate::dashboard) const ID_PART_DIGITS_MIN: usize = 6;
/// Newest jobs read to find one by the end of its id.
pub(in crate::dashboard) const SEARCHED_NEWEST: usize = 1_000;
/// Jobs of one state read to find one by the end of its id or by its error.
pub(in crate::dashboard) const SEARCHED_PER_STATE: usize = 300;
/// Groups of failures shown.
pub(in crate::dashboard) const GROUPS_SHOWN: usize = 8;
/// Running jobs shown with their workers.
pub(in crate::dashboard) const RUNNING_SHOWN: usize = 500;
/// Running jobs counted by worker: leases name the worker, and no counter does. With more, the page says so.
pub(in crate::dashboard) const RUNNING_COUNTED: usize = 5_000;
/// Running jobs shown per worker.
pub(in crate::dashboard) const RUNNING_PER_WORKER: usize = 6;
/// Jobs drawn in a dependency graph; a larger one would not be readable.
pub(in crate::dashboard) const GRAPH_JOBS_MAX: usize = 60;
/// Children shown.
pub(in crate::dashboard) const CHILDREN_SHOWN: usize = 200;
/// Days in the calendar of schedules.
pub(in crate::dashboard) const CALENDAR_DAYS: i64 = 7;
/// Runs of one schedule computed for one day: every ten minutes; a higher number is not informative.
pub(in crate::dashboard) const CALENDAR_RUNS_MAX: usize = 144;
/// Deleted schedules shown, the latest; the command line lists all.
pub(in crate::dashboard) const DELETED_SCHEDULES_SHOWN: usize = 20;
/// Schedules in the calendar: those that run soonest.
pub(in crate::dashboard) const CALENDAR_SCHEDULES_MAX: usize = 1_000;
/// Schedules per page.
pub(in crate::dashboard) const SCHEDULES_PER_PAGE: usize = 50;
/// Next runs in the preview of a schedule.
pub(in crate::dashboard) const PREVIEW_RUNS: usize = 5;
/// Schedules shown per day.
pub(in crate::dashboard) const CALENDAR_LINES: usize = 8;
/// Bytes shown of a payload or result; the rest can be downloaded.
pub(in crate::dashboard) const SHOWN_BYTES_MAX: usize = 64 << 10;
/// Bytes shown of a checkpoint.
pub(in crate::dashboard) const CHECKPOINT_BYTES_MAX: usize = 4 << 10;
/// Bytes of all checkpoints on a page.
pub(in crate::dashboard) const CHECKPOINTS_BYTES_MAX: usize = 128 << 10;
/// Checkpoints shown: each may be a megabyte to read.
pub(in crate::dashboard) const CHECKPOINTS_SHOWN: usize = 100;
/// Steps whose times are read for the time axis of a job.
pub(in crate::dashboard) const STEP_TIMES_READ: usize = 1_000;
/// Rows on the time axis of a job, the latest.
pub(in crate::dashboard) const WATERFALL_ROWS: usize = 80;
/// Marks of log lines on it.
pub(in crate::dashboard) const WATERFALL_MARKS: usize = 200;
/// Log lines shown, the latest.
pub(in crate::dashboard) const LOG_LINES_SHOWN: u64 = 500;
/// Bytes of partial output on a page, which is sent again with every refresh.
pub(in crate::dashboard) const OUTPUT_BYTES_SHOWN: usize = 64 << 10;
/// Chunks of partial output that are read at least, however large they are: at most a megabyte.
pub(in crate::dashboard) const OUTPUT_CHUNKS_MIN: u64 = 16;
/// Bytes of log lines on a page, which is sent again with every refresh.
pub(in crate::dashboard) const LOG_BYTES_SHOWN: usize = 128 << 10;
/// Characters of one log line, and of an attempt's error.
pub(in crate::dashboard) const LINE_CHARS_SHOWN: usize = 2_000;
/// Attempts shown, the latest.
pub(in crate::dashboard) const ATTEMPTS_SHOWN: usize = 100;
/// Jobs that can be selected for an action: more than a page of them.
pub(in crate::dashboard) const SELECTED_MAX: usize = 500;
/// Bytes of a form: a page of ids and a reason.
pub(in crate::dashboard) const FORM_BYTES_MAX: usize = 128 << 10;
/// Bytes of a payload that can be edited in a form, in which each may take three.
pub(in crate::dashboard) const EDITED_BYTES_MAX: usize = 32 << 10;
/// Concurrent sessions; the one that was idle longest is dropped.
pub(in crate::dashboard) const SESSIONS_MAX: usize = 10_000;
/// Concurrent sessions of one key: a team that shares it, on a few machines each. Only its own idle sessions are dropped.
pub(in crate::dashboard) const SESSIONS_PER_KEY_MAX: usize = 100;
/// How long a session lasts without a request.
pub(in crate::dashboard) const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Maximum lifetime of a session.
pub(in crate::dashboard) const SESSION_LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Live streams at once.
pub(in crate::dashboard) const STREAMS_MAX: usize = 1_000;
/// Live streams per key, so that one key cannot use all of them; a page without a stream polls every few seconds.
pub(in crate::dashboard) const STREAMS_PER_KEY_MAX: usize = 200;
/// Minimum interval of refreshes: more often flickers, and loads the store.
pub(in crate::dashboard) const LIVE_EVERY: Duration = Duration::from_secs(1);
/// Minimum interval of refreshes of a job's page for changes of other objects, such as a pause or a child: that is any
/// change of its tenant, so less often than for the job itself.
pub(in crate::dashboard) const LIVE_AROUND_EVERY: Duration = Duration::from_secs(3);
/// Interval of refreshes without changes, to update ages and charts.
pub(in crate::dashboard) const LIVE_IDLE_EVERY: Duration = Duration::from_secs(15);
/// Bytes of the digests of a page's parts, which a refresh sends.
pub(in crate::dashboard) const PARTS_BYTES_MAX: usize = 4 << 10;
/// Bytes of a page that a refresh compares with what its script has.
pub(in crate::dashboard) const REFRESH_BYTES_MAX: usize = 16 << 20;
/// Queues or types per page: each has a chart of its last hour.
pub(in crate::dashboard) const NAMES_PER_PAGE: usize = 30;
/// Tenants per page: each has a form for its limits.
pub(in crate::dashboard) const TENANTS_PER_PAGE: usize = 20;
/// API keys on one page.
pub(in crate::dashboard) const KEYS_PER_PAGE: usize = 50;
/// Bytes of a request that undoes an action: it is part of a URL. A larger one is not offered.
pub(in crate::dashboard) const UNDO_BYTES_MAX: usize = 3_000;
/// Deleted alerts that can be restored, the latest; they are kept in memory.
pub(in crate::dashboard) const DELETED_ALERTS_KEPT: usize = 100;
/// How long a deleted alert can be restored.
pub(in crate::dashboard) const DELETED_ALERTS_FOR: Duration = Duration::from_secs(600);
/// Names that a field suggests; any other can be typed.
pub(in crate::dashboard) const NAMES_OFFERED: usize = 200;
