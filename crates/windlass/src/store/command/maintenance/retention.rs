//! Retention of jobs: one setting per store, regardless of how many processes serve it.

use serde_json::json;

use crate::audit::AuditEvent;
use crate::error::{ActionError, StoreError};
use crate::job::Tenant;
use crate::settings::Retention;
use crate::settings::patch::RetentionPatch;
use crate::store::caller::{Caller, Permission};
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::config::{RETENTION_KEY, encode};
use crate::store::engine::DocumentKind;
use crate::store::environment::StoreOptions;
use crate::store::tx::write_tx::WriteTx;

/// The result of changing the retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionSet {
    /// The new retention; all states are set.
    pub retention: Retention,
    /// Whether it differs from the previous one.
    pub is_changed: bool,
}

/// Stores the retention this process was started with, if none is stored yet; returns the effective one.
pub(crate) fn seed(tx: &mut WriteTx<'_>) -> Result<Retention, StoreError> {
    let stored = tx.config()?.retention;
    let retention = stored.or(tx.env.options.retention());
    if stored != retention {
        keep(tx, retention)?;
        // The defaults are not a caller's choice: every store would begin with a record of them.
        if retention != StoreOptions::default().retention() {
            let context = json!({"retention": retention, "before": stored});
            let actor = RecordActor::system();
            tx.record_operation(AuditEvent::RetentionConfigured, Tenant::default(), &actor, &context);
        }
    }
    Ok(retention)
}

/// Changes the retention. Cleared values revert to those this process was started with.
pub(crate) fn set(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    patch: &RetentionPatch,
) -> Result<RetentionSet, ActionError> {
    caller.require(Permission::Administer)?;
    let default = tx.env.options.retention();
    let before = tx.config()?.retention.or(default);
    let changed = patch.applied_to(before);
    changed.check()?;
    let retention = changed.or(default);
    if retention == before {
        return Ok(RetentionSet { retention, is_changed: false });
    }
    keep(tx, retention)?;
    let context = json!({"actor_id": caller.id, "retention": retention, "before": before});
    let cause = RecordActor::caller(caller, None);
    tx.record_operation(AuditEvent::RetentionConfigured, Tenant::default(), &cause, &context);
    Ok(RetentionSet { retention, is_changed: true })
}

fn keep(tx: &mut WriteTx<'_>, retention: Retention) -> Result<(), StoreError> {
    tx.put_document(DocumentKind::Retention, RETENTION_KEY, Some(&encode(&retention)), |config| {
        config.retention = retention;
    })
}
