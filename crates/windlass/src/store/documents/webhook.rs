//! The signing secrets of webhooks, one per tenant, created on first use. Signing and sending is done by the server.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{ActError, Forbidden};
use crate::job::Tenant;
use crate::limits;
use crate::store::Store;
use crate::store::caller::{Caller, Permission};
use crate::store::command::effects::callback::{self, secret_key};
use crate::store::documents::config::parse;
use crate::store::engine::DocumentKind;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// The prefix of every secret; the rest is base64.
const PREFIX: &str = "whsec_";

/// A webhook signing secret in the format of Standard Webhooks: `whsec_` and 256 random bits in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    pub(crate) fn new(base64: &str) -> WebhookSecret {
        WebhookSecret(format!("{PREFIX}{base64}"))
    }

    /// The secret itself, for signing and verifying.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Redacted: a secret is never logged.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

/// A tenant's stored secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebhookSecrets {
    pub(crate) current: WebhookSecret,
    /// When it was created.
    pub(crate) since: Timestamp,
    /// The previous secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<WebhookSecret>,
}

impl WebhookSecrets {
    /// The secrets that sign now, the newest first. The previous one also signs for a while, because receivers need
    /// time to switch.
    pub(crate) fn in_force(&self, now: Timestamp) -> Vec<WebhookSecret> {
        let is_overlapping = now.since(self.since) < limits::WEBHOOK_SECRET_OVERLAP;
        let previous = self.previous.clone().filter(|_| is_overlapping);
        std::iter::once(self.current.clone()).chain(previous).collect()
    }
}

impl Store {
    /// The signing secrets of a tenant's webhooks, the newest first; created if there was none. For operators and
    /// admins. Without a tenant: the caller's own, or the default tenant.
    pub async fn webhook_secrets(
        &self,
        caller: &Caller,
        tenant: Option<Tenant>,
    ) -> Result<Vec<WebhookSecret>, ActError> {
        let tenant = whose(caller, tenant)?;
        let (key, now) = (secret_key(&tenant), self.env.clock.now());
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
    ) -> Result<Vec<WebhookSecret>, ActError> {
        let (caller, tenant) = (caller.clone(), whose(caller, tenant)?);
        let work = move |tx: &mut WriteTx<'_>| callback::rotate_webhook_secret(tx, &caller, &tenant);
        Ok(self.write("rotate_webhook_secret", Kind::Ordinary, work).await?)
    }
}

/// The tenant, if the caller may read its secrets.
fn whose(caller: &Caller, tenant: Option<Tenant>) -> Result<Tenant, Forbidden> {
    let tenant = tenant.or_else(|| caller.tenant.clone()).unwrap_or_default();
    caller.require(if caller.can_see(&tenant) { Permission::Configure } else { Permission::Administer })?;
    Ok(tenant)
}
