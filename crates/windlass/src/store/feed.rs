//! Live events: every transition, whatever the audit level, from a bounded buffer of this process. What is audited is also
//! in the durable trail and can be read from any point at any time; the buffer only makes it prompt.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::audit::Record;
use crate::limits;

/// Where commits announce what happened.
#[derive(Debug)]
pub struct Feed {
    sender: broadcast::Sender<Arc<Record>>,
}

impl Default for Feed {
    fn default() -> Feed {
        Feed { sender: broadcast::Sender::new(limits::LIVE_EVENTS_MAX) }
    }
}

impl Feed {
    /// Whether anybody listens; if not, nothing need be built for them.
    pub fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Tells listeners, after the commit.
    pub fn publish(&self, records: Vec<Record>) {
        for record in records {
            // An error only means that nobody listens any more.
            let _ = self.sender.send(Arc::new(record));
        }
    }

    /// Everything published from now on; a reader that falls behind is told how much it missed.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Record>> {
        self.sender.subscribe()
    }
}
