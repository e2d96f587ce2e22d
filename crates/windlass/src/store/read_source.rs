//! The source of reads, so that engines can serve callers in turns: a caller that sends a thousand queries at once
//! delays itself, not the others.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::caller::Caller;
use crate::job::Tenant;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The source of a read; cheap to clone.
#[derive(Debug, Clone)]
pub struct ReadSource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The API key, or the name of a caller without one.
    holder: String,
    tenant: Option<Tenant>,
}

tokio::task_local! {
    /// The source of the request that this task processes.
    static ASKER: ReadSource;
}

impl ReadSource {
    /// The source that this caller's reads are counted for.
    pub fn from_caller(caller: &Caller) -> ReadSource {
        ReadSource(Arc::new(Inner { holder: caller.bucket(), tenant: caller.tenant.clone() }))
    }

    /// Runs a request: all its reads are counted for this source and wait in its line.
    pub async fn scope<T>(self, request: impl Future<Output = T>) -> T {
        ASKER.scope(self, request).await
    }

    /// Starts a task of the request that this task processes: its reads are counted for the same source.
    pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        ReadSource::spawn_boxed(Box::pin(work))
    }

    /// Boxed, so that the runtime's part of a task is compiled once per result and not for each task.
    fn spawn_boxed<T: Send + 'static>(work: BoxFuture<T>) -> JoinHandle<T> {
        let work = match ReadSource::current() {
            Some(source) => Box::pin(source.scope(work)),
            None => work,
        };
        tokio::spawn(work)
    }

    /// The source of this task's reads; `None` for internal work and for embedded use.
    pub(crate) fn current() -> Option<ReadSource> {
        ASKER.try_with(ReadSource::clone).ok()
    }

    /// The API key, or the name of a caller without one.
    pub fn holder(&self) -> &str {
        &self.0.holder
    }

    /// The tenant whose keys share limits; `None` for a caller of all tenants.
    pub fn tenant(&self) -> Option<&Tenant> {
        self.0.tenant.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::caller::Role;

    #[tokio::test]
    async fn a_task_of_a_request_reads_on_behalf_of_its_caller() {
        let holder = || ReadSource::current().map(|source| source.holder().to_owned());
        assert_eq!(ReadSource::spawn(async move { holder() }).await.unwrap(), None);
        let source = ReadSource::from_caller(&Caller::new("ada", Role::Viewer, None));
        let started = source.scope(async { ReadSource::spawn(async move { holder() }).await }).await;
        assert_eq!(started.unwrap().as_deref(), Some("ada"));
    }
}
