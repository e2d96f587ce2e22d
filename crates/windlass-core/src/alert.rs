//! Alerts: conditions over stored numbers, and when an alert fires, repeats and resolves. Pure: the numbers and the
//! time are arguments. [`message`] has the text of messages; `store/command/alert/evaluate.rs` of the crate `windlass`
//! reads the numbers and stores the decision; the server sends the message.

pub mod message;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem};
use crate::job::{JobType, QueueName};
use crate::limits;
use crate::webhook_url::{TargetPolicy, WebhookUrl};
use crate::{Words, skip_none};

/// The type of jobs that deliver alerts. They wait in the queue of callbacks.
pub const TYPE: &str = "windlass.alert";
/// The tag with the name of the alert.
pub const TAG: &str = "alert";

/// What an alert watches. Every threshold is exclusive: it fires above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertCondition {
    /// Jobs that became dead letters.
    DeadLetters {
        /// The number of them; 0 for any.
        more_than: u64,
        /// The time over which they are counted.
        within: Duration,
    },
    /// The age of the oldest ready job.
    OldestReady {
        /// How long it has been ready.
        longer_than: Duration,
    },
    /// The share of attempts that failed.
    FailureRate {
        /// In percent.
        more_than: u64,
        /// The time over which attempts are counted.
        within: Duration,
        /// With fewer attempts than these it does not fire.
        min_attempts: u64,
    },
    /// A schedule that missed a run, or whose job was refused.
    ScheduleMissed {
        /// How long ago at most.
        within: Duration,
    },
    /// The difference between the wall clock and store time.
    ClockOffset {
        /// In either direction.
        longer_than: Duration,
    },
}

/// The format of an alert's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
pub enum AlertFormat {
    /// A signed webhook, as callbacks are.
    #[default]
    Webhook,
    /// The JSON of Slack's incoming webhooks, which many other chat programs accept, too.
    Slack,
}

/// What an alert watches, and where its messages go.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertRule {
    /// When it fires.
    pub condition: AlertCondition,
    /// Only jobs of this queue, or schedules that submit to it.
    pub queue: Option<QueueName>,
    /// Only jobs of this type, or schedules that submit them.
    pub job_type: Option<JobType>,
    /// Where messages go. May contain a secret.
    pub url: String,
    /// Their format.
    pub format: AlertFormat,
    /// How long the condition must hold before it fires.
    pub pending_for: Duration,
    /// How long the condition must not hold before it resolves.
    pub keep_firing_for: Duration,
    /// How often a message is repeated while it fires; never if `None`.
    pub repeat_interval: Option<Duration>,
}

impl AlertRule {
    /// A rule for all jobs with defaults.
    pub fn new(condition: AlertCondition, url: impl Into<String>) -> AlertRule {
        AlertRule {
            condition,
            queue: None,
            job_type: None,
            url: url.into(),
            format: AlertFormat::default(),
            pending_for: Duration::ZERO,
            keep_firing_for: limits::ALERT_KEEP_FIRING_DEFAULT,
            repeat_interval: None,
        }
    }

    /// Checks every value against its limits, and whether the URL may be called, without resolving it.
    pub fn check(&self, targets: &TargetPolicy) -> Result<(), FieldError> {
        self.condition.check()?;
        if let AlertCondition::ClockOffset { .. } = self.condition {
            let scope = [("queue", self.queue.is_some()), ("type", self.job_type.is_some())];
            if let Some((field, _)) = scope.into_iter().find(|(_, is_set)| *is_set) {
                let problem = FieldProblem::Contradiction("has no meaning for the clock".into());
                return Err(FieldError::new(field, problem));
            }
        }
        targets.check(&self.url).map_err(|error| FieldError::new("url", error.into()))?;
        let pending = Duration::ZERO..=limits::ALERT_PENDING_MAX;
        check_time("pending_for", self.pending_for, &pending)?;
        check_time("keep_firing_for", self.keep_firing_for, &pending)?;
        let repeat = limits::ALERT_REPEAT_MIN..=limits::ALERT_REPEAT_MAX;
        self.repeat_interval.map_or(Ok(()), |interval| check_time("repeat_interval", interval, &repeat))
    }

    /// The URL without path and query, which may contain a secret.
    pub fn receiver(&self) -> String {
        WebhookUrl::parse(&self.url).map_or_else(|_| "the receiver".to_owned(), |url| url.to_string())
    }
}

fn check_time(
    field: &str,
    value: Duration,
    allowed: &std::ops::RangeInclusive<Duration>,
) -> Result<(), FieldError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let (min, max) = (message::span(*allowed.start()), message::span(*allowed.end()));
    Err(FieldError::new(field, FieldProblem::OutOfRange { value: message::span(value), min, max }))
}

/// Stored numbers that conditions are compared with; each condition reads its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measurement {
    /// Jobs that became dead letters.
    pub dead_letters: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// The age of the oldest ready job; zero if there is none.
    pub oldest_ready: Duration,
    /// Schedules that missed a run.
    pub missed_schedules: u64,
    /// The difference between the wall clock and store time.
    pub clock_offset: Duration,
}

/// The number that a condition compares with its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AlertValue {
    /// A number of jobs or schedules.
    Count(u64),
    /// A share, in tenths of a percent.
    PerMille(u64),
    /// A time.
    Time(Duration),
}

impl AlertCondition {
    /// The time over which it counts; `None` if it looks at this moment only.
    pub fn within(&self) -> Option<Duration> {
        match self {
            AlertCondition::DeadLetters { within, .. }
            | AlertCondition::FailureRate { within, .. }
            | AlertCondition::ScheduleMissed { within } => Some(*within),
            AlertCondition::OldestReady { .. } | AlertCondition::ClockOffset { .. } => None,
        }
    }

    /// Its name.
    pub fn as_str(&self) -> &'static str {
        match self {
            AlertCondition::DeadLetters { .. } => "dead_letters",
            AlertCondition::OldestReady { .. } => "oldest_ready",
            AlertCondition::FailureRate { .. } => "failure_rate",
            AlertCondition::ScheduleMissed { .. } => "schedule_missed",
            AlertCondition::ClockOffset { .. } => "clock_offset",
        }
    }

    fn check(&self) -> Result<(), FieldError> {
        let minute = limits::ALERT_WITHIN_MIN;
        match *self {
            AlertCondition::DeadLetters { within, .. } => {
                check_time("within", within, &(minute..=limits::ALERT_WITHIN_MAX))
            }
            AlertCondition::FailureRate { more_than, within, .. } => {
                if more_than >= 100 {
                    let (min, max) = ("0".to_owned(), "99".to_owned());
                    let problem = FieldProblem::OutOfRange { value: more_than.to_string(), min, max };
                    return Err(FieldError::new("more_than", problem));
                }
                check_time("within", within, &(minute..=limits::ALERT_WITHIN_MAX))
            }
            AlertCondition::ScheduleMissed { within } => {
                check_time("within", within, &(minute..=limits::ALERT_MISSED_WITHIN_MAX))
            }
            AlertCondition::OldestReady { longer_than } | AlertCondition::ClockOffset { longer_than } => {
                let second = Duration::from_secs(1);
                check_time("longer_than", longer_than, &(second..=limits::ALERT_REPEAT_MAX))
            }
        }
    }

    /// The number it compares, and whether it holds.
    pub fn read(&self, measured: &Measurement) -> (AlertValue, bool) {
        let Measurement { attempts, failures, .. } = *measured;
        match *self {
            AlertCondition::DeadLetters { more_than, .. } => {
                (AlertValue::Count(measured.dead_letters), measured.dead_letters > more_than)
            }
            AlertCondition::OldestReady { longer_than } => {
                (AlertValue::Time(measured.oldest_ready), measured.oldest_ready > longer_than)
            }
            AlertCondition::FailureRate { more_than, min_attempts, .. } => {
                let share = failures.saturating_mul(1000).checked_div(attempts).unwrap_or(0);
                let is_above = failures.saturating_mul(100) > more_than.saturating_mul(attempts);
                (AlertValue::PerMille(share), is_above && attempts >= min_attempts)
            }
            AlertCondition::ScheduleMissed { .. } => {
                (AlertValue::Count(measured.missed_schedules), measured.missed_schedules > 0)
            }
            AlertCondition::ClockOffset { longer_than } => {
                (AlertValue::Time(measured.clock_offset), measured.clock_offset > longer_than)
            }
        }
    }
}

/// Whether an alert fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
pub enum AlertStatus {
    /// It does not.
    #[default]
    Ok,
    /// It does.
    Firing,
}

/// The state of an alert.
#[skip_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertState {
    /// Whether it fires.
    pub status: AlertStatus,
    /// Since when.
    pub since: Timestamp,
    /// Since when the condition contradicts the status; it changes once that has lasted long enough.
    pub turning_since: Option<Timestamp>,
    /// When the last message about it was submitted.
    pub notified_at: Option<Timestamp>,
    /// The number that was compared when the state last changed.
    pub value: Option<AlertValue>,
}

impl AlertState {
    /// The state of a new alert.
    pub fn new(now: Timestamp) -> AlertState {
        AlertState {
            status: AlertStatus::Ok,
            since: now,
            turning_since: None,
            notified_at: None,
            value: None,
        }
    }
}

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertNotice {
    /// The alert began to fire.
    Firing,
    /// It still fires.
    Repeated,
    /// It no longer fires.
    Resolved,
    /// A sample, sent by hand.
    Test,
}

/// A new state of an alert, and the message about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertDecision {
    /// The state to store.
    pub state: AlertState,
    /// The message to send, if any.
    pub notice: Option<AlertNotice>,
}

/// Decides how an alert changes; `None` if it does not.
///
/// It fires once, after the condition has held for `pending_for`, and resolves once, after it has not held for
/// `keep_firing_for`. In between the message is repeated at its interval, as long as the condition holds.
pub fn decide(
    rule: &AlertRule,
    state: &AlertState,
    measured: &Measurement,
    now: Timestamp,
) -> Option<AlertDecision> {
    let (value, is_met) = rule.condition.read(measured);
    let is_firing = state.status == AlertStatus::Firing;
    if is_met == is_firing {
        return stay(rule, state, value, now);
    }
    let turning_since = state.turning_since.unwrap_or(now);
    let needed = if is_met { rule.pending_for } else { rule.keep_firing_for };
    if now.since(turning_since) < needed {
        let waiting = AlertState { turning_since: Some(turning_since), ..*state };
        return (waiting != *state).then_some(AlertDecision { state: waiting, notice: None });
    }
    let (status, notice) = if is_met {
        (AlertStatus::Firing, AlertNotice::Firing)
    } else {
        (AlertStatus::Ok, AlertNotice::Resolved)
    };
    let (notified_at, value) = (Some(now), Some(value));
    let state = AlertState { status, since: now, turning_since: None, notified_at, value };
    Some(AlertDecision { state, notice: Some(notice) })
}

/// The change of an alert whose condition agrees with its status.
fn stay(rule: &AlertRule, state: &AlertState, value: AlertValue, now: Timestamp) -> Option<AlertDecision> {
    let last = state.notified_at.filter(|_| state.status == AlertStatus::Firing);
    let is_due = |interval: Duration| last.is_some_and(|at| now.since(at) >= interval);
    if rule.repeat_interval.is_some_and(is_due) {
        let state = AlertState { turning_since: None, notified_at: Some(now), value: Some(value), ..*state };
        return Some(AlertDecision { state, notice: Some(AlertNotice::Repeated) });
    }
    let settled = AlertState { turning_since: None, ..*state };
    (settled != *state).then_some(AlertDecision { state: settled, notice: None })
}
