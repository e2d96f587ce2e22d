//! The signing secrets of webhooks, one per tenant, created on first use. Signing and sending is done by the server.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::limits;

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
