//! Settings of queues, types and tenants in the API. Fields that are not given stay; null clears a field.

mod convert;
pub mod push;
pub mod retention;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::audit::AuditLevel;
use windlass_core::settings::patch::Field;
use windlass_core::settings::{BudgetPeriod, FairBy};
use windlass_core::skip_none;

use crate::priority::PriorityInput;
use crate::push::PushWire;
use crate::retention::{RetentionBody, RetentionView};
use crate::retry::{EffectiveRetry, Retry};
use crate::time::Span;

/// Changes of a queue's settings.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QueueChanges")]
#[serde(default, deny_unknown_fields)]
pub struct QueueBody {
    /// Maximum number of running jobs, across all workers.
    pub max_running: Field<u64>,
    /// Maximum number of running jobs per concurrency key.
    pub max_running_per_key: Field<u64>,
    /// How often its jobs may start.
    pub rate: Field<RateWire>,
    /// How often jobs with the same concurrency key may start.
    pub rate_per_key: Field<RateWire>,
    /// Maximum number of jobs that are not final.
    pub max_depth: Field<u64>,
    /// Shares the queue fairly between these.
    pub fair_by: Field<FairBy>,
    /// Waiting time that raises a job's priority by one point.
    pub aging: Field<Span>,
    /// Which audit records are kept.
    pub audit: Field<AuditLevel>,
    /// Retry policy.
    pub retry: Field<Retry>,
    /// Time limits.
    pub timeouts: Field<TimeoutsBody>,
    /// Priority, 0 to 100.
    pub priority: Field<PriorityInput>,
    /// Push target, if a server pushes the queue's jobs.
    pub push: Field<PushWire>,
    /// How long its final jobs are kept.
    pub retention: Field<RetentionBody>,
}

/// Changes of time limits.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TimeoutChanges")]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutsBody {
    /// Maximum duration of an attempt.
    pub execution: Field<Span>,
    /// How long a lease lasts without a heartbeat.
    pub lease: Field<Span>,
    /// Another name for `lease`.
    pub visibility: Field<Span>,
    /// Maximum time from submission to a final state.
    pub lifetime: Field<Span>,
    /// Maximum time from when a job can be claimed to its first start.
    pub start: Field<Span>,
    /// Upper limit for the duration of an attempt; applies to jobs with a longer one.
    pub max_execution: Field<Span>,
}

/// How often jobs may start.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Rate")]
#[serde(deny_unknown_fields)]
pub struct RateWire {
    /// How many.
    pub count: u64,
    /// In which time.
    pub per: Span,
}

/// A queue's settings; null means not set.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QueueSettingsView {
    /// Maximum number of running jobs, across all workers.
    pub max_running: Option<u64>,
    /// Maximum number of running jobs per concurrency key.
    pub max_running_per_key: Option<u64>,
    /// How often its jobs may start.
    #[serde(default, deserialize_with = "crate::values::lenient::known_or_null")]
    #[schemars(!default)]
    pub rate: Option<RateWire>,
    /// How often jobs with the same concurrency key may start.
    #[serde(default, deserialize_with = "crate::values::lenient::known_or_null")]
    #[schemars(!default)]
    pub rate_per_key: Option<RateWire>,
    /// Maximum number of jobs that are not final.
    pub max_depth: Option<u64>,
    /// Shares the queue fairly between these.
    pub fair_by: Option<FairBy>,
    /// Waiting time that raises a job's priority by one point.
    pub aging: Option<Span>,
    /// Which audit records are kept.
    pub audit: Option<AuditLevel>,
    /// Retry policy.
    pub retry: Option<EffectiveRetry>,
    /// Time limits.
    pub timeouts: TimeoutsView,
    /// Priority, 0 to 100.
    pub priority: Option<PriorityInput>,
    /// Push target, if a server pushes the queue's jobs.
    #[serde(default, deserialize_with = "crate::values::lenient::known_or_null")]
    #[schemars(!default)]
    pub push: Option<PushWire>,
    /// How long its final jobs are kept.
    pub retention: RetentionView,
}

/// Time limits; null means not set.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TimeoutSettings")]
pub struct TimeoutsView {
    /// Maximum duration of an attempt.
    pub execution: Option<Span>,
    /// How long a lease lasts without a heartbeat.
    pub lease: Option<Span>,
    /// Maximum time from submission to a final state.
    pub lifetime: Option<Span>,
    /// Maximum time from when a job can be claimed to its first start.
    pub start: Option<Span>,
    /// Upper limit for the duration of an attempt.
    pub max_execution: Option<Span>,
}

/// Changes of a type's settings.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TypeChanges")]
#[serde(default, deny_unknown_fields)]
pub struct TypeBody {
    /// Maximum number of running jobs, across all workers.
    pub max_running: Field<u64>,
    /// How often its jobs may start.
    pub rate: Field<RateWire>,
    /// Retry policy.
    pub retry: Field<Retry>,
    /// Time limits.
    pub timeouts: Field<TimeoutsBody>,
    /// Priority, 0 to 100.
    pub priority: Field<PriorityInput>,
    /// Custom event name for a success in the audit trail.
    pub success_event: Field<String>,
    /// Custom event name for exhausted retries in the audit trail.
    pub exhausted_event: Field<String>,
    /// How long its final jobs are kept; takes precedence over their queue's setting.
    pub retention: Field<RetentionBody>,
    /// JSON Schema of payloads, checked at submission: at most 64 KiB, 32 levels, without references to other documents.
    pub payload_schema: Field<serde_json::Value>,
    /// JSON Schema of results, checked at completion.
    pub result_schema: Field<serde_json::Value>,
}

/// A type's settings; null means not set.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TypeSettingsView {
    /// Maximum number of running jobs, across all workers.
    pub max_running: Option<u64>,
    /// How often its jobs may start.
    #[serde(default, deserialize_with = "crate::values::lenient::known_or_null")]
    #[schemars(!default)]
    pub rate: Option<RateWire>,
    /// Retry policy.
    pub retry: Option<EffectiveRetry>,
    /// Time limits.
    pub timeouts: TimeoutsView,
    /// Priority, 0 to 100.
    pub priority: Option<PriorityInput>,
    /// Custom event name for a success in the audit trail.
    pub success_event: Option<String>,
    /// Custom event name for exhausted retries in the audit trail.
    pub exhausted_event: Option<String>,
    /// How long its final jobs are kept.
    pub retention: RetentionView,
    /// JSON Schema of payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<serde_json::Value>,
    /// JSON Schema of results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<serde_json::Value>,
}

/// Changes of a tenant's settings.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TenantChanges")]
#[serde(default, deny_unknown_fields)]
pub struct TenantBody {
    /// Maximum number of running jobs, across all workers.
    pub max_running: Field<u64>,
    /// Maximum number of jobs that are not final.
    pub max_depth: Field<u64>,
    /// Share of a fair queue: how many jobs it may start per turn.
    pub weight: Field<u32>,
    /// Maximum cost of its jobs per period.
    pub budget_cents: Field<u64>,
    /// The budget period; a month if not set.
    pub budget_period: Field<BudgetPeriod>,
    /// Maximum number of queues with jobs; 10000 if not set.
    pub max_queues: Field<u64>,
    /// Maximum number of types with jobs; 10000 if not set.
    pub max_types: Field<u64>,
    /// Maximum number of pairs of a queue and a type with jobs; 20000 if not set.
    pub max_lanes: Field<u64>,
    /// Maximum number of concurrency keys of jobs that are not final; 100000 if not set.
    pub max_concurrency_keys: Field<u64>,
}

/// A tenant's settings; null means not set.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TenantSettingsView {
    /// Maximum number of running jobs, across all workers.
    pub max_running: Option<u64>,
    /// Maximum number of jobs that are not final.
    pub max_depth: Option<u64>,
    /// Share of a fair queue: how many jobs it may start per turn.
    pub weight: Option<u32>,
    /// Maximum cost of its jobs per period.
    pub budget_cents: Option<u64>,
    /// The budget period; a month if not set.
    pub budget_period: Option<BudgetPeriod>,
    /// Maximum number of queues with jobs.
    pub max_queues: Option<u64>,
    /// Maximum number of types with jobs.
    pub max_types: Option<u64>,
    /// Maximum number of pairs of a queue and a type with jobs.
    pub max_lanes: Option<u64>,
    /// Maximum number of concurrency keys of jobs that are not final.
    pub max_concurrency_keys: Option<u64>,
}
