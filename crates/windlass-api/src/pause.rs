//! Pauses in the API: of queues, workers, and of processing as a whole, of a tenant or a type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::job::{JobType, Tenant};
use windlass_core::settings::PauseMode;
use windlass_core::skip_none;

use crate::expires::Expiry;
use crate::known::KnownView;
use crate::text::Text;
use crate::time::Moment;

/// How to pause.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PauseRequest")]
#[serde(default, deny_unknown_fields)]
pub struct PauseBody {
    /// What happens to running jobs; `graceful` if not given.
    pub mode: Option<PauseMode>,
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// When it resumes automatically: a duration or a time.
    pub expires: Option<Expiry>,
}

/// An active pause.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Who paused it.
    pub by: String,
    /// When.
    pub at: Moment,
    /// The reason given.
    pub reason: Option<String>,
    /// `graceful` or `aggressive`.
    #[schemars(with = "String")]
    pub mode: PauseMode,
    /// When it resumes automatically.
    pub expires_at: Option<Moment>,
}

/// A resume: who and when.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Resumption {
    /// Who resumed it.
    pub by: String,
    /// When.
    pub at: Moment,
    /// The reason given.
    pub reason: Option<String>,
}

/// Whether jobs are processed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Processing")]
pub struct Gate {
    /// False while processing is paused for all tenants and types.
    pub online: bool,
    /// The reason given.
    pub reason: Option<String>,
    /// Who paused it.
    pub by: Option<String>,
    /// Since when.
    pub since: Option<Moment>,
    /// When processing resumes automatically.
    pub expires_at: Option<Moment>,
    /// Tenants and types whose processing is paused.
    pub scopes: Vec<GateScope>,
}

/// A tenant or type whose processing is paused.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PausedScope")]
pub struct GateScope {
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text<Tenant>>,
    /// The type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<Text<JobType>>,
    /// The reason given.
    pub reason: Option<String>,
    /// Who paused it.
    pub by: String,
    /// Since when.
    pub since: Moment,
    /// When processing resumes automatically.
    pub expires_at: Option<Moment>,
}

/// What to pause.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PauseProcessingRequest")]
#[serde(default, deny_unknown_fields)]
pub struct OfflineBody {
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// Only this tenant.
    pub tenant: Option<Text<Tenant>>,
    /// Only this type.
    pub r#type: Option<Text<JobType>>,
    /// When processing resumes automatically: a duration or a time.
    pub expires: Option<Expiry>,
}

/// What to resume.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResumeProcessingRequest")]
#[serde(default, deny_unknown_fields)]
pub struct OnlineBody {
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// Only this tenant.
    pub tenant: Option<Text<Tenant>>,
    /// Only this type.
    pub r#type: Option<Text<JobType>>,
}

/// The processing state after an action.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-variant-of" = "Processing"))]
pub struct GateResponse {
    /// The state.
    #[serde(flatten)]
    pub gate: Gate,
    /// Whether the action changed anything; only in the response to an action.
    pub changed: bool,
    /// For a tenant or type: whether the name is known.
    #[serde(flatten)]
    pub known: Option<KnownView>,
}
