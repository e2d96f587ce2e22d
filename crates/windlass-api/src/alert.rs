//! Alerts in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::alert::{AlertCondition, AlertFormat, AlertRule, AlertStatus};
use windlass_core::error::FieldError;
use windlass_core::job::{AlertName, JobId, JobType, QueueName, Tenant};
use windlass_core::limits;
use windlass_core::skip_none;

use crate::expires::Expiry;
use crate::invalid;
use crate::text::Text;
use crate::time::{Moment, Span};

/// What an alert watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AlertCondition")]
#[non_exhaustive]
pub enum ConditionParam {
    /// Jobs that became dead letters: more than `more_than` within `within`.
    DeadLetters,
    /// The oldest ready job: ready for longer than `longer_than`.
    OldestReady,
    /// Failed attempts: more than `more_than` percent within `within`, of at least `min_attempts`.
    FailureRate,
    /// A schedule that missed a run, or whose job was refused, within `within`.
    ScheduleMissed,
    /// The wall clock: off by more than `longer_than` from store time.
    ClockOffset,
}

/// An alert: what it watches, and where its messages go.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AlertRequest")]
#[serde(deny_unknown_fields)]
pub struct AlertBody {
    /// What it watches.
    pub condition: ConditionParam,
    /// Threshold of `dead_letters` (a number, 0 if not given) and `failure_rate` (percent).
    pub more_than: Option<u64>,
    /// Threshold of `oldest_ready` and `clock_offset`.
    pub longer_than: Option<Span>,
    /// Time over which `dead_letters`, `failure_rate` (1 minute to 1 hour) and `schedule_missed` (1 minute to 7 days) count;
    /// 10 minutes if not given.
    pub within: Option<Span>,
    /// Fewest attempts for `failure_rate`; 10 if not given.
    pub min_attempts: Option<u64>,
    /// Only jobs of this queue, or schedules that submit to it.
    pub queue: Option<Text<QueueName>>,
    /// Only jobs of this type, or schedules that submit them.
    pub r#type: Option<Text<JobType>>,
    /// URL that its messages are sent to.
    pub url: String,
    /// Format of its messages; `webhook` if not given.
    pub format: Option<AlertFormat>,
    /// How long the condition must hold before the alert fires; at once if not given.
    pub pending_for: Option<Span>,
    /// How long the condition must not hold before the alert resolves; 5 minutes if not given.
    pub keep_firing_for: Option<Span>,
    /// How often the message is repeated while the alert fires, from 5 minutes on; never if not given.
    pub repeat_interval: Option<Span>,
}

/// An alert.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Alert")]
pub struct AlertView {
    /// Name.
    pub name: Text<AlertName>,
    /// Tenant; null for an alert about all tenants.
    pub tenant: Option<Text<Tenant>>,
    /// What it watches.
    pub condition: ConditionParam,
    /// Threshold of `dead_letters` and `failure_rate`.
    pub more_than: Option<u64>,
    /// Threshold of `oldest_ready` and `clock_offset`.
    pub longer_than: Option<Span>,
    /// Time over which it counts.
    pub within: Option<Span>,
    /// Fewest attempts for `failure_rate`.
    pub min_attempts: Option<u64>,
    /// Only jobs of this queue.
    pub queue: Option<Text<QueueName>>,
    /// Only jobs of this type.
    pub r#type: Option<Text<JobType>>,
    /// The condition in words.
    pub description: String,
    /// URL that its messages are sent to.
    pub url: String,
    /// True if the caller may not read path and query of the URL.
    pub redacted: bool,
    /// Format of its messages.
    pub format: AlertFormat,
    /// How long the condition must hold before it fires.
    pub pending_for: Span,
    /// How long the condition must not hold before it resolves.
    pub keep_firing_for: Span,
    /// How often the message is repeated while it fires; null for never.
    pub repeat_interval: Option<Span>,
    /// Whether it fires.
    pub state: AlertStatus,
    /// Since when it is in this state.
    pub since: Moment,
    /// Since when the condition contradicts the state, which changes once that has lasted long enough; null if it does not.
    pub turning_since: Option<Moment>,
    /// The number that was compared when the state last changed, or when a message was repeated.
    pub value: Option<String>,
    /// When the last message about its state was submitted.
    pub notified_at: Option<Moment>,
    /// The job that delivers its latest message.
    pub last_delivery: Option<Text<JobId>>,
    /// Its pause; null if it is not paused.
    pub paused: Option<AlertPauseView>,
    /// When it was created.
    pub created_at: Moment,
    /// When it was last changed.
    pub updated_at: Moment,
    /// Who last changed it.
    pub updated_by: String,
}

/// Alerts by tenant and name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AlertList")]
pub struct Alerts {
    /// The alerts.
    pub alerts: Vec<AlertView>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// A pause of an alert.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AlertPause")]
pub struct AlertPauseView {
    /// Who paused it.
    pub by: String,
    /// When it was paused.
    pub at: Moment,
    /// The reason given.
    pub reason: Option<String>,
    /// When it resumes automatically.
    pub expires_at: Option<Moment>,
}

/// How to pause an alert.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PauseAlertRequest")]
#[serde(default, deny_unknown_fields)]
pub struct AlertPauseBody {
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// When it resumes automatically: a duration or a time.
    pub expires: Option<Expiry>,
}

/// A condition, in the fields that `AlertBody` and `AlertView` have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionFields {
    /// See [`AlertBody::condition`].
    pub condition: ConditionParam,
    /// See [`AlertBody::more_than`].
    pub more_than: Option<u64>,
    /// See [`AlertBody::longer_than`].
    pub longer_than: Option<Span>,
    /// See [`AlertBody::within`].
    pub within: Option<Span>,
    /// See [`AlertBody::min_attempts`].
    pub min_attempts: Option<u64>,
}

/// The time over which an alert counts, unless set.
const WITHIN: Span = Span(std::time::Duration::from_secs(600));

impl From<&AlertCondition> for ConditionFields {
    fn from(condition: &AlertCondition) -> ConditionFields {
        let nothing = |condition| ConditionFields {
            condition,
            more_than: None,
            longer_than: None,
            within: None,
            min_attempts: None,
        };
        match *condition {
            AlertCondition::DeadLetters { more_than, within } => ConditionFields {
                more_than: Some(more_than),
                within: Some(Span(within)),
                ..nothing(ConditionParam::DeadLetters)
            },
            AlertCondition::OldestReady { longer_than } => ConditionFields {
                longer_than: Some(Span(longer_than)),
                ..nothing(ConditionParam::OldestReady)
            },
            AlertCondition::FailureRate { more_than, within, min_attempts } => ConditionFields {
                more_than: Some(more_than),
                within: Some(Span(within)),
                min_attempts: Some(min_attempts),
                ..nothing(ConditionParam::FailureRate)
            },
            AlertCondition::ScheduleMissed { within } => {
                ConditionFields { within: Some(Span(within)), ..nothing(ConditionParam::ScheduleMissed) }
            }
            AlertCondition::ClockOffset { longer_than } => ConditionFields {
                longer_than: Some(Span(longer_than)),
                ..nothing(ConditionParam::ClockOffset)
            },
        }
    }
}

impl TryFrom<ConditionFields> for AlertCondition {
    type Error = FieldError;

    fn try_from(fields: ConditionFields) -> Result<AlertCondition, FieldError> {
        let ConditionFields { condition, more_than, longer_than, within, min_attempts } = fields;
        let refuse = |field: &str, is_given: bool| {
            if is_given { Err(invalid(field, "has no meaning for this condition")) } else { Ok(()) }
        };
        let needed = || longer_than.ok_or_else(|| invalid("longer_than", "is required for this condition"));
        let counted = within.unwrap_or(WITHIN).0;
        if condition != ConditionParam::FailureRate {
            refuse("min_attempts", min_attempts.is_some())?;
        }
        match condition {
            ConditionParam::DeadLetters | ConditionParam::FailureRate | ConditionParam::ScheduleMissed => {
                refuse("longer_than", longer_than.is_some())?;
            }
            ConditionParam::OldestReady | ConditionParam::ClockOffset => {
                refuse("within", within.is_some())?;
            }
        }
        if !matches!(condition, ConditionParam::DeadLetters | ConditionParam::FailureRate) {
            refuse("more_than", more_than.is_some())?;
        }
        Ok(match condition {
            ConditionParam::DeadLetters => {
                AlertCondition::DeadLetters { more_than: more_than.unwrap_or(0), within: counted }
            }
            ConditionParam::OldestReady => AlertCondition::OldestReady { longer_than: needed()?.0 },
            ConditionParam::FailureRate => AlertCondition::FailureRate {
                more_than: more_than.ok_or_else(|| invalid("more_than", "is required for this condition"))?,
                within: counted,
                min_attempts: min_attempts.unwrap_or(limits::ALERT_ATTEMPTS_DEFAULT),
            },
            ConditionParam::ScheduleMissed => AlertCondition::ScheduleMissed { within: counted },
            ConditionParam::ClockOffset => AlertCondition::ClockOffset { longer_than: needed()?.0 },
        })
    }
}

impl TryFrom<AlertBody> for AlertRule {
    type Error = FieldError;

    fn try_from(body: AlertBody) -> Result<AlertRule, FieldError> {
        let AlertBody { condition, more_than, longer_than, within, min_attempts, .. } = body;
        let fields = ConditionFields { condition, more_than, longer_than, within, min_attempts };
        let mut rule = AlertRule::new(fields.try_into()?, body.url);
        rule.queue = body.queue.map(|queue| queue.0);
        rule.job_type = body.r#type.map(|job_type| job_type.0);
        rule.format = body.format.unwrap_or(rule.format);
        rule.pending_for = body.pending_for.map_or(rule.pending_for, |span| span.0);
        rule.keep_firing_for = body.keep_firing_for.map_or(rule.keep_firing_for, |span| span.0);
        rule.repeat_interval = body.repeat_interval.map(|span| span.0);
        Ok(rule)
    }
}

impl From<AlertView> for AlertBody {
    /// The request that makes the same alert.
    fn from(shown: AlertView) -> AlertBody {
        AlertBody {
            condition: shown.condition,
            more_than: shown.more_than,
            longer_than: shown.longer_than,
            within: shown.within,
            min_attempts: shown.min_attempts,
            queue: shown.queue,
            r#type: shown.r#type,
            url: shown.url,
            format: Some(shown.format),
            pending_for: Some(shown.pending_for),
            keep_firing_for: Some(shown.keep_firing_for),
            repeat_interval: shown.repeat_interval,
        }
    }
}
