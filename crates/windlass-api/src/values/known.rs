//! Whether a name is used: queues, types and tenants exist from their first job on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a name is known, and similar names.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KnownView {
    /// Whether a job, setting, pause, schedule, worker or key uses the name; for an action, whether one did before.
    pub known: bool,
    /// If the name is unknown: similar known names, the closest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<String>,
}

impl KnownView {
    /// For an object from a list, which is always known.
    pub fn listed() -> KnownView {
        KnownView { known: true, similar: Vec::new() }
    }
}
