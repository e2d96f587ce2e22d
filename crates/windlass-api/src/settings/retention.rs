//! Retention in the API: how long jobs are kept, by final state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::settings::patch::Field;
use windlass_core::skip_none;

use crate::time::Span;

/// Changes of a retention; fields that are not given stay, null clears a field.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RetentionChanges")]
#[serde(default, deny_unknown_fields)]
pub struct RetentionBody {
    /// Of completed jobs.
    pub completed: Field<Span>,
    /// Of failed jobs.
    pub failed: Field<Span>,
    /// Of dead letters.
    pub dead_letter: Field<Span>,
    /// Of cancelled jobs.
    pub cancelled: Field<Span>,
}

/// How long final jobs are kept, by state; null means not set.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Retention")]
pub struct RetentionView {
    /// Of completed jobs.
    pub completed: Option<Span>,
    /// Of failed jobs.
    pub failed: Option<Span>,
    /// Of dead letters.
    pub dead_letter: Option<Span>,
    /// Of cancelled jobs.
    pub cancelled: Option<Span>,
}

/// The store's retention after a change.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-variant-of" = "Retention"))]
pub struct ChangedRetention {
    #[allow(missing_docs, reason = "it is named for what it is")]
    #[serde(flatten)]
    pub retention: RetentionView,
    /// Whether the action changed anything; only in the response to an action.
    pub changed: bool,
}
