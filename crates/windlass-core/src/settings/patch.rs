//! Changes to settings: a missing field stays, `null` clears it. Changes are merged inside the commit, so two people
//! who set different fields at once both succeed.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    BudgetPeriod, FairBy, JobSchema, PartialTimeouts, Push, QueueSettings, Rate, Retention, TenantSettings,
    TypeSettings,
};
use crate::audit::AuditLevel;
use crate::job::{JobType, Priority, QueueName, RetryPolicy, Tenant};

/// The change of one field.
///
/// Read from JSON with `#[serde(default)]`: absent keeps, `null` clears, anything else sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Field<T> {
    /// Keep the value.
    #[default]
    Keep,
    /// Clear the value.
    Clear,
    /// Set this value.
    Set(T),
}

impl<T> Field<T> {
    /// Converts the value; the conversion may fail.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Field<U>, E> {
        Ok(match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(make(value)?),
        })
    }

    /// Whether the value stays.
    pub fn is_kept(&self) -> bool {
        matches!(self, Field::Keep)
    }

    /// The field by reference.
    pub fn as_ref(&self) -> Field<&T> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(value),
        }
    }

    /// Converts the value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(make(value)),
        }
    }
}

impl<T: Clone> Field<T> {
    fn apply(&self, to: &mut Option<T>) {
        match self {
            Field::Keep => {}
            Field::Clear => *to = None,
            Field::Set(value) => *to = Some(value.clone()),
        }
    }
}

impl<T> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Field<T> {
        value.map_or(Field::Clear, Field::Set)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Field<T>, D::Error> {
        Option::deserialize(from).map(Field::from)
    }
}

/// Written with `#[serde(skip_serializing_if = "Field::is_kept")]`, for which a kept field is left out.
impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Keep | Field::Clear => serializer.serialize_none(),
            Field::Set(value) => value.serialize(serializer),
        }
    }
}

/// Changes to some time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeoutsPatch {
    /// Maximum duration of an attempt.
    pub execution: Field<Duration>,
    /// Duration of a lease.
    pub lease: Field<Duration>,
    /// Maximum time from submission to a final state.
    pub lifetime: Field<Duration>,
    /// Maximum time from becoming claimable to the first start.
    pub start: Field<Duration>,
    /// Upper bound for the duration of an attempt, whatever its job requests.
    pub max_execution: Field<Duration>,
}

impl From<PartialTimeouts> for TimeoutsPatch {
    fn from(all: PartialTimeouts) -> TimeoutsPatch {
        TimeoutsPatch {
            execution: all.execution.into(),
            lease: all.lease.into(),
            lifetime: all.lifetime.into(),
            start: all.start.into(),
            max_execution: all.max_execution.into(),
        }
    }
}

fn apply_timeouts(patch: &Field<TimeoutsPatch>, to: &mut PartialTimeouts) {
    match patch {
        Field::Keep => {}
        Field::Clear => *to = PartialTimeouts::default(),
        Field::Set(patch) => {
            patch.execution.apply(&mut to.execution);
            patch.lease.apply(&mut to.lease);
            patch.lifetime.apply(&mut to.lifetime);
            patch.start.apply(&mut to.start);
            patch.max_execution.apply(&mut to.max_execution);
        }
    }
}

/// Changes to the retention; see [`Retention`] for the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields are those of the settings")]
pub struct RetentionPatch {
    pub completed: Field<Duration>,
    pub failed: Field<Duration>,
    pub dead_letter: Field<Duration>,
    pub cancelled: Field<Duration>,
}

impl From<Retention> for RetentionPatch {
    fn from(all: Retention) -> RetentionPatch {
        RetentionPatch {
            completed: all.completed.into(),
            failed: all.failed.into(),
            dead_letter: all.dead_letter.into(),
            cancelled: all.cancelled.into(),
        }
    }
}

impl RetentionPatch {
    /// Applies this change.
    pub fn apply(&self, to: &mut Retention) {
        self.completed.apply(&mut to.completed);
        self.failed.apply(&mut to.failed);
        self.dead_letter.apply(&mut to.dead_letter);
        self.cancelled.apply(&mut to.cancelled);
    }
}

fn apply_retention(patch: &Field<RetentionPatch>, to: &mut Retention) {
    match patch {
        Field::Keep => {}
        Field::Clear => *to = Retention::default(),
        Field::Set(patch) => patch.apply(to),
    }
}

/// Changes to a queue's settings; see [`QueueSettings`] for the fields.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs, reason = "the fields are those of the settings")]
pub struct QueuePatch {
    pub max_running: Field<u64>,
    pub max_running_per_key: Field<u64>,
    pub rate: Field<Rate>,
    pub rate_per_key: Field<Rate>,
    pub max_depth: Field<u64>,
    pub fair_by: Field<FairBy>,
    pub aging: Field<Duration>,
    pub audit: Field<AuditLevel>,
    pub retry: Field<RetryPolicy>,
    pub timeouts: Field<TimeoutsPatch>,
    pub priority: Field<Priority>,
    pub push: Field<Push>,
    pub retention: Field<RetentionPatch>,
}

impl QueuePatch {
    /// The settings after the change.
    pub fn applied_to(&self, mut settings: QueueSettings) -> QueueSettings {
        self.max_running.apply(&mut settings.max_running);
        self.max_running_per_key.apply(&mut settings.max_running_per_key);
        self.rate.apply(&mut settings.rate);
        self.rate_per_key.apply(&mut settings.rate_per_key);
        self.max_depth.apply(&mut settings.max_depth);
        self.fair_by.apply(&mut settings.fair_by);
        self.aging.apply(&mut settings.aging);
        self.audit.apply(&mut settings.audit);
        self.retry.apply(&mut settings.retry);
        apply_timeouts(&self.timeouts, &mut settings.timeouts);
        self.priority.apply(&mut settings.priority);
        self.push.apply(&mut settings.push);
        apply_retention(&self.retention, &mut settings.retention);
        settings
    }
}

/// A change that replaces all fields.
impl From<QueueSettings> for QueuePatch {
    fn from(all: QueueSettings) -> QueuePatch {
        QueuePatch {
            max_running: all.max_running.into(),
            max_running_per_key: all.max_running_per_key.into(),
            rate: all.rate.into(),
            rate_per_key: all.rate_per_key.into(),
            max_depth: all.max_depth.into(),
            fair_by: all.fair_by.into(),
            aging: all.aging.into(),
            audit: all.audit.into(),
            retry: all.retry.into(),
            timeouts: Field::Set(all.timeouts.into()),
            priority: all.priority.into(),
            push: all.push.into(),
            retention: Field::Set(all.retention.into()),
        }
    }
}

/// Changes to a type's settings; see [`TypeSettings`] for the fields.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs, reason = "the fields are those of the settings")]
pub struct TypePatch {
    pub max_running: Field<u64>,
    pub rate: Field<Rate>,
    pub retry: Field<RetryPolicy>,
    pub timeouts: Field<TimeoutsPatch>,
    pub priority: Field<Priority>,
    pub success_event: Field<String>,
    pub exhausted_event: Field<String>,
    pub retention: Field<RetentionPatch>,
    pub payload_schema: Field<JobSchema>,
    pub result_schema: Field<JobSchema>,
}

impl TypePatch {
    /// The settings after the change.
    pub fn applied_to(&self, mut settings: TypeSettings) -> TypeSettings {
        self.max_running.apply(&mut settings.max_running);
        self.rate.apply(&mut settings.rate);
        self.retry.apply(&mut settings.retry);
        apply_timeouts(&self.timeouts, &mut settings.timeouts);
        self.priority.apply(&mut settings.priority);
        self.success_event.apply(&mut settings.success_event);
        self.exhausted_event.apply(&mut settings.exhausted_event);
        apply_retention(&self.retention, &mut settings.retention);
        self.payload_schema.apply(&mut settings.payload_schema);
        self.result_schema.apply(&mut settings.result_schema);
        settings
    }
}

/// A change that replaces all fields.
impl From<TypeSettings> for TypePatch {
    fn from(all: TypeSettings) -> TypePatch {
        TypePatch {
            max_running: all.max_running.into(),
            rate: all.rate.into(),
            retry: all.retry.into(),
            timeouts: Field::Set(all.timeouts.into()),
            priority: all.priority.into(),
            success_event: all.success_event.into(),
            exhausted_event: all.exhausted_event.into(),
            retention: Field::Set(all.retention.into()),
            payload_schema: all.payload_schema.into(),
            result_schema: all.result_schema.into(),
        }
    }
}

/// Changes to a tenant's settings; see [`TenantSettings`] for the fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields are those of the settings")]
pub struct TenantPatch {
    pub max_running: Field<u64>,
    pub max_depth: Field<u64>,
    pub weight: Field<u32>,
    pub budget_cents: Field<u64>,
    pub budget_period: Field<BudgetPeriod>,
    pub max_queues: Field<u64>,
    pub max_types: Field<u64>,
    pub max_lanes: Field<u64>,
    pub max_concurrency_keys: Field<u64>,
}

impl TenantPatch {
    /// The settings after the change.
    pub fn applied_to(&self, mut settings: TenantSettings) -> TenantSettings {
        self.max_running.apply(&mut settings.max_running);
        self.max_depth.apply(&mut settings.max_depth);
        self.weight.apply(&mut settings.weight);
        self.budget_cents.apply(&mut settings.budget_cents);
        self.budget_period.apply(&mut settings.budget_period);
        self.max_queues.apply(&mut settings.max_queues);
        self.max_types.apply(&mut settings.max_types);
        self.max_lanes.apply(&mut settings.max_lanes);
        self.max_concurrency_keys.apply(&mut settings.max_concurrency_keys);
        settings
    }
}

/// A change that replaces all fields.
impl From<TenantSettings> for TenantPatch {
    fn from(all: TenantSettings) -> TenantPatch {
        TenantPatch {
            max_running: all.max_running.into(),
            max_depth: all.max_depth.into(),
            weight: all.weight.into(),
            budget_cents: all.budget_cents.into(),
            budget_period: all.budget_period.into(),
            max_queues: all.max_queues.into(),
            max_types: all.max_types.into(),
            max_lanes: all.max_lanes.into(),
            max_concurrency_keys: all.max_concurrency_keys.into(),
        }
    }
}

/// Changes to the settings of one queue, type or tenant.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsPatch {
    /// A queue's settings: for the caller's tenant, or for all tenants by an admin.
    Queue(QueueName, QueuePatch),
    /// A type's settings; admins only.
    Type(JobType, TypePatch),
    /// A tenant's settings; admins only.
    Tenant(Tenant, TenantPatch),
}
