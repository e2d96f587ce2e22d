//! Signing secrets by tenant. They are read for every call, so that a rotation applies at once; the store caches them.

use windlass::job::{Failure, Tenant};
use windlass::store::Store;
use windlass::store::caller::Caller;

use super::signature::{Endpoint, SigningKey};

/// The secrets of all tenants; cheap to clone.
#[derive(Clone)]
pub struct SigningKeys(Store);

impl SigningKeys {
    /// The secrets of this store.
    pub fn new(store: Store) -> SigningKeys {
        SigningKeys(store)
    }

    /// The signing keys of a tenant's endpoint, at least one.
    ///
    /// # Errors
    /// A temporary failure if the store fails or has no readable secret: nothing is sent unsigned.
    pub async fn keys(&self, tenant: &Tenant, endpoint: &Endpoint) -> Result<Vec<SigningKey>, Failure> {
        let unsigned = |why: String| {
            Failure::temporary(format!("nothing is sent unsigned, and {why}")).with_code("unsigned")
        };
        let secrets = self.0.webhook_secrets(&Caller::system(), Some(tenant.clone())).await;
        let secrets = secrets.map_err(|error| unsigned(format!("there is no secret: {error}")))?;
        let derived = secrets.iter().filter_map(|secret| endpoint.secret(secret.reveal()));
        let keys: Vec<SigningKey> = derived.filter_map(|secret| SigningKey::parse(&secret)).collect();
        if keys.is_empty() {
            return Err(unsigned(format!("the secret of tenant {tenant} is not valid: rotate it")));
        }
        Ok(keys)
    }
}
