//! The secrets that calls are signed with, by tenant. They are asked for at every call, so that a secret that was replaced
//! counts at once; the store keeps them at hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass::error::StoreError;
use windlass::job::{Failure, Tenant};

use super::signature::SigningKey;

/// What a place of secrets answers.
pub type Found<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, StoreError>> + Send + 'a>>;

/// Something that keeps secrets.
pub trait Secrets: Send + Sync + 'static {
    /// The texts of a tenant's secrets in force, the newest first.
    fn of<'a>(&'a self, tenant: &'a Tenant) -> Found<'a>;
}

/// The secrets of all tenants; cheap to clone.
#[derive(Clone)]
pub struct Keyring(Arc<dyn Secrets>);

impl Keyring {
    /// Those that are kept there.
    pub fn new(secrets: impl Secrets) -> Keyring {
        Keyring(Arc::new(secrets))
    }

    /// A tenant's keys, at least one.
    ///
    /// # Errors
    /// A temporary failure if the store is in trouble, or has no secret that can be read: nothing is sent unsigned.
    pub async fn keys(&self, tenant: &Tenant) -> Result<Vec<SigningKey>, Failure> {
        let unsigned = |why: String| {
            Failure::temporary(format!("nothing is sent unsigned, and {why}")).with_code("unsigned")
        };
        let texts = self.0.of(tenant).await.map_err(|error| unsigned(error.to_string()))?;
        let keys: Vec<SigningKey> = texts.iter().filter_map(|text| SigningKey::parse(text)).collect();
        if keys.is_empty() {
            return Err(unsigned(format!("the tenant {tenant} has no secret to sign with")));
        }
        Ok(keys)
    }
}
