//! The secrets that webhooks are signed with, one per tenant, made when first asked for. Signing and sending is done by
//! whoever delivers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{ActError, Forbidden};
use crate::job::Tenant;
use crate::limits;
use crate::store::Store;
use crate::store::caller::{Caller, Permission};
use crate::store::command::callback::{self, secret_key};
use crate::store::documents::config::parse;
use crate::store::engine::DocumentKind;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// What every such secret begins with; the rest is base64.
const PREFIX: &str = "whsec_";

/// A secret that webhooks are signed with, as Standard Webhooks writes it: `whsec_` and 256 random bits in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    pub(crate) fn new(base64: &str) -> WebhookSecret {
        WebhookSecret(format!("{PREFIX}{base64}"))
    }

    /// The secret itself, for those who sign and those who check.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Shows nothing: a secret is never logged.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

/// A tenant's secrets, as kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebhookSecrets {
    pub(crate) current: WebhookSecret,
    /// Since when it is.
    pub(crate) since: Timestamp,
    /// The one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<WebhookSecret>,
}

impl WebhookSecrets {
    /// Those that sign now, the newest first. The one before signs as well for a while: receivers need time to learn the
    /// new one.
    pub(crate) fn in_force(&self, now: Timestamp) -> Vec<WebhookSecret> {
        let is_overlapping = now.since(self.since) < limits::WEBHOOK_SECRET_OVERLAP;
        let previous = self.previous.clone().filter(|_| is_overlapping);
        std::iter::once(self.current.clone()).chain(previous).collect()
    }
}

impl Store {
    /// The secrets that a tenant's webhooks are signed with, the newest first, made if there was none; for operators and
    /// admins. Unless they name a tenant they are their own, or the default one's.
    pub async fn webhook_secrets(
        &self,
        caller: &Caller,
        tenant: Option<Tenant>,
    ) -> Result<Vec<WebhookSecret>, ActError> {
        let tenant = whose(caller, tenant)?;
        let (key, now) = (secret_key(&tenant), self.env.clock.now());
        let known = self
            .read("webhook_secrets", move |view: &mut ReadTx<'_>| {
                view.db.document(DocumentKind::Secret, &key)
            })
            .await?;
        if let Some(known) = known {
            return Ok(parse::<WebhookSecrets>(&known.body)?.in_force(now));
        }
        let work = move |tx: &mut WriteTx<'_>| callback::webhook_secrets(tx, &tenant);
        Ok(self.write("webhook_secrets", Kind::Ordinary, work).await?)
    }

    /// Makes a new secret for a tenant and answers as [`webhook_secrets`](Store::webhook_secrets) does: the one before signs
    /// beside it for a day.
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

/// The tenant that is meant, if the caller may have its secrets.
fn whose(caller: &Caller, tenant: Option<Tenant>) -> Result<Tenant, Forbidden> {
    let tenant = tenant.or_else(|| caller.tenant.clone()).unwrap_or_default();
    caller.require(if caller.can_see(&tenant) { Permission::Configure } else { Permission::Administer })?;
    Ok(tenant)
}
