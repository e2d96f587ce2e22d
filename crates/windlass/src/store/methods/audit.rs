//! The audit trail, events as they happen, and which tenants have changed.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::audit::Record;
use crate::error::StoreError;
use crate::limits;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::engine::RecordQuery;
use crate::store::notify::events::EventFeed;
use crate::store::notify::feed::Change;
use crate::store::query::audit::{self, RecordPage};

impl Store {
    /// Audit records, oldest first, at most [`limits::PAGE_RECORDS_MAX`]. A search for something rare reads as
    /// many bounded pages as it takes; [`audit_page`](Store::audit_page) returns one of them.
    pub async fn audit(&self, caller: &Caller, query: RecordQuery) -> Result<Vec<Record>, StoreError> {
        let limit = query.limit.clamp(1, limits::PAGE_RECORDS_MAX);
        let (mut found, mut query) = (Vec::new(), query);
        loop {
            query.limit = limit - found.len();
            let page = self.audit_page(caller, query.clone()).await?;
            found.extend(page.records);
            match page.next.filter(|_| found.len() < limit) {
                Some(next) => query.after = next,
                None => return Ok(found),
            }
        }
    }

    /// One page of the audit trail, oldest record first, after a bounded scan.
    pub async fn audit_page(&self, caller: &Caller, query: RecordQuery) -> Result<RecordPage, StoreError> {
        let mut query = RecordQuery { limit: query.limit.clamp(1, limits::PAGE_RECORDS_MAX), ..query };
        if let Some(own) = &caller.tenant {
            if query.tenant.as_ref().is_some_and(|wanted| wanted != own) {
                return Ok(RecordPage::default());
            }
            query.tenant = Some(own.clone());
        }
        self.read("audit", move |tx| audit::page(tx, &query)).await
    }

    /// Events that this caller can see, from the audit trail after number `after` and then live (see [`EventFeed`]).
    pub fn events(&self, caller: &Caller, after: u64) -> EventFeed {
        EventFeed::new(self.clone(), caller.clone(), after)
    }

    /// Events that this caller can see, from now on.
    ///
    /// # Errors
    /// If the end of the audit trail could not be read.
    pub async fn events_from_now(&self, caller: &Caller) -> Result<EventFeed, StoreError> {
        EventFeed::from_now(self.clone(), caller.clone()).await
    }

    /// All events of this process from now on, as they are committed; audited records have their number.
    pub fn live_events(&self) -> broadcast::Receiver<Arc<Record>> {
        self.env.feed.subscribe()
    }

    /// The affected tenants of each commit in this process from now on: far cheaper than the events themselves.
    pub fn changes(&self) -> broadcast::Receiver<Arc<Change>> {
        self.env.feed.changes()
    }

    /// How many commits of this process have changed anything: if it is the same later, nothing happened here in
    /// between.
    pub fn changed(&self) -> u64 {
        self.env.feed.changed()
    }
}
