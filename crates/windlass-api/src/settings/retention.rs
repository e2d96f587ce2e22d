//! Retention in the API: how long jobs are kept, by final state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::settings::Retention;
use windlass_core::settings::patch::{Field, RetentionPatch};
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

impl From<RetentionBody> for RetentionPatch {
    fn from(body: RetentionBody) -> RetentionPatch {
        RetentionPatch {
            completed: body.completed.map(|span| span.0),
            failed: body.failed.map(|span| span.0),
            dead_letter: body.dead_letter.map(|span| span.0),
            cancelled: body.cancelled.map(|span| span.0),
        }
    }
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

impl From<Retention> for RetentionView {
    fn from(set: Retention) -> RetentionView {
        RetentionView {
            completed: set.completed.map(Span),
            failed: set.failed.map(Span),
            dead_letter: set.dead_letter.map(Span),
            cancelled: set.cancelled.map(Span),
        }
    }
}

impl From<RetentionPatch> for RetentionBody {
    fn from(patch: RetentionPatch) -> RetentionBody {
        RetentionBody {
            completed: patch.completed.map(Span),
            failed: patch.failed.map(Span),
            dead_letter: patch.dead_letter.map(Span),
            cancelled: patch.cancelled.map(Span),
        }
    }
}

impl From<RetentionView> for Retention {
    fn from(shown: RetentionView) -> Retention {
        let time = |span: Option<Span>| span.map(|span| span.0);
        Retention {
            completed: time(shown.completed),
            failed: time(shown.failed),
            dead_letter: time(shown.dead_letter),
            cancelled: time(shown.cancelled),
        }
    }
}
