//! Whether the store knows a queue, type or tenant by its name.

use windlass::store::caller::Caller;
use windlass::store::{KnownNames, ObjectName};
use windlass_api::known::KnownView;

use crate::http::app::App;
use crate::http::reply::error::ApiError;

/// Whether a name is known, and similar names.
pub(crate) async fn known(app: &App, caller: &Caller, named: ObjectName) -> Result<KnownView, ApiError> {
    let KnownNames { is_known, similar, .. } = app.store().known(caller, named).await?;
    Ok(KnownView { known: is_known, similar })
}
