//! The secrets that webhooks are signed with, one per tenant, made when first asked for. Signing and sending is done by
//! whoever delivers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Store;
use super::caller::{Caller, Permission};
use super::command::callback::{secret_key, webhook_secret};
use super::config::parse;
use super::engine::DocumentKind;
use super::task::Kind;
use super::unit::Unit;
use super::view::View;
use crate::error::ActError;
use crate::job::Tenant;

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

impl Store {
    /// The secret that a tenant's webhooks are signed with, made if there was none; for operators and admins. Unless they
    /// name a tenant it is their own, or the default one.
    pub async fn webhook_secret(
        &self,
        caller: &Caller,
        tenant: Option<Tenant>,
    ) -> Result<WebhookSecret, ActError> {
        caller.must(Permission::Configure)?;
        let tenant = tenant.or_else(|| caller.tenant.clone()).unwrap_or_default();
        if !caller.sees(&tenant) {
            caller.must(Permission::Administer)?;
        }
        let key = secret_key(&tenant);
        let known = self
            .read("webhook_secret", move |view: &mut View<'_>| view.db.document(DocumentKind::Secret, &key))
            .await?;
        if let Some(known) = known {
            return Ok(parse(&known.body)?);
        }
        let work = move |unit: &mut Unit<'_>| webhook_secret(unit, &tenant);
        Ok(self.write("webhook_secret", Kind::Ordinary, work).await?)
    }
}
