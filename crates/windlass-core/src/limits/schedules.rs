//! Limits of schedules and of deleted ones.

use std::time::Duration;

/// Characters in a cron expression: enough for every useful list and range.
pub const CRON_CHARS_MAX: usize = 256;
/// Years searched for a day that matches a cron expression; the rarest, a 29th of February on a given weekday, occurs
/// within them.
pub const CRON_YEARS_SEARCHED: i16 = 40;
/// Shortest interval of a schedule: a shorter one is a loop, not a schedule.
pub const SCHEDULE_EVERY_MIN: Duration = Duration::from_secs(1);
/// How late a run may start without counting as missed: timers are applied within a second, and a commit takes
/// some time.
pub const SCHEDULE_LATE_MAX: Duration = Duration::from_secs(2);
/// Most missed runs that are caught up: enough for a weekend of hourly runs, few enough not to flood the queue.
pub const SCHEDULE_MISSED_MAX: usize = 100;
/// Schedules in one store: all of them are held in memory.
pub const SCHEDULES_MAX: usize = 10_000;
/// Largest payload of a schedule's job: it is held in memory; larger data should be fetched by the handler.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// How long a schedule's run is retried if the queue is full, unless the next run comes first: long enough for a
/// backlog to shrink, short enough that the job is not mistaken for a later run.
pub const SCHEDULE_RETRY_MAX: Duration = Duration::from_secs(3600);
/// Jobs of one schedule that are tracked because they must not overlap; normally one, plus those triggered by hand.
pub const SCHEDULE_OPEN_JOBS_MAX: usize = 100;
/// Schedules whose jobs one commit submits, so that claims never wait long for it.
pub const TICK_SCHEDULES_PER_COMMIT: usize = 100;
/// Deleted schedules that can be restored, the latest ones: each may have a payload of
/// [`SCHEDULE_PAYLOAD_BYTES_MAX`], and all of them are read to find one.
pub const DELETED_SCHEDULES_MAX: usize = 200;
/// How long a deleted schedule can be restored: long enough to notice that a monthly run is missing.
pub const DELETED_SCHEDULE_RETENTION: Duration = Duration::from_secs(35 * 24 * 3600);
/// Future runs of a schedule that are shown.
pub const SCHEDULE_RUNS_SHOWN: usize = 5;
