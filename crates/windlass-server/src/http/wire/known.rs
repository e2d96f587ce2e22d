//! Whether anything has ever used a name: queues, types and tenants come into being with their first job.

use schemars::JsonSchema;
use serde::Serialize;
use windlass::store::caller::Caller;
use windlass::store::query::known::{KnownNames, Named};

use crate::http::app::App;
use crate::http::reply::error::ApiError;

/// Whether a name is known, and what looks like it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct KnownView {
    /// Whether a job, setting, pause, schedule, worker or key names it; of an action, whether one did before it.
    known: bool,
    /// If it is not known: known names that look like it, the closest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    similar: Vec<String>,
}

impl KnownView {
    /// Of something that was found by looking for all that is known.
    pub(crate) fn listed() -> KnownView {
        KnownView { known: true, similar: Vec::new() }
    }

    /// Of this name.
    pub(crate) async fn of(app: &App, caller: &Caller, named: Named) -> Result<KnownView, ApiError> {
        let KnownNames { is_known, similar } = app.store().known(caller, named).await?;
        Ok(KnownView { known: is_known, similar })
    }
}
