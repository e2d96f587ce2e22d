//! Why an attempt is told to stop, for handlers that stop differently for different reasons. It decides nothing: whatever
//! the reason, what the attempt may still write is decided by its fence.

use crate::store::command::heartbeat::Directive;

/// Why an attempt is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// The job was suspended; it starts anew once it is resumed.
    Suspended,
    /// The job was cancelled.
    Cancelled,
    /// The attempt took too long.
    TimedOut,
    /// The lease is gone: another worker may run the job already.
    Lost,
    /// The store has not been heard for so long that the lease is about to end.
    Unheard,
    /// The worker leaves or was paused, and gives the job back.
    Released,
}

impl CancelReason {
    /// What a directive asks for; nothing if the attempt is to go on.
    pub(crate) fn of(directive: Directive) -> Option<CancelReason> {
        match directive {
            Directive::Continue => None,
            Directive::Suspend => Some(CancelReason::Suspended),
            Directive::Cancel => Some(CancelReason::Cancelled),
            Directive::Lost => Some(CancelReason::Lost),
            Directive::Timeout => Some(CancelReason::TimedOut),
        }
    }
}
