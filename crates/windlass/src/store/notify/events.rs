//! A resumable feed of events: first the records of the audit trail after a number, then live events. Audited records
//! come once each, in order, including those of other processes. Events below the audit level are live only and come
//! from this process only.

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
    store: Store,
    caller: Caller,
    live: broadcast::Receiver<Arc<Record>>,
    foreign: Listener,
    /// The number of the last audited record that was returned or skipped.
    after: u64,
    /// Records read from the audit trail and not returned yet.
    ready: VecDeque<Record>,
    /// Whether the audit trail may have records that were not read.
    is_behind: bool,
}

impl EventFeed {
    pub(crate) fn new(store: Store, caller: Caller, after: u64) -> EventFeed {
        // Subscribing comes before reading: an event in between is in one or the other.
        let (live, foreign) = (store.live_events(), store.env.wakeups.foreign());
        EventFeed { store, caller, live, foreign, after, ready: VecDeque::new(), is_behind: true }
    }

    /// A feed of events from now on.
    pub(crate) async fn from_now(store: Store, caller: Caller) -> Result<EventFeed, StoreError> {
        let mut feed = EventFeed::new(store, caller, 0);
        feed.wait_for_earlier_commits().await?;
        feed.after = feed.store.read("newest_record", newest_record).await?;
        Ok(feed)
    }

    /// Returns once all commits are over that had begun when the subscription began. Events below the audit level are
    /// not built while there is no subscriber, so those commits may lack them; commits answered after this call lack
    /// none.
    ///
    /// # Errors
    /// If the store could not be queried.
    pub async fn wait_for_earlier_commits(&self) -> Result<(), StoreError> {
        // An empty commit: it runs after those that have begun.
        self.store.write("wait_for_earlier_commits", Kind::Ordinary, |_| Ok::<(), StoreError>(())).await
    }

    /// The number to resume from: all audited records up to it were returned.
    pub fn position(&self) -> u64 {
        self.ready.front().map_or(self.after, |next| next.seq - 1)
    }

    /// The next event; live subscribers share one copy. A reader that falls behind misses no audited event; of the
    /// others it misses the oldest.
    ///
    /// # Errors
    /// If the store is closed or cannot be read. The call may be repeated and continues where it was.
    pub async fn next(&mut self) -> Result<Arc<Record>, StoreError> {
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
                () = self.foreign.notified() => None,
            };
            match received {
                Some(Ok(record)) => {
                    if let Some(record) = self.accept(&record) {
                        return Ok(record);
                    }
                }
                Some(Err(RecvError::Lagged(_))) | None => self.is_behind = true,
                Some(Err(RecvError::Closed)) => return Err(StoreError::Closed),
            }
        }
    }

    /// A live record, if it is the next one; a record out of order is read from the audit trail later.
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
        // Read for all tenants and filtered here: the number of the last record must not depend on the caller.
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

/// The number of the last audited record. Numbers have no gaps, so a binary search finds it.
pub(crate) fn newest_record(tx: &mut ReadTx<'_>) -> Result<u64, StoreError> {
    let mut has_after = |after: u64| -> Result<bool, StoreError> {
        Ok(!tx.db.records(&RecordQuery { after, limit: 1, ..RecordQuery::default() })?.is_empty())
    };
    let mut above = 1;
    while has_after(above - 1)? {
        above *= 2;
    }
    // Invariant: record `below` exists, or is 0; record `above` does not.
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if has_after(middle - 1)? { below = middle } else { above = middle }
    }
    Ok(below)
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
