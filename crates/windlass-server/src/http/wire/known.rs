//! Whether a name is used: queues, types and tenants exist from their first job on.

use schemars::JsonSchema;
use serde::Serialize;
use windlass::store::caller::Caller;
use windlass::store::query::known::{KnownNames, Named};

use crate::http::app::App;
use crate::http::reply::error::ApiError;

/// Whether a name is known, and similar names.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct KnownView {
    /// Whether a job, setting, pause, schedule, worker or key uses the name; for an action, whether one did before.
    known: bool,
    /// If the name is unknown: similar known names, the closest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    similar: Vec<String>,
}

impl KnownView {
    /// For an object from a list, which is always known.
    pub(crate) fn listed() -> KnownView {
        KnownView { known: true, similar: Vec::new() }
    }

    /// Looks up a name.
    pub(crate) async fn of(app: &App, caller: &Caller, named: Named) -> Result<KnownView, ApiError> {
        let KnownNames { is_known, similar } = app.store().known(caller, named).await?;
        Ok(KnownView { known: is_known, similar })
    }
}
