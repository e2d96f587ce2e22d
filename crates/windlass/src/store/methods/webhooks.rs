//! The signing secrets of webhooks.

use crate::error::{ActionError, Forbidden};
use crate::job::Tenant;
use crate::store::Store;
use crate::store::caller::{Caller, Permission};
use crate::store::command::effects::callback;
use crate::store::documents::config::parse;
use crate::store::documents::webhook::{WebhookSecret, WebhookSecrets};
use crate::store::engine::DocumentKind;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

impl Store {
    /// The signing secrets of a tenant's webhooks, the newest first; created if there was none. For operators and
    /// admins. Without a tenant: the caller's own, or the default tenant.
    pub async fn webhook_secrets(
        &self,
        caller: &Caller,
        tenant: Option<Tenant>,
    ) -> Result<Vec<WebhookSecret>, ActionError> {
        let tenant = readable_tenant(caller, tenant)?;
        let (key, now) = (callback::secret_key(&tenant), self.env.clock.now());
        let known = self
            .read("webhook_secrets", move |tx: &mut ReadTx<'_>| tx.db.document(DocumentKind::Secret, &key))
            .await?;
        if let Some(known) = known {
            return Ok(parse::<WebhookSecrets>(&known.body)?.in_force(now));
        }
        let work = move |tx: &mut WriteTx<'_>| callback::webhook_secrets(tx, &tenant);
        Ok(self.write("webhook_secrets", Kind::Ordinary, work).await?)
    }

    /// Creates a new secret for a tenant and returns the same as [`webhook_secrets`](Store::webhook_secrets): the
    /// previous one also signs for a day.
    pub async fn rotate_webhook_secret(
        &self,
        caller: &Caller,
        tenant: Option<Tenant>,
    ) -> Result<Vec<WebhookSecret>, ActionError> {
        let (caller, tenant) = (caller.clone(), readable_tenant(caller, tenant)?);
        let work = move |tx: &mut WriteTx<'_>| callback::rotate_webhook_secret(tx, &caller, &tenant);
        Ok(self.write("rotate_webhook_secret", Kind::Ordinary, work).await?)
    }
}

/// The tenant, if the caller may read its secrets.
fn readable_tenant(caller: &Caller, tenant: Option<Tenant>) -> Result<Tenant, Forbidden> {
    let tenant = tenant.or_else(|| caller.tenant.clone()).unwrap_or_default();
    caller.require(if caller.can_see(&tenant) { Permission::Configure } else { Permission::Administer })?;
    Ok(tenant)
}
