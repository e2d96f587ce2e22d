//! A feed of events that can be resumed: first what the durable trail has since a number, then what happens, live. Kept
//! records come once each, in the order of the trail, also those of other processes; those below the audit level are live
//! only and come from this process.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};

use crate::audit::Record;
use crate::error::StoreError;
use crate::limits;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::engine::RecordQuery;
use crate::store::notify::wakeup::Listener;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;

/// A feed of events; [`next`](EventFeed::next) waits for the next one.
pub struct EventFeed {
    /// Where events come from instead, if a server keeps the store.
    #[cfg(feature = "remote")]
    stream: Option<crate::store::remote::events::EventStream>,
    store: Store,
    caller: Caller,
    live: broadcast::Receiver<Arc<Record>>,
    elsewhere: Listener,
    /// The last kept record that was handed over, or looked past.
    after: u64,
    /// Read from the trail and not handed over yet.
    ready: VecDeque<Record>,
    /// Whether the trail may have records that were not read.
    is_behind: bool,
}

impl EventFeed {
    pub(crate) fn new(store: Store, caller: Caller, after: u64) -> EventFeed {
        // Listening starts before reading: what happens in between is in one or the other.
        let (live, elsewhere) = (store.live_events(), store.env.wakeups.elsewhere());
        EventFeed {
            #[cfg(feature = "remote")]
            stream: store.event_stream(Some(after)),
            store,
            caller,
            live,
            elsewhere,
            after,
            ready: VecDeque::new(),
            is_behind: true,
        }
    }

    /// A feed of what happens from now on.
    pub(crate) async fn from_now(store: Store, caller: Caller) -> Result<EventFeed, StoreError> {
        let mut feed = EventFeed::new(store, caller, 0);
        #[cfg(feature = "remote")]
        if feed.stream.is_some() {
            feed.stream = feed.store.event_stream(None);
            return Ok(feed);
        }
        feed.settle().await?;
        feed.after = feed.store.read("newest_record", newest_record).await?;
        Ok(feed)
    }

    /// Returns once all commits are over that were under way when listening began. What is not kept is not written down
    /// while nobody listens, so of those commits such events may be missing; of what is answered after this, none is.
    ///
    /// # Errors
    /// When the store could not be asked.
    pub async fn settle(&self) -> Result<(), StoreError> {
        #[cfg(feature = "remote")]
        if self.stream.is_some() {
            return Ok(());
        }
        // A commit of nothing: it takes its turn behind those that have begun.
        self.store.write("settle", Kind::Ordinary, |_| Ok::<(), StoreError>(())).await
    }

    /// The number to resume from: everything kept up to it was handed over.
    pub fn position(&self) -> u64 {
        #[cfg(feature = "remote")]
        if let Some(stream) = &self.stream {
            return stream.position();
        }
        self.ready.front().map_or(self.after, |next| next.seq - 1)
    }

    /// The next event; readers that hear of it as it happens share one copy. A reader that falls behind misses none that is kept; of the others it misses the oldest.
    ///
    /// # Errors
    /// When the store is gone; or, if a server keeps it, when that is away for long. It may then be asked again, and goes on
    /// where it was.
    pub async fn next(&mut self) -> Result<Arc<Record>, StoreError> {
        #[cfg(feature = "remote")]
        if let Some(stream) = &mut self.stream {
            return stream.next().await.map(Arc::new);
        }
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Ok(Arc::new(record));
            }
            if self.is_behind {
                self.read_trail().await?;
                continue;
            }
            let received = tokio::select! {
                received = self.live.recv() => Some(received),
                () = self.elsewhere.news() => None,
            };
            match received {
                Some(Ok(record)) => {
                    if let Some(record) = self.accept(&record) {
                        return Ok(record);
                    }
                }
                Some(Err(RecvError::Lagged(_))) | None => self.is_behind = true,
                Some(Err(RecvError::Closed)) => return Err(crate::store::closed_error()),
            }
        }
    }

    /// A live record, if it is the next: one that comes out of turn is read from the trail, in its turn.
    fn accept(&mut self, record: &Arc<Record>) -> Option<Arc<Record>> {
        if record.seq == 0 {
            return self.caller.can_see(&record.tenant).then(|| record.clone());
        }
        if record.seq <= self.after {
            return None;
        }
        if record.seq > self.after + 1 {
            self.is_behind = true;
            return None;
        }
        self.after = record.seq;
        self.caller.can_see(&record.tenant).then(|| record.clone())
    }

    async fn read_trail(&mut self) -> Result<(), StoreError> {
        let limit = limits::PAGE_RECORDS_MAX;
        // Read for everybody and filtered here: the number of the last record must not depend on who may see it.
        let query = RecordQuery { after: self.after, limit, ..RecordQuery::default() };
        let page = self.store.audit(&Caller::system(), query).await?;
        self.is_behind = page.len() == limit;
        if let Some(last) = page.last() {
            self.after = last.seq;
        }
        self.ready.extend(page.into_iter().filter(|record| self.caller.can_see(&record.tenant)));
        Ok(())
    }
}

/// The number of the last record that is kept. Numbers have no gaps, so it is found by halving, whatever their count.
pub(crate) fn newest_record(view: &mut ReadTx<'_>) -> Result<u64, StoreError> {
    let mut has_after = |after: u64| -> Result<bool, StoreError> {
        Ok(!view.db.records(&RecordQuery { after, limit: 1, ..RecordQuery::default() })?.is_empty())
    };
    let mut above = 1;
    while has_after(above - 1)? {
        above *= 2;
    }
    // Record `below` is there, or is 0; record `above` is not.
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if has_after(middle - 1)? { below = middle } else { above = middle }
    }
    Ok(below)
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
