//! Alerts visible to a caller: those of other tenants, and those about all tenants, do not exist for it.

use crate::error::StoreError;
use crate::job::Tenant;
use crate::store::caller::Caller;
use crate::store::documents::alerts::{Alert, key};
use crate::store::documents::config::parse;
use crate::store::documents::tenant_object::AlertRef;
use crate::store::engine::{DocumentKind, Read};
use crate::store::tx::read_tx::ReadTx;

/// The alert of this name, if the caller can see it.
pub(crate) fn get(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    which: &AlertRef,
) -> Result<Option<Alert>, StoreError> {
    Ok(find(tx.db, caller, which)?.map(|alert| seen(caller, alert)))
}

/// All alerts this caller can see, by tenant and name.
pub(crate) fn all(tx: &mut ReadTx<'_>, caller: &Caller) -> Result<Vec<Alert>, StoreError> {
    let own = stored(tx.db)?.into_iter().filter(|alert| is_visible(caller, alert.tenant.as_ref()));
    Ok(own.map(|alert| seen(caller, alert)).collect())
}

/// Every alert of the store.
pub(crate) fn stored(db: &mut (impl Read + ?Sized)) -> Result<Vec<Alert>, StoreError> {
    db.documents(DocumentKind::Alert)?.iter().map(|document| parse(&document.body)).collect()
}

/// The alert of this name in the given tenant, or else in the caller's. For a caller of all tenants that names none,
/// the alert about all tenants, or the only one of that name.
pub(crate) fn find(
    db: &mut (impl Read + ?Sized),
    caller: &Caller,
    which: &AlertRef,
) -> Result<Option<Alert>, StoreError> {
    let tenant = which.tenant.as_ref().or(caller.tenant.as_ref());
    if !is_visible(caller, tenant) {
        return Ok(None);
    }
    let document = db.document(DocumentKind::Alert, &key(tenant, &which.name))?;
    if let Some(document) = document {
        return Ok(Some(parse(&document.body)?));
    }
    if tenant.is_some() {
        return Ok(None);
    }
    let mut named = stored(db)?.into_iter().filter(|alert| alert.name == which.name);
    Ok(named.next().filter(|_| named.next().is_none()))
}

fn is_visible(caller: &Caller, tenant: Option<&Tenant>) -> bool {
    match tenant {
        Some(tenant) => caller.can_see(tenant),
        None => caller.tenant.is_none(),
    }
}

/// An alert as this caller sees it. Without permission to read payloads it has the host of its URL only: the path may
/// be a secret.
fn seen(caller: &Caller, mut alert: Alert) -> Alert {
    if !caller.reads_settings_payload() {
        alert.rule.url = alert.rule.receiver();
        alert.is_redacted = true;
    }
    alert
}
