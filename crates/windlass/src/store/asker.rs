//! For whom reads are made, so that engines can serve callers in turns: one that asks a thousand questions at once waits for
//! itself, not the others for it.

use std::future::Future;
use std::sync::Arc;

use super::caller::Caller;
use crate::job::Tenant;

/// Somebody for whom reads are made; cheap to clone.
#[derive(Debug, Clone)]
pub struct ReadSource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The API key, or the name of a caller without one.
    holder: String,
    tenant: Option<Tenant>,
}

tokio::task_local! {
    /// For whom the request that this task works on was made.
    static ASKER: ReadSource;
}

impl ReadSource {
    /// The one that this caller's reads are counted for.
    pub fn of(caller: &Caller) -> ReadSource {
        ReadSource(Arc::new(Inner { holder: caller.bucket(), tenant: caller.tenant.clone() }))
    }

    /// Runs a request: all reads that it makes are counted for this asker, and wait in its line.
    pub async fn scope<T>(self, request: impl Future<Output = T>) -> T {
        ASKER.scope(self, request).await
    }

    /// For whom this task makes reads; none for what a process does by itself, and for embedded use.
    pub(crate) fn current() -> Option<ReadSource> {
        ASKER.try_with(ReadSource::clone).ok()
    }

    /// What is counted for: an API key, or the name of a caller without one.
    pub fn holder(&self) -> &str {
        &self.0.holder
    }

    /// The tenant that all of its keys share bounds of; none for a caller of all tenants.
    pub fn tenant(&self) -> Option<&Tenant> {
        self.0.tenant.as_ref()
    }
}
