//! Limits of alerts.

use std::time::Duration;

/// Alerts of one tenant, and alerts about all tenants: more than a person reads.
pub const ALERTS_PER_TENANT_MAX: usize = 50;
/// Alerts in one store: all of them are read and decided in every round.
pub const ALERTS_MAX: usize = 1_000;
/// Shortest time over which an alert counts: statistics are stored by the minute.
pub const ALERT_WITHIN_MIN: Duration = Duration::from_secs(60);
/// Longest time over which an alert counts dead letters and failures: statistics of every queue and type are stored by the
/// minute for an hour.
pub const ALERT_WITHIN_MAX: Duration = Duration::from_secs(3600);
/// Longest time over which an alert looks for missed runs of schedules.
pub const ALERT_MISSED_WITHIN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest time that a condition must hold, or must not hold, before an alert changes its state.
pub const ALERT_PENDING_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a condition must not hold before an alert resolves, unless set: numbers around a threshold do not cause
/// a message every minute.
pub const ALERT_KEEP_FIRING_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// Shortest interval of repeated messages: a shorter one is ignored by its readers.
pub const ALERT_REPEAT_MIN: Duration = Duration::from_secs(5 * 60);
/// Longest interval of repeated messages.
pub const ALERT_REPEAT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Attempts without which a failure rate means nothing, unless set.
pub const ALERT_ATTEMPTS_DEFAULT: u64 = 10;
/// How often alerts are decided: soon enough for people, and cheap.
pub const ALERTS_EVERY: Duration = Duration::from_secs(10);
/// Alerts that one commit changes, each with a message, so that claims never wait long for it.
pub const ALERTS_PER_COMMIT: usize = 100;
/// How late the run of a schedule may be before it counts as missed although nothing has noticed it.
pub const ALERT_SCHEDULE_OVERDUE: Duration = Duration::from_secs(60);
/// How long a message is tried: a later one would report an old state.
pub const ALERT_DELIVERY_LIFETIME: Duration = Duration::from_secs(24 * 3600);
