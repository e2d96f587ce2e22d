//! JSON schemas of the words that the HTTP API uses: an enumeration of texts each, which generated clients read best; and of
//! changes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::alert::{AlertFormat, AlertStatus};
use crate::audit::AuditLevel;
use crate::job::{Category, JitterMode, Strategy};
use crate::schedule::{CatchUp, Overlap};
use crate::settings::patch::Field;
use crate::settings::{BudgetPeriod, FairBy, PauseMode};

/// A change of a field is its value, or null.
impl<T: JsonSchema> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        Option::<T>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Option::<T>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}

macro_rules! schema_of_words {
    ($($type:ident, $name:literal, $description:literal, $words:expr;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "description": $description, "enum": $words})
            }
        }
    )*};
}

schema_of_words! {
    Category, "ErrorCategory", "The category of an error.", Category::ALL.map(Category::as_str);
    Strategy, "BackoffStrategy", "How delays grow.", ["constant", "linear", "exponential", "custom"];
    CatchUp, "MissedRuns", "What happens to missed runs.", ["skip", "once", "all"];
    Overlap, "Overlap", "What happens if the previous run is not finished.", ["allow", "skip", "cancel"];
    PauseMode, "PauseMode", "What happens to running jobs.", ["graceful", "aggressive"];
    FairBy, "Fairness", "Between what a queue is shared fairly.", ["tenant"];
    AuditLevel, "AuditLevel", "Which audit records are kept.", ["all", "outcomes", "operators"];
    BudgetPeriod, "BudgetPeriod", "The budget period.", ["day", "month"];
    AlertFormat, "AlertFormat", "The format of an alert's messages.", ["webhook", "slack"];
    AlertStatus, "AlertStatus", "Whether an alert fires.", ["ok", "firing"];
    JitterMode, "JitterMode", "Source of the jitter.", ["random", "hashed"];
}
