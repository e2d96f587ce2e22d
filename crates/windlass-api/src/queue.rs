//! Queues, job types and tenants in the API, with their counts, rates and settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::job::{JobType, QueueName, Tenant};

use crate::known::KnownView;
use crate::pause::{Pause, Resumption};
use crate::settings::{QueueSettingsView, TenantSettingsView, TypeSettingsView};
use crate::stats::{Counts, QueueRates};
use crate::text::Text;
use crate::time::Span;

/// A queue with its counts, rates and settings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Name.
    pub name: Text<QueueName>,
    /// Whether the name is known.
    #[serde(flatten)]
    pub known: KnownView,
    /// Number of jobs by state.
    pub depth: Counts,
    /// How long the oldest claimable job has waited.
    pub oldest_age: Option<Span>,
    /// Rates.
    pub rates: QueueRates,
    /// Its pause; null if it is not paused.
    pub paused: Option<Pause>,
    /// Its last resume; null if it was never resumed.
    pub resumed: Option<Resumption>,
    /// Settings.
    #[serde(flatten)]
    pub settings: QueueSettingsView,
}

/// Queues by name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QueueList")]
pub struct Queues {
    /// The queues.
    pub queues: Vec<Queue>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// A queue after an action.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-variant-of" = "Queue"))]
pub struct QueueResponse {
    /// The queue.
    #[serde(flatten)]
    pub queue: Queue,
    /// Whether the action changed anything; only in the response to an action.
    pub changed: bool,
    /// Number of resumed jobs, in the response to a resume with `jobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs_resumed: Option<u64>,
}

/// How to resume a queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResumeQueueRequest")]
#[serde(default, deny_unknown_fields)]
pub struct ResumeBody {
    /// The reason, for the audit trail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Also resume the jobs that aggressive pauses of the queue suspended.
    #[serde(deserialize_with = "crate::json::null_as_default")]
    pub jobs: bool,
}

/// A job type with its counts, rates and settings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobType")]
pub struct Type {
    /// Name.
    pub r#type: Text<JobType>,
    /// Whether the name is known.
    #[serde(flatten)]
    pub known: KnownView,
    /// Number of jobs by state.
    pub depth: Counts,
    /// Rates.
    pub rates: QueueRates,
    /// Its pause; null if it is not paused.
    pub paused: Option<Pause>,
    /// Settings.
    #[serde(flatten)]
    pub settings: TypeSettingsView,
}

/// Job types by name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobTypeList")]
pub struct Types {
    /// The types.
    pub types: Vec<Type>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// A job type with its settings, after a change.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChangedType", extend("x-variant-of" = "JobType"))]
pub struct TypeResponse {
    /// Name.
    pub r#type: Text<JobType>,
    /// Whether the name is known.
    #[serde(flatten)]
    pub known: KnownView,
    /// Settings.
    #[serde(flatten)]
    pub settings: TypeSettingsView,
    /// Whether the action changed anything; only in the response to an action.
    pub changed: bool,
}

/// A tenant with its counts, costs and settings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tenant")]
pub struct TenantView {
    /// Name.
    pub tenant: Text<Tenant>,
    /// Whether the name is known.
    #[serde(flatten)]
    pub known: KnownView,
    /// Number of jobs by state.
    pub depth: Counts,
    /// Total cost of its jobs.
    pub cost_cents: i64,
    /// Its pause; null if it is not paused.
    pub paused: Option<Pause>,
    /// Settings.
    #[serde(flatten)]
    pub settings: TenantSettingsView,
}

/// Tenants by name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TenantList")]
pub struct Tenants {
    /// The tenants.
    pub tenants: Vec<TenantView>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// A tenant with its settings, after a change.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChangedTenant", extend("x-variant-of" = "Tenant"))]
pub struct TenantResponse {
    /// Name.
    pub tenant: Text<Tenant>,
    /// Whether the name is known.
    #[serde(flatten)]
    pub known: KnownView,
    /// Settings.
    #[serde(flatten)]
    pub settings: TenantSettingsView,
    /// Whether the action changed anything; only in the response to an action.
    pub changed: bool,
}
