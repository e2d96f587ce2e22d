//! The audit trail from its end. The store reads it forwards only; the end is found by asking for what comes after a
//! number, and remembered, so that the next look starts from there.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass::Store;
use windlass::audit::Record;
use windlass::error::StoreError;
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;

use super::limits;

/// The last record's number as last seen.
#[derive(Debug, Default)]
pub(super) struct Tail(AtomicU64);

/// A page of records, newest first.
pub(super) struct Records {
    pub(super) records: Vec<Record>,
    /// Where to go on: records before this one.
    pub(super) before: Option<u64>,
}

impl Tail {
    /// The number of the last record; 0 if there is none.
    pub(super) async fn last(&self, store: &Store) -> Result<u64, StoreError> {
        // Strides that double until nothing comes after, then halve: the end is between.
        let mut known = self.0.load(Ordering::Relaxed);
        let mut stride = 1;
        loop {
            if let Some(found) = next_after(store, known + stride - 1).await? {
                known = found;
                stride *= 2;
            } else if stride == 1 {
                break;
            } else {
                stride /= 2;
            }
        }
        self.0.fetch_max(known, Ordering::Relaxed);
        Ok(known)
    }

    /// Whether anything was recorded since the last look; moves on to the end.
    pub(super) async fn has_moved(&self, store: &Store) -> Result<bool, StoreError> {
        let before = self.0.load(Ordering::Relaxed);
        Ok(self.last(store).await? > before)
    }

    /// Records that fit, newest first, those before number `before` only.
    pub(super) async fn page(
        &self,
        store: &Store,
        caller: &Caller,
        query: &RecordQuery,
        before: Option<u64>,
    ) -> Result<Records, StoreError> {
        let mut end = match before {
            Some(before) => before,
            None => self.last(store).await? + 1,
        };
        let mut found = Vec::new();
        let window = windlass::limits::PAGE_RECORDS_MAX as u64;
        for _ in 0..limits::RECORD_WINDOWS_MAX {
            if end <= 1 || found.len() > limits::RECORDS_PER_PAGE {
                break;
            }
            let after = end.saturating_sub(window + 1);
            let window = RecordQuery { after, limit: windlass::limits::PAGE_RECORDS_MAX, ..query.clone() };
            let mut records = store.audit(caller, window).await?;
            records.retain(|record| record.seq < end);
            found.extend(records.into_iter().rev());
            end = after + 1;
        }
        let has_more = found.len() > limits::RECORDS_PER_PAGE;
        found.truncate(limits::RECORDS_PER_PAGE);
        let before = if has_more { found.last().map(|record| record.seq) } else { (end > 1).then_some(end) };
        Ok(Records { records: found, before })
    }
}

async fn next_after(store: &Store, after: u64) -> Result<Option<u64>, StoreError> {
    let query = RecordQuery { after, limit: 1, ..RecordQuery::default() };
    Ok(store.audit(&Caller::system(), query).await?.first().map(|record| record.seq))
}
