//! Secrets by which receivers of callbacks and pushes know who calls (M95), one per tenant, made when first asked for. Unlike
//! API keys they are kept as they are: signing needs the secret itself. What is done with them is the server's business.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Store;
use super::caller::Caller;
use super::command::secret;
use super::task::Kind;
use super::unit::Unit;
use super::view::View;
use crate::clock::Timestamp;
use crate::error::{ActError, StoreError};
use crate::job::Tenant;
use crate::limits;

/// A tenant's secrets, as kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecrets {
    /// The text of the newest one, `whsec_…`.
    pub current: String,
    /// Since when.
    pub since: Timestamp,
    /// The one before it, which signs as well for a while: receivers need time to learn the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl SigningSecrets {
    /// The texts of those in force, the newest first.
    pub fn in_force(&self, now: Timestamp) -> Vec<String> {
        let is_overlapping = now.since(self.since) < limits::SECRET_OVERLAP;
        let previous = self.previous.clone().filter(|_| is_overlapping);
        std::iter::once(self.current.clone()).chain(previous).collect()
    }
}

/// Never shows them.
impl fmt::Debug for SigningSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningSecrets(since {})", self.since)
    }
}

impl Store {
    /// The texts of the secrets that sign what is sent for a tenant, the newest first; the first call makes one. For its
    /// operators and for admins.
    ///
    /// # Errors
    /// [`ActError::Denied`] for anybody else.
    pub async fn signing_secrets(&self, caller: &Caller, tenant: &Tenant) -> Result<Vec<String>, ActError> {
        secret::may(caller, tenant)?;
        let (asked, now) = (tenant.clone(), self.env.clock.now());
        let work = move |view: &mut View<'_>| -> Result<_, StoreError> {
            Ok(view.config()?.secrets.get(&asked).map(|secrets| secrets.in_force(now)))
        };
        if let Some(found) = self.read("secrets", work).await? {
            return Ok(found);
        }
        let (caller, tenant) = (caller.clone(), tenant.clone());
        let work = move |unit: &mut Unit<'_>| secret::first(unit, &caller, &tenant);
        self.write("first_secret", Kind::Ordinary, work).await
    }

    /// Makes a new secret for a tenant and answers with those in force: the one before signs beside it for a day.
    ///
    /// # Errors
    /// [`ActError::Denied`] for anybody but its operators and admins.
    pub async fn rotate_signing_secret(
        &self,
        caller: &Caller,
        tenant: &Tenant,
    ) -> Result<Vec<String>, ActError> {
        let (caller, tenant) = (caller.clone(), tenant.clone());
        let work = move |unit: &mut Unit<'_>| secret::rotate(unit, &caller, &tenant);
        self.write("rotate_secret", Kind::Ordinary, work).await
    }
}
