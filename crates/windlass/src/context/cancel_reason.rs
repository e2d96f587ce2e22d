//! Why an attempt should stop, for handlers that react differently to different reasons. It is informational: what the
//! attempt may still write depends only on its fence.

use crate::store::command::heartbeat::Directive;

/// Why an attempt should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// The job was suspended; it starts again when it is resumed.
    Suspended,
    /// The job was cancelled.
    Cancelled,
    /// The attempt exceeded its timeout.
    TimedOut,
    /// The lease was lost: another worker may already run the job.
    Lost,
    /// The store has been unreachable for so long that the lease is about to expire.
    StoreUnreachable,
    /// The worker shuts down or was paused, and releases the job.
    Released,
}

impl CancelReason {
    /// The reason for a directive; `None` if the attempt should continue.
    pub(crate) fn from_directive(directive: Directive) -> Option<CancelReason> {
        match directive {
            Directive::Continue => None,
            Directive::Suspend => Some(CancelReason::Suspended),
            Directive::Cancel => Some(CancelReason::Cancelled),
            Directive::Lost => Some(CancelReason::Lost),
            Directive::Timeout => Some(CancelReason::TimedOut),
        }
    }
}
