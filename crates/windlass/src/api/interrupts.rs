//! How a worker learns that one of its running jobs was cancelled or suspended.

#[cfg(feature = "remote")]
use std::sync::Arc;
use std::time::Duration;

use crate::job::WorkerId;
#[cfg(feature = "remote")]
use crate::limits;
#[cfg(feature = "remote")]
use crate::remote::Remote;
use crate::store::Store;
use crate::store::command::heartbeat::HeartbeatItem;
use crate::store::notify::wakeup::Listener;

/// A subscription to interruptions, of a store in this process or of a server.
#[doc(hidden)]
pub struct Interrupts(Source);

enum Source {
    Store(Listener),
    #[cfg(feature = "remote")]
    Server(Arc<Remote>),
}

impl Interrupts {
    pub(super) fn of_store(store: &Store) -> Interrupts {
        Interrupts(Source::Store(store.environment().wakeups.interrupts()))
    }

    #[cfg(feature = "remote")]
    pub(super) fn of_server(server: Arc<Remote>) -> Interrupts {
        Interrupts(Source::Server(server))
    }

    /// Whether there was a notification since this was created or last returned; a server is not queried.
    pub(crate) fn is_notified(&self) -> bool {
        match &self.0 {
            Source::Store(listener) => listener.is_notified(),
            #[cfg(feature = "remote")]
            Source::Server(_) => true,
        }
    }

    /// Returns when running jobs may have been interrupted since this was created or last returned.
    ///
    /// A server is sent a heartbeat for `beats` that it answers late. The answer does not cover jobs that start
    /// meanwhile, but it comes as soon as any job is interrupted.
    #[cfg_attr(not(feature = "remote"), allow(unused_variables, reason = "only a server is sent heartbeats"))]
    pub(crate) async fn notified(
        &mut self,
        worker: WorkerId,
        beats: impl Fn() -> Vec<HeartbeatItem>,
        wait: Duration,
    ) {
        match &mut self.0 {
            Source::Store(listener) => listener.notified().await,
            #[cfg(feature = "remote")]
            Source::Server(server) => {
                let mut beats = beats();
                beats.truncate(limits::OUTCOMES_PER_CALL_MAX);
                if server.heartbeat_wait(worker, beats, wait).await.is_err() {
                    // The next regular heartbeat meets the same error and handles it.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}
