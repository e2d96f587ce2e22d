//! The secrets that calls are signed with, by tenant. They are asked for at every call, so that a secret that was replaced
//! counts at once; the store keeps them at hand.

use windlass::job::{Failure, Tenant};
use windlass::store::Store;
use windlass::store::caller::Caller;

use super::signature::{Endpoint, SigningKey};

/// The secrets of all tenants; cheap to clone.
#[derive(Clone)]
pub struct SigningKeys(Store);

impl SigningKeys {
    /// Those that this store keeps.
    pub fn new(store: Store) -> SigningKeys {
        SigningKeys(store)
    }

    /// The keys by which one of a tenant's endpoints knows who calls, at least one.
    ///
    /// # Errors
    /// A temporary failure if the store is in trouble or has no secret that can be read: nothing is sent unsigned.
    pub async fn keys(&self, tenant: &Tenant, endpoint: &Endpoint) -> Result<Vec<SigningKey>, Failure> {
        let unsigned = |why: String| {
            Failure::temporary(format!("nothing is sent unsigned, and {why}")).with_code("unsigned")
        };
        let secrets = self.0.webhook_secrets(&Caller::system(), Some(tenant.clone())).await;
        let secrets = secrets.map_err(|error| unsigned(format!("there is no secret: {error}")))?;
        let derived = secrets.iter().filter_map(|secret| endpoint.secret(secret.reveal()));
        let keys: Vec<SigningKey> = derived.filter_map(|secret| SigningKey::parse(&secret)).collect();
        if keys.is_empty() {
            return Err(unsigned(format!("the secret of tenant {tenant} is none: rotate it")));
        }
        Ok(keys)
    }
}
