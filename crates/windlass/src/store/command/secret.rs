//! Signing secrets: the first one of a tenant, and the next. The text itself is in no audit record.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::record::Cause;
use crate::audit::AuditEvent;
use crate::entropy::Entropy;
use crate::error::{ActError, Denied, StoreError};
use crate::job::Tenant;
use crate::store::caller::{Caller, Permission};
use crate::store::config::encode;
use crate::store::engine::DocumentKind;
use crate::store::secrets::SigningSecrets;
use crate::store::unit::Unit;

/// Whether somebody may see and replace a tenant's secrets.
pub(crate) fn may(caller: &Caller, tenant: &Tenant) -> Result<(), Denied> {
    caller.must(if caller.sees(tenant) { Permission::Configure } else { Permission::Administer })
}

/// The secrets in force; the first one is made if there is none.
pub(crate) fn first(unit: &mut Unit<'_>, caller: &Caller, tenant: &Tenant) -> Result<Vec<String>, ActError> {
    may(caller, tenant)?;
    if let Some(there) = unit.config()?.secrets.get(tenant) {
        return Ok(there.in_force(unit.now));
    }
    let secrets = SigningSecrets { current: text(&unit.env.entropy), since: unit.now, previous: None };
    put(unit, caller, tenant, &secrets, AuditEvent::SecretCreated)
}

/// A new secret before the one in force.
pub(crate) fn rotate(unit: &mut Unit<'_>, caller: &Caller, tenant: &Tenant) -> Result<Vec<String>, ActError> {
    may(caller, tenant)?;
    let previous = unit.config()?.secrets.get(tenant).map(|there| there.current.clone());
    let secrets = SigningSecrets { current: text(&unit.env.entropy), since: unit.now, previous };
    put(unit, caller, tenant, &secrets, AuditEvent::SecretRotated)
}

fn put(
    unit: &mut Unit<'_>,
    caller: &Caller,
    tenant: &Tenant,
    secrets: &SigningSecrets,
    event: AuditEvent,
) -> Result<Vec<String>, ActError> {
    let put: Result<(), StoreError> =
        unit.put_document(DocumentKind::Secret, tenant.as_str(), Some(&encode(secrets)), |config| {
            config.secrets.insert(tenant.clone(), secrets.clone());
        });
    put?;
    let context = json!({"actor_id": caller.id, "tenant": tenant});
    unit.record_operation(event, tenant.clone(), &Cause::caller(caller, None), &context);
    Ok(secrets.in_force(unit.now))
}

/// 256 random bits in the form of Standard Webhooks.
fn text(entropy: &Entropy) -> String {
    let halves = [entropy.bits().to_be_bytes(), entropy.bits().to_be_bytes()];
    format!("whsec_{}", STANDARD.encode(halves.concat()))
}
