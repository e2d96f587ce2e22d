//! The settings of queues, types and tenants, and the allowed values. Other modules
//! apply them: `command/claim.rs` and `command/submit.rs` enforce limits.

pub mod patch;
pub mod preview;
mod schema;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::schema::{JobSchema, SchemaSteps};
use crate::audit::{AuditEvent, AuditLevel};
use crate::error::{FieldError, FieldProblem};
pub use crate::job::Rate;
use crate::job::{JobState, Priority, RetryPolicy, Timeouts, check_text};
use crate::limits;
use crate::webhook_url::TargetPolicy;
use crate::{Words, skip_none};

/// Time limits, each optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartialTimeouts {
    /// Maximum duration of an attempt.
    pub execution: Option<Duration>,
    /// Duration of a lease.
    pub lease: Option<Duration>,
    /// Maximum time from submission to a final state.
    pub lifetime: Option<Duration>,
    /// Maximum time from becoming claimable to the first start.
    pub start: Option<Duration>,
    /// Upper bound for the duration of an attempt, whatever its job requests: a longer limit is reduced to this one.
    pub max_execution: Option<Duration>,
}

impl PartialTimeouts {
    /// `base` overridden by the values set here.
    pub fn applied_to(&self, base: Timeouts) -> Timeouts {
        Timeouts {
            execution: self.execution.unwrap_or(base.execution),
            lease: self.lease.unwrap_or(base.lease),
            lifetime: self.lifetime.unwrap_or(base.lifetime),
            start: self.start.or(base.start),
        }
    }
}

/// How long jobs are kept after they ended, by final state. Values that are not set follow the queue,
/// then the server.
#[skip_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Retention of completed jobs.
    pub completed: Option<Duration>,
    /// Retention of failed jobs.
    pub failed: Option<Duration>,
    /// Retention of dead letters.
    pub dead_letter: Option<Duration>,
    /// Retention of cancelled jobs.
    pub cancelled: Option<Duration>,
}

impl Retention {
    /// The retention of jobs that ended in this state, if set.
    pub fn get(&self, state: JobState) -> Option<Duration> {
        match state {
            JobState::Completed => self.completed,
            JobState::Failed => self.failed,
            JobState::DeadLetter => self.dead_letter,
            JobState::Cancelled => self.cancelled,
            _ => None,
        }
    }

    /// These values, completed by `others`.
    #[must_use]
    pub fn or(self, others: Retention) -> Retention {
        Retention {
            completed: self.completed.or(others.completed),
            failed: self.failed.or(others.failed),
            dead_letter: self.dead_letter.or(others.dead_letter),
            cancelled: self.cancelled.or(others.cancelled),
        }
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Retention::default()
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`FieldError`] names the field that is too long.
    pub fn check(&self) -> Result<(), FieldError> {
        for state in JobState::FINAL {
            if let Some(time) = self.get(state).filter(|time| *time > limits::DURATION_MAX) {
                let (value, min) = (format!("{time:?}"), "0s".into());
                let problem = FieldProblem::OutOfRange { value, min, max: "100 years".into() };
                return Err(FieldError::new(format!("retention.{state}"), problem));
            }
        }
        Ok(())
    }
}

/// What a fair queue balances between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FairBy {
    /// Tenants take turns within one priority, in proportion to their weights.
    Tenant,
}

impl FairBy {
    /// Parses the name used in settings.
    pub fn parse(text: &str) -> Result<FairBy, FieldProblem> {
        match text {
            "tenant" => Ok(FairBy::Tenant),
            other => Err(FieldProblem::Unknown { value: other.to_owned(), allowed: "tenant" }),
        }
    }
}

/// The period of a budget, in UTC; usage restarts at zero with each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPeriod {
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the first of the next.
    #[default]
    Month,
}

impl BudgetPeriod {
    /// Parses the name used in settings.
    pub fn parse(text: &str) -> Result<BudgetPeriod, FieldProblem> {
        match text {
            "day" => Ok(BudgetPeriod::Day),
            "month" => Ok(BudgetPeriod::Month),
            other => Err(FieldProblem::Unknown { value: other.to_owned(), allowed: "day, month" }),
        }
    }
}

/// A URL that processes a queue's jobs: a server posts each job to it, and the response is the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// The target URL.
    pub url: String,
    /// Jobs that one server process sends concurrently; `max_running` bounds all processes together.
    #[serde(default = "push_concurrency")]
    pub concurrency: u32,
    /// How long one response may take; [`limits::PUSH_TIME_DEFAULT`] unless set, and never longer than an attempt may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether jobs are sent as a claim has them, with their checkpoints, and the response may be an outcome of the worker
    /// protocol: then they can have durable steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub durable: bool,
}

fn push_concurrency() -> u32 {
    limits::PUSH_CONCURRENCY_DEFAULT
}

impl Push {
    /// Pushes to this URL, with defaults for everything else.
    pub fn to(url: impl Into<String>) -> Push {
        Push { url: url.into(), concurrency: push_concurrency(), timeout: None, durable: false }
    }

    /// How long one response may take.
    pub fn time_max(&self) -> Duration {
        self.timeout.unwrap_or(limits::PUSH_TIME_DEFAULT)
    }

    /// Checks all values. Whether the URL may be called is decided by the store's policy.
    fn check(&self) -> Result<(), FieldError> {
        check_text("push.url", Some(&self.url), limits::CALLBACK_URL_CHARS_MAX)?;
        within("push.concurrency", self.concurrency.into(), 1, limits::PUSH_CONCURRENCY_MAX.into())?;
        self.timeout.map_or(Ok(()), |timeout| check_interval("push.timeout", timeout))
    }

    /// Whether the URL may be called, judged without resolving it.
    pub fn check_target(&self, targets: &TargetPolicy) -> Result<(), FieldError> {
        let checked = targets.check(&self.url);
        checked.map(drop).map_err(|error| FieldError::new("push.url", error.into()))
    }
}

/// The settings of a queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// Maximum number of running jobs in the whole fleet.
    pub max_running: Option<u64>,
    /// Maximum number of running jobs per concurrency key; one unless set.
    pub max_running_per_key: Option<u64>,
    /// Rate limit on starts of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Rate limit on starts per concurrency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_key: Option<Rate>,
    /// Maximum number of unfinished jobs.
    pub max_depth: Option<u64>,
    /// Between whom the queue is fair. Only the setting for all tenants counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_by: Option<FairBy>,
    /// How long a job waits until its priority rises by one point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aging: Option<Duration>,
    /// The audit level.
    pub audit: Option<AuditLevel>,
    /// Retry policy of its jobs.
    pub retry: Option<RetryPolicy>,
    /// Time limits of its jobs.
    pub timeouts: PartialTimeouts,
    /// Priority of its jobs.
    pub priority: Option<Priority>,
    /// The push target, if a server sends the queue's jobs to one. The setting for all tenants takes precedence over a
    /// tenant's own, so that no tenant's slow target uses up the slots of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// How long its jobs are kept after they ended.
    #[serde(skip_serializing_if = "Retention::is_empty")]
    pub retention: Retention,
}

impl QueueSettings {
    /// Checks that every value is allowed.
    pub fn check(&self) -> Result<(), FieldError> {
        check_policy(self.retry.as_ref(), self.timeouts)?;
        self.retention.check()?;
        // With a limit of 0 its jobs would wait for a holder that never ends; a pause is the right tool for that.
        self.max_running_per_key.map_or(Ok(()), |limit| within("max_running_per_key", limit, 1, u64::MAX))?;
        self.rate.map_or(Ok(()), |rate| check_rate("rate", rate))?;
        self.rate_per_key.map_or(Ok(()), |rate| check_rate("rate_per_key", rate))?;
        self.aging.map_or(Ok(()), |aging| check_interval("aging", aging))?;
        self.push.as_ref().map_or(Ok(()), Push::check)
    }

    /// These settings, completed by `others`.
    #[must_use]
    pub fn or(&self, others: &QueueSettings) -> QueueSettings {
        let (own, theirs) = (self.timeouts, others.timeouts);
        QueueSettings {
            max_running: self.max_running.or(others.max_running),
            max_running_per_key: self.max_running_per_key.or(others.max_running_per_key),
            rate: self.rate.or(others.rate),
            rate_per_key: self.rate_per_key.or(others.rate_per_key),
            max_depth: self.max_depth.or(others.max_depth),
            fair_by: others.fair_by,
            aging: self.aging.or(others.aging),
            audit: self.audit.or(others.audit),
            retry: self.retry.clone().or_else(|| others.retry.clone()),
            timeouts: PartialTimeouts {
                execution: own.execution.or(theirs.execution),
                lease: own.lease.or(theirs.lease),
                lifetime: own.lifetime.or(theirs.lifetime),
                start: own.start.or(theirs.start),
                // Both apply: the shorter one is effective.
                max_execution: shorter(own.max_execution, theirs.max_execution),
            },
            priority: self.priority.or(others.priority),
            push: others.push.clone().or_else(|| self.push.clone()),
            retention: self.retention.or(others.retention),
        }
    }
}

/// The settings of a type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TypeSettings {
    /// Maximum number of running jobs in the whole fleet.
    pub max_running: Option<u64>,
    /// Rate limit on starts of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Retry policy of its jobs.
    pub retry: Option<RetryPolicy>,
    /// Time limits of its jobs.
    pub timeouts: PartialTimeouts,
    /// Priority of its jobs.
    pub priority: Option<Priority>,
    /// The type's own name for success events in the audit trail.
    pub success_event: Option<String>,
    /// The type's own name for exhausted-retries events in the audit trail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted_event: Option<String>,
    /// How long its jobs are kept after they ended; takes precedence over the queue's setting.
    #[serde(skip_serializing_if = "Retention::is_empty")]
    pub retention: Retention,
    /// What payloads of its jobs must look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<JobSchema>,
    /// What results of its jobs must look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<JobSchema>,
}

impl TypeSettings {
    /// The type's own name for an event in the audit trail, if it has one.
    pub fn alias(&self, event: AuditEvent) -> Option<&str> {
        match event {
            AuditEvent::Completed => self.success_event.as_deref(),
            AuditEvent::Exhausted => self.exhausted_event.as_deref(),
            _ => None,
        }
    }

    /// The events that a type may rename.
    pub const NAMED: [AuditEvent; 2] = [AuditEvent::Completed, AuditEvent::Exhausted];

    /// Checks that every value is allowed.
    pub fn check(&self) -> Result<(), FieldError> {
        check_policy(self.retry.as_ref(), self.timeouts)?;
        self.retention.check()?;
        for (field, schema) in
            [("payload_schema", &self.payload_schema), ("result_schema", &self.result_schema)]
        {
            schema.as_ref().map_or(Ok(()), |schema| schema.check(field))?;
        }
        check_event("success_event", self.success_event.as_deref(), AuditEvent::Completed)?;
        check_event("exhausted_event", self.exhausted_event.as_deref(), AuditEvent::Exhausted)?;
        self.rate.map_or(Ok(()), |rate| check_rate("rate", rate))
    }
}

/// Checks a type's own name for an event: a record must not look like one of another event.
fn check_event(field: &str, name: Option<&str>, event: AuditEvent) -> Result<(), FieldError> {
    let Some(name) = name else { return Ok(()) };
    check_text(field, Some(name), limits::NAME_CHARS_MAX)?;
    let wrong = |what: &str| Err(FieldError::new(field, FieldProblem::Contradiction(what.to_owned())));
    if name.is_empty() || name.chars().any(char::is_control) {
        return wrong("is empty or contains a control character");
    }
    if AuditEvent::ALL.iter().any(|other| *other != event && other.as_str() == name) {
        return wrong("is the name of another event");
    }
    Ok(())
}

/// The settings of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantSettings {
    /// Maximum number of running jobs in the whole fleet.
    pub max_running: Option<u64>,
    /// Maximum number of unfinished jobs.
    pub max_depth: Option<u64>,
    /// How many jobs it may start per turn in a fair queue; one unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Budget per period in cents; once it is spent, none of the tenant's jobs start before the next period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_cents: Option<u64>,
    /// The budget's period; a month unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_period: Option<BudgetPeriod>,
    /// Maximum number of queues with jobs; [`limits::QUEUES_PER_TENANT_MAX`] unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queues: Option<u64>,
    /// Maximum number of types with jobs; [`limits::TYPES_PER_TENANT_MAX`] unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_types: Option<u64>,
    /// Maximum number of pairs of a queue and a type with jobs, once more for each version that they require; [`limits::LANES_PER_TENANT_MAX`] unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lanes: Option<u64>,
    /// Maximum number of concurrency keys of unfinished jobs; [`limits::CONCURRENCY_KEYS_PER_TENANT_MAX`] unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency_keys: Option<u64>,
}

impl TenantSettings {
    /// Checks that every value is allowed.
    pub fn check(&self) -> Result<(), FieldError> {
        if let Some(weight) = self.weight {
            within("weight", u64::from(weight), 1, u64::from(limits::TENANT_WEIGHT_MAX))?;
        }
        if let Some(budget) = self.budget_cents {
            within("budget_cents", budget, 0, limits::BUDGET_CENTS_MAX)?;
        }
        Ok(())
    }
}

fn check_policy(retry: Option<&RetryPolicy>, timeouts: PartialTimeouts) -> Result<(), FieldError> {
    if let Some(retry) = retry {
        retry.check()?;
    }
    timeouts.max_execution.map_or(Ok(()), |cap| check_interval("timeouts.max_execution", cap))?;
    timeouts.applied_to(Timeouts::default()).check()
}

/// The shorter of two optional limits.
pub fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<(), FieldError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let (value, min, max) = (value.to_string(), min.to_string(), max.to_string());
    Err(FieldError::new(field, FieldProblem::OutOfRange { value, min, max }))
}

fn check_rate(field: &str, rate: Rate) -> Result<(), FieldError> {
    within(&format!("{field}.count"), rate.count, 1, limits::RATE_COUNT_MAX)?;
    check_interval(&format!("{field}.per"), rate.per)
}

/// Time is counted in whole milliseconds, so nothing can happen more often.
fn check_interval(field: &str, interval: Duration) -> Result<(), FieldError> {
    if (Duration::from_millis(1)..=limits::DURATION_MAX).contains(&interval) {
        return Ok(());
    }
    let (value, min) = (format!("{interval:?}"), "1ms".into());
    Err(FieldError::new(field, FieldProblem::OutOfRange { value, min, max: "100 years".into() }))
}

/// How a pause treats running jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseMode {
    /// They may finish.
    #[default]
    Graceful,
    /// They are stopped now.
    Aggressive,
}
