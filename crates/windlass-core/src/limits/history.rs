//! Limits of statistics over time.

use std::time::Duration;

/// Minutes after which rates are dropped although they were not rolled up: a day after a store was last served.
pub const RATE_MINUTES_UNROLLED_MAX: i64 = 24 * 60;
/// Minutes after its end at which a period is rolled up: by then every node has written its counts.
pub const HISTORY_SETTLED_MINUTES: i64 = 2;
/// Minutes for which statistics are kept in periods of ten minutes: two days, and the two days before to compare with.
pub const HISTORY_TENS_KEPT: i64 = 4 * 24 * 60;
/// Minutes for which statistics are kept in periods of an hour: 30 days, and the day that has begun.
pub const HISTORY_HOURS_KEPT: i64 = 31 * 24 * 60;
/// Names of each kind (queues, types, tenants, queues and types of a tenant) with statistics of their own in a period, the
/// busiest ones: each costs about a kilobyte per period. The sum over all of them is exact.
pub const HISTORY_NAMES_MAX: usize = 100;
/// Stored periods that one round examines for removal.
pub const HISTORY_SWEEP_DOCUMENTS: usize = 200;
/// The longest time for which statistics can be asked at once.
pub const HISTORY_RANGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The shortest: statistics are counted by the minute.
pub const HISTORY_RANGE_MIN: Duration = Duration::from_secs(5 * 60);
/// Points of one answer at most: more cannot be distinguished in a chart.
pub const HISTORY_POINTS_MAX: i64 = 180;
/// Errors whose statistics are kept for a tenant, and for all tenants together: those that were seen last.
pub const ERRORS_KEPT: usize = 50;
/// Types and versions that are kept of an error: those that were seen last.
pub const ERROR_NAMES_MAX: usize = 8;
/// Hours for which errors are counted by the hour.
pub const ERROR_HOURS_KEPT: i64 = 48;
/// Days for which errors are counted by the day; an error that was not seen for so long is forgotten.
pub const ERROR_DAYS_KEPT: i64 = 31;
/// Documents of errors by the minute that are read at once: one for each lane that failed in a minute.
pub const ERROR_MINUTES_READ_MAX: usize = 10_000;
