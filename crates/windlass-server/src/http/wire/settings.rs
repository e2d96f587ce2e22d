//! Settings of queues, types and tenants in the API. Fields that are not given stay; null clears a field.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::audit::AuditLevel;
use windlass::store::documents::settings::patch::{
    Field, QueuePatch, RetentionPatch, TenantPatch, TimeoutsPatch, TypePatch,
};
use windlass::store::documents::settings::{
    BudgetPeriod, FairBy, PartialTimeouts, Push, QueueSettings, Rate, TenantSettings, TypeSettings,
};

use super::priority::PriorityInput;
use super::push::PushWire;
use super::retention::{RetentionBody, RetentionView};
use super::retry::{EffectiveRetry, Retry, two_leases};
use super::time::Span;
use crate::http::reply::error::ApiError;

/// Changes of a queue's settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct QueueBody {
    /// Maximum number of running jobs, across all workers.
    #[schemars(with = "Option<u64>")]
    max_running: Field<u64>,
    /// Maximum number of running jobs per concurrency key.
    #[schemars(with = "Option<u64>")]
    max_running_per_key: Field<u64>,
    /// How often its jobs may start.
    #[schemars(with = "Option<RateWire>")]
    rate: Field<RateWire>,
    /// How often jobs with the same concurrency key may start.
    #[schemars(with = "Option<RateWire>")]
    rate_per_key: Field<RateWire>,
    /// Maximum number of jobs that are not final.
    #[schemars(with = "Option<u64>")]
    max_depth: Field<u64>,
    /// Shares the queue fairly between these.
    #[schemars(with = "Option<FairWord>")]
    fair_by: Field<FairWord>,
    /// Waiting time that raises a job's priority by one point.
    #[schemars(with = "Option<Span>")]
    aging: Field<Span>,
    /// Which audit records are kept.
    #[schemars(with = "Option<AuditWord>")]
    audit: Field<AuditWord>,
    #[schemars(with = "Option<Retry>")]
    retry: Field<Retry>,
    #[schemars(with = "Option<TimeoutsBody>")]
    timeouts: Field<TimeoutsBody>,
    #[schemars(with = "Option<PriorityInput>")]
    priority: Field<PriorityInput>,
    /// Push target, if a server pushes the queue's jobs.
    #[schemars(with = "Option<PushWire>")]
    push: Field<PushWire>,
    /// How long its final jobs are kept.
    #[schemars(with = "Option<RetentionBody>")]
    retention: Field<RetentionBody>,
}

/// Changes of time limits.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TimeoutsBody {
    #[schemars(with = "Option<Span>")]
    execution: Field<Span>,
    #[schemars(with = "Option<Span>")]
    lease: Field<Span>,
    /// Another name for `lease`.
    #[schemars(with = "Option<Span>")]
    visibility: Field<Span>,
    #[schemars(with = "Option<Span>")]
    lifetime: Field<Span>,
    /// Maximum time from when a job can be claimed to its first start.
    #[schemars(with = "Option<Span>")]
    start: Field<Span>,
    /// Upper limit for the duration of an attempt; applies to jobs with a longer one.
    #[schemars(with = "Option<Span>")]
    max_execution: Field<Span>,
}

impl TimeoutsBody {
    fn into_patch(self) -> Result<TimeoutsPatch, ApiError> {
        let lease = match (self.lease, self.visibility) {
            (Field::Set(lease), Field::Set(visibility)) if lease.0 != visibility.0 => {
                return Err(two_leases(lease, visibility).into());
            }
            (Field::Keep, visibility) => visibility,
            (lease, _) => lease,
        };
        Ok(TimeoutsPatch {
            execution: self.execution.map(|span| span.0),
            lease: lease.map(|span| span.0),
            lifetime: self.lifetime.map(|span| span.0),
            start: self.start.map(|span| span.0),
            max_execution: self.max_execution.map(|span| span.0),
        })
    }
}

/// How often jobs may start.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Rate")]
#[serde(deny_unknown_fields)]
struct RateWire {
    count: u64,
    per: Span,
}

impl From<RateWire> for Rate {
    fn from(rate: RateWire) -> Rate {
        Rate::new(rate.count, rate.per.0)
    }
}

impl From<Rate> for RateWire {
    fn from(rate: Rate) -> RateWire {
        RateWire { count: rate.count, per: rate.per.into() }
    }
}

/// Between what a queue is shared fairly.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FairWord {
    Tenant,
}

/// Which audit records are kept.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AuditWord {
    All,
    Outcomes,
    Operators,
}

impl From<AuditWord> for AuditLevel {
    fn from(word: AuditWord) -> AuditLevel {
        match word {
            AuditWord::All => AuditLevel::All,
            AuditWord::Outcomes => AuditLevel::Outcomes,
            AuditWord::Operators => AuditLevel::Operators,
        }
    }
}

impl From<AuditLevel> for AuditWord {
    fn from(level: AuditLevel) -> AuditWord {
        match level {
            AuditLevel::All => AuditWord::All,
            AuditLevel::Outcomes => AuditWord::Outcomes,
            AuditLevel::Operators => AuditWord::Operators,
        }
    }
}

impl QueueBody {
    /// The library's change.
    pub(crate) fn into_patch(self) -> Result<QueuePatch, ApiError> {
        Ok(QueuePatch {
            max_running: self.max_running,
            max_running_per_key: self.max_running_per_key,
            rate: self.rate.map(Rate::from),
            rate_per_key: self.rate_per_key.map(Rate::from),
            max_depth: self.max_depth,
            fair_by: self.fair_by.map(|FairWord::Tenant| FairBy::Tenant),
            aging: self.aging.map(|span| span.0),
            audit: self.audit.map(AuditLevel::from),
            retry: self.retry.try_map(Retry::into_policy)?,
            timeouts: self.timeouts.try_map(TimeoutsBody::into_patch)?,
            priority: self.priority.map(|priority| priority.0),
            push: self.push.map(Push::from),
            retention: self.retention.map(RetentionPatch::from),
        })
    }
}

/// A queue's settings; null means not set.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueueSettingsView {
    max_running: Option<u64>,
    max_running_per_key: Option<u64>,
    rate: Option<RateWire>,
    rate_per_key: Option<RateWire>,
    max_depth: Option<u64>,
    fair_by: Option<FairWord>,
    aging: Option<Span>,
    audit: Option<AuditWord>,
    retry: Option<EffectiveRetry>,
    timeouts: TimeoutsView,
    priority: Option<u8>,
    push: Option<PushWire>,
    retention: RetentionView,
}

/// Time limits; null means not set.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SetTimeouts")]
struct TimeoutsView {
    execution: Option<Span>,
    lease: Option<Span>,
    lifetime: Option<Span>,
    start: Option<Span>,
    max_execution: Option<Span>,
}

impl From<PartialTimeouts> for TimeoutsView {
    fn from(timeouts: PartialTimeouts) -> TimeoutsView {
        TimeoutsView {
            execution: timeouts.execution.map(Span),
            lease: timeouts.lease.map(Span),
            lifetime: timeouts.lifetime.map(Span),
            start: timeouts.start.map(Span),
            max_execution: timeouts.max_execution.map(Span),
        }
    }
}

impl From<&QueueSettings> for QueueSettingsView {
    fn from(settings: &QueueSettings) -> QueueSettingsView {
        QueueSettingsView {
            max_running: settings.max_running,
            max_running_per_key: settings.max_running_per_key,
            rate: settings.rate.map(RateWire::from),
            rate_per_key: settings.rate_per_key.map(RateWire::from),
            max_depth: settings.max_depth,
            fair_by: settings.fair_by.map(|FairBy::Tenant| FairWord::Tenant),
            aging: settings.aging.map(Span),
            audit: settings.audit.map(AuditWord::from),
            retry: settings.retry.as_ref().map(EffectiveRetry::from),
            timeouts: settings.timeouts.into(),
            priority: settings.priority.map(windlass::job::Priority::value),
            push: settings.push.as_ref().map(PushWire::from),
            retention: settings.retention.into(),
        }
    }
}

/// Changes of a type's settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TypeBody {
    /// Maximum number of running jobs, across all workers.
    #[schemars(with = "Option<u64>")]
    max_running: Field<u64>,
    /// How often its jobs may start.
    #[schemars(with = "Option<RateWire>")]
    rate: Field<RateWire>,
    #[schemars(with = "Option<Retry>")]
    retry: Field<Retry>,
    #[schemars(with = "Option<TimeoutsBody>")]
    timeouts: Field<TimeoutsBody>,
    #[schemars(with = "Option<PriorityInput>")]
    priority: Field<PriorityInput>,
    /// Custom event name for a success in the audit trail.
    #[schemars(with = "Option<String>")]
    success_event: Field<String>,
    /// Custom event name for exhausted retries in the audit trail.
    #[schemars(with = "Option<String>")]
    exhausted_event: Field<String>,
    /// How long its final jobs are kept; takes precedence over their queue's setting.
    #[schemars(with = "Option<RetentionBody>")]
    retention: Field<RetentionBody>,
}

impl TypeBody {
    /// The library's change.
    pub(crate) fn into_patch(self) -> Result<TypePatch, ApiError> {
        Ok(TypePatch {
            max_running: self.max_running,
            rate: self.rate.map(Rate::from),
            retry: self.retry.try_map(Retry::into_policy)?,
            timeouts: self.timeouts.try_map(TimeoutsBody::into_patch)?,
            priority: self.priority.map(|priority| priority.0),
            success_event: self.success_event,
            exhausted_event: self.exhausted_event,
            retention: self.retention.map(RetentionPatch::from),
        })
    }
}

/// A type's settings; null means not set.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TypeSettingsView {
    max_running: Option<u64>,
    rate: Option<RateWire>,
    retry: Option<EffectiveRetry>,
    timeouts: TimeoutsView,
    priority: Option<u8>,
    success_event: Option<String>,
    exhausted_event: Option<String>,
    retention: RetentionView,
}

impl From<&TypeSettings> for TypeSettingsView {
    fn from(settings: &TypeSettings) -> TypeSettingsView {
        TypeSettingsView {
            max_running: settings.max_running,
            rate: settings.rate.map(RateWire::from),
            retry: settings.retry.as_ref().map(EffectiveRetry::from),
            timeouts: settings.timeouts.into(),
            priority: settings.priority.map(windlass::job::Priority::value),
            success_event: settings.success_event.clone(),
            exhausted_event: settings.exhausted_event.clone(),
            retention: settings.retention.into(),
        }
    }
}

/// Changes of a tenant's settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TenantBody {
    /// Maximum number of running jobs, across all workers.
    #[schemars(with = "Option<u64>")]
    max_running: Field<u64>,
    /// Maximum number of jobs that are not final.
    #[schemars(with = "Option<u64>")]
    max_depth: Field<u64>,
    /// Share of a fair queue: how many jobs it may start per turn.
    #[schemars(with = "Option<u32>")]
    weight: Field<u32>,
    /// Maximum cost of its jobs per period.
    #[schemars(with = "Option<u64>")]
    budget_cents: Field<u64>,
    /// The budget period; a month if not set.
    #[schemars(with = "Option<PeriodWord>")]
    budget_period: Field<PeriodWord>,
    /// Maximum number of queues with jobs; 10000 if not set.
    #[schemars(with = "Option<u64>")]
    max_queues: Field<u64>,
    /// Maximum number of types with jobs; 10000 if not set.
    #[schemars(with = "Option<u64>")]
    max_types: Field<u64>,
    /// Maximum number of pairs of a queue and a type with jobs; 20000 if not set.
    #[schemars(with = "Option<u64>")]
    max_lanes: Field<u64>,
    /// Maximum number of concurrency keys of jobs that are not final; 100000 if not set.
    #[schemars(with = "Option<u64>")]
    max_concurrency_keys: Field<u64>,
}

/// The budget period.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PeriodWord {
    Day,
    Month,
}

impl From<TenantBody> for TenantPatch {
    fn from(body: TenantBody) -> TenantPatch {
        TenantPatch {
            max_running: body.max_running,
            max_depth: body.max_depth,
            weight: body.weight,
            budget_cents: body.budget_cents,
            budget_period: body.budget_period.map(|word| match word {
                PeriodWord::Day => BudgetPeriod::Day,
                PeriodWord::Month => BudgetPeriod::Month,
            }),
            max_queues: body.max_queues,
            max_types: body.max_types,
            max_lanes: body.max_lanes,
            max_concurrency_keys: body.max_concurrency_keys,
        }
    }
}

/// A tenant's settings; null means not set.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TenantSettingsView {
    max_running: Option<u64>,
    max_depth: Option<u64>,
    weight: Option<u32>,
    budget_cents: Option<u64>,
    budget_period: Option<PeriodWord>,
    max_queues: Option<u64>,
    max_types: Option<u64>,
    max_lanes: Option<u64>,
    max_concurrency_keys: Option<u64>,
}

impl From<&TenantSettings> for TenantSettingsView {
    fn from(settings: &TenantSettings) -> TenantSettingsView {
        TenantSettingsView {
            max_running: settings.max_running,
            max_depth: settings.max_depth,
            weight: settings.weight,
            budget_cents: settings.budget_cents,
            budget_period: settings.budget_period.map(|period| match period {
                BudgetPeriod::Day => PeriodWord::Day,
                BudgetPeriod::Month => PeriodWord::Month,
            }),
            max_queues: settings.max_queues,
            max_types: settings.max_types,
            max_lanes: settings.max_lanes,
            max_concurrency_keys: settings.max_concurrency_keys,
        }
    }
}
