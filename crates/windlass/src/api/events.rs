//! A feed of events, of a store in this process or of a server.

use std::sync::Arc;

use crate::audit::Record;
use crate::error::StoreError;
#[cfg(feature = "remote")]
use crate::remote::events::RemoteEvents;
use crate::store::notify::events::EventFeed;

/// A feed of events; [`next`](Events::next) waits for the next one.
pub struct Events(Source);

enum Source {
    Store(Box<EventFeed>),
    #[cfg(feature = "remote")]
    Server(RemoteEvents),
}

impl Events {
    pub(super) fn of_store(feed: EventFeed) -> Events {
        Events(Source::Store(Box::new(feed)))
    }

    #[cfg(feature = "remote")]
    pub(super) fn of_server(stream: RemoteEvents) -> Events {
        Events(Source::Server(stream))
    }

    /// The number to resume from: all audited records up to it were returned.
    pub fn position(&self) -> u64 {
        match &self.0 {
            Source::Store(feed) => feed.position(),
            #[cfg(feature = "remote")]
            Source::Server(stream) => stream.position(),
        }
    }

    /// The next event. A reader that falls behind misses no audited event; of the others it misses the oldest.
    ///
    /// # Errors
    /// If the store is closed, or if the server is unreachable for long. The call may be repeated and continues where
    /// it was.
    pub async fn next(&mut self) -> Result<Arc<Record>, StoreError> {
        match &mut self.0 {
            Source::Store(feed) => feed.next().await,
            #[cfg(feature = "remote")]
            Source::Server(stream) => stream.next().await.map(Arc::new),
        }
    }
}
