//! The messages of alerts: their text, their bodies, and the internal job that delivers one. The job's payload says what
//! happened; URL and format are those of the alert when it is delivered, so that no job contains the URL.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AlertCondition, AlertNotice, AlertRule, AlertStatus, AlertValue, TAG, TYPE};
use crate::callback;
use crate::clock::Timestamp;
use crate::job::{AlertName, JobMetadata, JobType, NewJob, Payload, Priority, QueueName, Tenant};
use crate::limits;
use crate::webhook_url::WebhookUrl;

/// What is reported about an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertMessage {
    /// The alert.
    pub alert: AlertName,
    /// Its tenant; `None` for one about all tenants.
    pub tenant: Option<Tenant>,
    /// What happened.
    pub notice: AlertNotice,
    /// When.
    pub at: Timestamp,
    /// Whether it fires now.
    pub status: AlertStatus,
    /// Since when.
    pub since: Timestamp,
    /// The number that was compared; `None` if nothing was.
    pub value: Option<AlertValue>,
    /// What it was compared with.
    pub condition: AlertCondition,
    /// Only jobs of this queue.
    pub queue: Option<QueueName>,
    /// Only jobs of this type.
    pub job_type: Option<JobType>,
}

impl AlertMessage {
    /// The internal job that delivers it. It belongs to the alert's tenant, or to the default one.
    pub fn delivery(&self, rule: &AlertRule) -> NewJob {
        let mut metadata = JobMetadata::default();
        metadata.tags.insert(TAG.to_owned(), self.alert.to_string());
        let body = serde_json::to_vec(self).expect("plain data is always valid JSON");
        NewJob {
            // A receiver that never responds delays only its own messages.
            concurrency_key: WebhookUrl::parse(&rule.url).ok().map(|target| target.authority()),
            queue: QueueName::new(callback::QUEUE).expect("it is a name"),
            retry: Some(callback::retry_policy()),
            // Before callbacks, of which there may be many.
            priority: Some(Priority::CRITICAL),
            execution_timeout: Some(callback::ATTEMPT_MAX),
            lifetime: Some(limits::ALERT_DELIVERY_LIFETIME),
            metadata,
            tenant: Some(self.tenant.clone().unwrap_or_default()),
            ..NewJob::new(JobType::new(TYPE).expect("it is a name"), Payload::json(body))
        }
    }

    /// The event of its webhook.
    pub fn event(&self) -> &'static str {
        match self.notice {
            AlertNotice::Firing | AlertNotice::Repeated => "alert.firing",
            AlertNotice::Resolved => "alert.resolved",
            AlertNotice::Test => "alert.test",
        }
    }

    /// The body of its webhook: the three fields of Standard Webhooks.
    pub fn webhook(&self) -> Value {
        json!({
            "type": self.event(),
            "timestamp": self.at.to_string(),
            "data": {
                "alert": self.alert,
                "tenant": self.tenant,
                "state": self.status,
                "since": self.since.to_string(),
                "repeated": self.notice == AlertNotice::Repeated,
                "condition": self.condition.as_str(),
                "description": self.condition.to_string(),
                "value": self.value.map(|value| value.to_string()),
                "queue": self.queue,
                "type": self.job_type,
                "text": self.text(),
            },
        })
    }

    /// The body for Slack's incoming webhooks.
    pub fn slack(&self) -> Value {
        let mark = match self.notice {
            AlertNotice::Firing | AlertNotice::Repeated => ":red_circle:",
            AlertNotice::Resolved => ":large_green_circle:",
            AlertNotice::Test => ":white_circle:",
        };
        // The characters that Slack asks to escape. Names contain no others with a meaning.
        let text = self.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        json!({"text": format!("{mark} {text}")})
    }

    /// One sentence for people.
    pub fn text(&self) -> String {
        let (name, scope) = (&self.alert, self.scope());
        let value = self.value.map(|value| self.condition.describe(value));
        let now = value.map_or_else(String::new, |value| format!(": {value}"));
        match self.notice {
            AlertNotice::Firing => format!("Alert {name} is firing{now}{scope} (limit: {})", self.condition),
            AlertNotice::Repeated => {
                let lasted = span(self.at.since(self.since));
                format!("Alert {name} has been firing for {lasted}{now}{scope} (limit: {})", self.condition)
            }
            AlertNotice::Resolved => format!("Alert {name} is resolved{now}{scope}"),
            AlertNotice::Test => {
                format!("This is a test of alert {name}, which fires on {}{scope}", self.condition)
            }
        }
    }

    fn scope(&self) -> String {
        scope(self.queue.as_ref(), self.job_type.as_ref(), self.tenant.as_ref())
    }
}

/// What an alert is limited to, as the end of a sentence; empty if to nothing.
pub fn scope(queue: Option<&QueueName>, job_type: Option<&JobType>, tenant: Option<&Tenant>) -> String {
    let mut text = String::new();
    for (word, name) in [
        (" in queue ", queue.map(ToString::to_string)),
        (" of type ", job_type.map(ToString::to_string)),
        (" of tenant ", tenant.map(ToString::to_string)),
    ] {
        if let Some(name) = name {
            text.push_str(word);
            text.push_str(&name);
        }
    }
    text
}

impl AlertCondition {
    /// The number that was compared, in words.
    fn describe(&self, value: AlertValue) -> String {
        match self {
            AlertCondition::DeadLetters { within, .. } => {
                let jobs = if value == AlertValue::Count(1) { "dead letter" } else { "dead letters" };
                format!("{value} {jobs} within {}", span(*within))
            }
            AlertCondition::OldestReady { .. } if value == AlertValue::Time(Duration::ZERO) => {
                "no job is ready".to_owned()
            }
            AlertCondition::OldestReady { .. } => format!("the oldest ready job waits for {value}"),
            AlertCondition::FailureRate { within, .. } => {
                format!("{value} of the attempts failed within {}", span(*within))
            }
            AlertCondition::ScheduleMissed { within } => {
                let schedules = if value == AlertValue::Count(1) { "schedule" } else { "schedules" };
                format!("{value} {schedules} missed a run within {}", span(*within))
            }
            AlertCondition::ClockOffset { .. } => format!("the wall clock is off by {value}"),
        }
    }
}

/// The condition in words.
impl fmt::Display for AlertCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AlertCondition::DeadLetters { more_than: 0, within } => {
                write!(f, "any dead letter within {}", span(within))
            }
            AlertCondition::DeadLetters { more_than, within } => {
                write!(f, "more than {more_than} dead letters within {}", span(within))
            }
            AlertCondition::OldestReady { longer_than } => {
                write!(f, "a job that is ready for more than {}", span(longer_than))
            }
            AlertCondition::FailureRate { more_than, within, min_attempts } => write!(
                f,
                "more than {more_than}% of at least {min_attempts} attempts failed within {}",
                span(within)
            ),
            AlertCondition::ScheduleMissed { within } => {
                write!(f, "a schedule that missed a run within {}", span(within))
            }
            AlertCondition::ClockOffset { longer_than } => {
                write!(f, "a wall clock that is off by more than {}", span(longer_than))
            }
        }
    }
}

impl fmt::Display for AlertValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlertValue::Count(number) => write!(f, "{number}"),
            AlertValue::PerMille(share) => write!(f, "{}.{}%", share / 10, share % 10),
            AlertValue::Time(time) => f.write_str(&span(*time)),
        }
    }
}

/// A time with its two largest units, such as `1h 5m`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let units =
        [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let first = units.iter().position(|(number, _)| *number > 0).unwrap_or(units.len() - 1);
    let shown = units[first..].iter().take(2).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = shown.map(|(number, unit)| format!("{number}{unit}")).collect();
    if parts.is_empty() && !time.is_zero() {
        format!("{}ms", time.as_millis())
    } else if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}
