//! How long the owner of a connection waits for the database server: until its requests must be answered, and only
//! briefly once the store is being closed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Deadline;
use crate::limits;

/// Whether the store is being closed.
#[derive(Clone, Default)]
pub(in super::super) struct Closing(Arc<(CancellationToken, OnceLock<Deadline>)>);

impl Closing {
    /// Marks the store as being closed.
    pub(in super::super) fn begin(&self) {
        self.0.1.get_or_init(|| Deadline::after(limits::CLOSE_MAX));
        self.0.0.cancel();
    }

    /// Until when an unreachable server is waited for; `None` while the store is open.
    pub(in super::super) fn deadline(&self) -> Option<Deadline> {
        self.0.1.get().copied()
    }

    /// Returns some time after closing began. Each call to the server has that long, so that a responding server can
    /// finish any amount of work.
    async fn expired(&self) {
        self.0.0.cancelled().await;
        tokio::time::sleep(limits::CLOSE_MAX).await;
    }
}

/// How long to wait for the server.
#[derive(Clone, Default)]
pub(in super::super) struct Waits {
    /// When the last of the current requests must be answered; `None` if no caller waits.
    pub(in super::super) until: Option<Deadline>,
    /// Maximum time for one answer; the limit's default if `None`.
    pub(in super::super) call_max: Option<Duration>,
    pub(in super::super) closing: Closing,
    /// Cancelled once no caller waits for the answer.
    pub(in super::super) cancellation: CancellationToken,
}

impl Waits {
    /// How long one call may take.
    pub(in super::super) fn call_max(&self) -> Duration {
        self.bounded(self.call_max.unwrap_or(limits::CALL_MAX))
    }

    /// How long connecting may take.
    pub(in super::super) fn connect_max(&self) -> Duration {
        self.bounded(self.call_max.unwrap_or(limits::CONNECT_MAX).min(limits::CONNECT_MAX))
    }

    fn bounded(&self, most: Duration) -> Duration {
        self.until.map_or(most, |until| most.min(until.left() + limits::CALL_MARGIN))
    }

    /// Runs `work` for at most `most`; `None` if it was given up.
    pub(in super::super) async fn give<T>(&self, work: impl Future<Output = T>, most: Duration) -> Option<T> {
        tokio::select! {
            biased;
            done = tokio::time::timeout(most, work) => done.ok(),
            () = self.closing.expired() => None,
            () = self.cancellation.cancelled() => None,
        }
    }
}
