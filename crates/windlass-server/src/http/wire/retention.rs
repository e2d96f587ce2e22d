//! Retention in the API: how long jobs are kept, by final state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::store::documents::settings::Retention;
use windlass::store::documents::settings::patch::{Field, RetentionPatch};

use super::time::Span;

/// Changes of a retention; fields that are not given stay, null clears a field.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "RetentionChange")]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RetentionBody {
    #[schemars(with = "Option<Span>")]
    completed: Field<Span>,
    #[schemars(with = "Option<Span>")]
    failed: Field<Span>,
    #[schemars(with = "Option<Span>")]
    dead_letter: Field<Span>,
    #[schemars(with = "Option<Span>")]
    cancelled: Field<Span>,
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
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Retention")]
pub(crate) struct RetentionView {
    completed: Option<Span>,
    failed: Option<Span>,
    dead_letter: Option<Span>,
    cancelled: Option<Span>,
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
