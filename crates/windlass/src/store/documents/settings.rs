//! What can be set for queues, types and tenants, and which values are allowed. What the settings do is not here: limits are
//! consulted by `command/claim.rs` and `command/submit.rs`.

pub mod patch;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::{AuditEvent, AuditLevel};
use crate::error::{FieldProblem, Invalid};
pub use crate::job::Rate;
use crate::job::{JobState, Priority, RetryPolicy, Timeouts, check_text};
use crate::limits;
use crate::webhook_url::TargetPolicy;

/// Time limits of which only some are set (M34).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartialTimeouts {
    /// Longest attempt.
    pub execution: Option<Duration>,
    /// How long a lease holds.
    pub lease: Option<Duration>,
    /// From submission to a final state.
    pub lifetime: Option<Duration>,
    /// From the moment a job can be claimed to its first start.
    pub start: Option<Duration>,
    /// No attempt may take longer, whatever its job asks for: a longer limit is cut to this one.
    pub max_execution: Option<Duration>,
}

impl PartialTimeouts {
    /// `base` with what is set here over it.
    pub fn applied_to(&self, base: Timeouts) -> Timeouts {
        Timeouts {
            execution: self.execution.unwrap_or(base.execution),
            lease: self.lease.unwrap_or(base.lease),
            lifetime: self.lifetime.unwrap_or(base.lifetime),
            start: self.start.or(base.start),
        }
    }
}

/// For how long jobs are kept after they ended, by the state they ended in; what is not set follows the queue, then the
/// server (M96).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Those that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<Duration>,
    /// Those that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Duration>,
    /// Dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<Duration>,
    /// Those that were cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Duration>,
}

impl Retention {
    /// For how long jobs that ended in this state are kept, if that is set.
    pub fn of(&self, state: JobState) -> Option<Duration> {
        match state {
            JobState::Completed => self.completed,
            JobState::Failed => self.failed,
            JobState::DeadLetter => self.dead_letter,
            JobState::Cancelled => self.cancelled,
            _ => None,
        }
    }

    /// These, and `others` where these say nothing.
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

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        for state in JobState::FINAL {
            if let Some(time) = self.of(state).filter(|time| *time > limits::DURATION_MAX) {
                let (value, min) = (format!("{time:?}"), "0s".into());
                let problem = FieldProblem::OutOfRange { value, min, max: "100 years".into() };
                return Err(Invalid::new(format!("retention.{state}"), problem));
            }
        }
        Ok(())
    }
}

/// Between whom a queue is fair (M112).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FairBy {
    /// Tenants take turns within one priority, each as often as its weight says.
    Tenant,
}

impl FairBy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            FairBy::Tenant => "tenant",
        }
    }

    /// The meaning of a word.
    pub fn parse(text: &str) -> Result<FairBy, FieldProblem> {
        match text {
            "tenant" => Ok(FairBy::Tenant),
            other => Err(FieldProblem::Unknown { value: other.to_owned(), allowed: "tenant" }),
        }
    }
}

/// For how long a budget lasts, in UTC; then counting begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPeriod {
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the first of the next.
    #[default]
    Month,
}

impl BudgetPeriod {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            BudgetPeriod::Day => "day",
            BudgetPeriod::Month => "month",
        }
    }

    /// The meaning of a word.
    pub fn parse(text: &str) -> Result<BudgetPeriod, FieldProblem> {
        match text {
            "day" => Ok(BudgetPeriod::Day),
            "month" => Ok(BudgetPeriod::Month),
            other => Err(FieldProblem::Unknown { value: other.to_owned(), allowed: "day, month" }),
        }
    }
}

/// A web address that works on a queue's jobs: a server posts each one to it, and the answer is the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// Where jobs are sent.
    pub url: String,
    /// Jobs that one server process sends at once; `max_running` bounds all of them together.
    #[serde(default = "push_concurrency")]
    pub concurrency: u32,
    /// How long one answer may take; [`limits::PUSH_TIME_DEFAULT`] unless set, and never longer than an attempt may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

fn push_concurrency() -> u32 {
    limits::PUSH_CONCURRENCY_DEFAULT
}

impl Push {
    /// Jobs are sent to this address, everything else by default.
    pub fn to(url: impl Into<String>) -> Push {
        Push { url: url.into(), concurrency: push_concurrency(), timeout: None }
    }

    /// How long one answer may take.
    pub fn time_max(&self) -> Duration {
        self.timeout.unwrap_or(limits::PUSH_TIME_DEFAULT)
    }

    /// Whether every value is allowed; whether the address may be called is the store's policy.
    fn check(&self) -> Result<(), Invalid> {
        check_text("push.url", Some(&self.url), limits::CALLBACK_URL_CHARS_MAX)?;
        within("push.concurrency", self.concurrency.into(), 1, limits::PUSH_CONCURRENCY_MAX.into())?;
        self.timeout.map_or(Ok(()), |timeout| check_interval("push.timeout", timeout))
    }

    /// Whether the address may be called, as far as it tells by itself.
    pub(crate) fn check_target(&self, targets: &TargetPolicy) -> Result<(), Invalid> {
        let checked = targets.check(&self.url);
        checked.map(drop).map_err(|error| Invalid::new("push.url", error.into()))
    }
}

/// What can be set for a queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// Jobs running at once in the whole fleet (M110).
    pub max_running: Option<u64>,
    /// Jobs running at once per concurrency key; one unless set (M110).
    pub max_running_per_key: Option<u64>,
    /// How often its jobs may start (M111).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How often jobs with one concurrency key may start (M111).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_key: Option<Rate>,
    /// Jobs that are not final (M113).
    pub max_depth: Option<u64>,
    /// Who takes turns (M112); only everybody's setting counts, since a tenant has nobody to take turns with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_by: Option<FairBy>,
    /// How long a job waits for each point by which it then rises (M23).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aging: Option<Duration>,
    /// How much of the audit trail is kept (M92).
    pub audit: Option<AuditLevel>,
    /// Retry policy of its jobs.
    pub retry: Option<RetryPolicy>,
    /// Time limits of its jobs.
    pub timeouts: PartialTimeouts,
    /// Priority of its jobs.
    pub priority: Option<Priority>,
    /// Where a server sends its jobs, if that is how they are worked on. Everybody's setting counts before a tenant's own,
    /// so that no tenant's slow target takes the places of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// For how long its jobs are kept after they ended (M96).
    #[serde(skip_serializing_if = "Retention::is_empty")]
    pub retention: Retention,
}

impl QueueSettings {
    /// Whether every value is allowed.
    pub fn check(&self) -> Result<(), Invalid> {
        check_policy(self.retry.as_ref(), self.timeouts)?;
        self.retention.check()?;
        // With none at all its jobs would wait for a holder that never comes; a pause says that better.
        self.max_running_per_key.map_or(Ok(()), |limit| within("max_running_per_key", limit, 1, u64::MAX))?;
        self.rate.map_or(Ok(()), |rate| check_rate("rate", rate))?;
        self.rate_per_key.map_or(Ok(()), |rate| check_rate("rate_per_key", rate))?;
        self.aging.map_or(Ok(()), |aging| check_interval("aging", aging))?;
        self.push.as_ref().map_or(Ok(()), Push::check)
    }

    /// These settings, and `others` where these say nothing.
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
                // Both count: the shorter one is the one in force.
                max_execution: shorter(own.max_execution, theirs.max_execution),
            },
            priority: self.priority.or(others.priority),
            push: others.push.clone().or_else(|| self.push.clone()),
            retention: self.retention.or(others.retention),
        }
    }
}

/// What can be set for a type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TypeSettings {
    /// Jobs running at once in the whole fleet (M110).
    pub max_running: Option<u64>,
    /// How often its jobs may start (M111).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Retry policy of its jobs.
    pub retry: Option<RetryPolicy>,
    /// Time limits of its jobs.
    pub timeouts: PartialTimeouts,
    /// Priority of its jobs.
    pub priority: Option<Priority>,
    /// Its own name for a success in the audit trail (M92).
    pub success_event: Option<String>,
    /// Its own name for spent retries in the audit trail (M92).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted_event: Option<String>,
    /// For how long its jobs are kept after they ended; goes before its queue's (M96).
    #[serde(skip_serializing_if = "Retention::is_empty")]
    pub retention: Retention,
}

impl TypeSettings {
    /// Its own name for an event in the audit trail, if it has one (M92).
    pub fn alias(&self, event: AuditEvent) -> Option<&str> {
        match event {
            AuditEvent::Completed => self.success_event.as_deref(),
            AuditEvent::Exhausted => self.exhausted_event.as_deref(),
            _ => None,
        }
    }

    /// The events that may have a name of a type's own.
    pub const NAMED: [AuditEvent; 2] = [AuditEvent::Completed, AuditEvent::Exhausted];

    /// Whether every value is allowed.
    pub fn check(&self) -> Result<(), Invalid> {
        check_policy(self.retry.as_ref(), self.timeouts)?;
        self.retention.check()?;
        check_text("success_event", self.success_event.as_deref(), limits::NAME_CHARS_MAX)?;
        check_text("exhausted_event", self.exhausted_event.as_deref(), limits::NAME_CHARS_MAX)?;
        self.rate.map_or(Ok(()), |rate| check_rate("rate", rate))
    }
}

/// What can be set for a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantSettings {
    /// Jobs running at once in the whole fleet (M110).
    pub max_running: Option<u64>,
    /// Jobs that are not final (M113).
    pub max_depth: Option<u64>,
    /// How many jobs it may start in its turn where a queue is fair (M112); one unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// What its jobs may cost in a period; once spent, nothing of it starts before the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_cents: Option<u64>,
    /// How long that period is; a month unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_period: Option<BudgetPeriod>,
    /// Queues with jobs; [`limits::QUEUES_PER_TENANT_MAX`] unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queues: Option<u64>,
    /// Types with jobs; [`limits::TYPES_PER_TENANT_MAX`] unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_types: Option<u64>,
    /// Pairs of a queue and a type with jobs; [`limits::LANES_PER_TENANT_MAX`] unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lanes: Option<u64>,
}

impl TenantSettings {
    /// Whether every value is allowed.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(weight) = self.weight {
            within("weight", u64::from(weight), 1, u64::from(limits::TENANT_WEIGHT_MAX))?;
        }
        if let Some(budget) = self.budget_cents {
            within("budget_cents", budget, 0, limits::BUDGET_CENTS_MAX)?;
        }
        Ok(())
    }
}

fn check_policy(retry: Option<&RetryPolicy>, timeouts: PartialTimeouts) -> Result<(), Invalid> {
    if let Some(retry) = retry {
        retry.check()?;
    }
    timeouts.max_execution.map_or(Ok(()), |cap| check_interval("timeouts.max_execution", cap))?;
    timeouts.applied_to(Timeouts::default()).check()
}

/// The shorter of two limits, either of which may be missing.
pub(crate) fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<(), Invalid> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let (value, min, max) = (value.to_string(), min.to_string(), max.to_string());
    Err(Invalid::new(field, FieldProblem::OutOfRange { value, min, max }))
}

fn check_rate(field: &str, rate: Rate) -> Result<(), Invalid> {
    within(&format!("{field}.count"), rate.count, 1, limits::RATE_COUNT_MAX)?;
    check_interval(&format!("{field}.per"), rate.per)
}

/// Time is counted in whole milliseconds: nothing can happen more often.
fn check_interval(field: &str, interval: Duration) -> Result<(), Invalid> {
    if (Duration::from_millis(1)..=limits::DURATION_MAX).contains(&interval) {
        return Ok(());
    }
    let (value, min) = (format!("{interval:?}"), "1ms".into());
    Err(Invalid::new(field, FieldProblem::OutOfRange { value, min, max: "100 years".into() }))
}
