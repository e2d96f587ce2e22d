//! Reads the audit trail from its end. The store reads it forwards only; the end is found by searching for the last number,
//! and cached as the start of the next search.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass::Store;
use windlass::audit::Record;
use windlass::clock::Timestamp;
use windlass::error::StoreError;
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;

use crate::dashboard::pages::limits;

/// The last known record number.
#[derive(Debug, Default)]
pub(in crate::dashboard) struct Tail(AtomicU64);

/// A page of records, newest first.
pub(in crate::dashboard) struct Records {
    pub(in crate::dashboard) records: Vec<Record>,
    /// Cursor of the next page: records before this one.
    pub(in crate::dashboard) before: Option<u64>,
}

impl Tail {
    /// The number of the last record; 0 if there is none.
    pub(in crate::dashboard) async fn last(&self, store: &Store) -> Result<u64, StoreError> {
        // Steps double until nothing follows, then halve: a binary search for the end.
        let mut known = self.0.load(Ordering::Relaxed);
        let mut stride = 1;
        loop {
            if let Some(found) = next_after(store, known + stride - 1).await? {
                known = found.seq;
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

    /// Whether there are new records since the last call; moves to the end.
    pub(in crate::dashboard) async fn has_moved(&self, store: &Store) -> Result<bool, StoreError> {
        let before = self.0.load(Ordering::Relaxed);
        Ok(self.last(store).await? > before)
    }

    /// Matching records before number `before`, newest first. The number of records read is limited: a page may have few
    /// records, or none, without being the last.
    pub(in crate::dashboard) async fn page(
        &self,
        store: &Store,
        caller: &Caller,
        query: &RecordQuery,
        before: Option<u64>,
    ) -> Result<Records, StoreError> {
        let last = self.last(store).await?;
        let end = match query.until {
            Some(until) => first_at(store, until, last).await?,
            None => last + 1,
        };
        let mut end = before.map_or(end, |before| before.min(end));
        let floor = match query.since {
            Some(since) => first_at(store, since, last).await?,
            None => 1,
        };
        let most = windlass::limits::PAGE_RECORDS_MAX;
        // Records about one job are found by an index.
        let (narrow, wide) =
            (most as u64, if query.job.is_some() { u64::MAX } else { limits::RECORDS_STRIDE_MAX });
        let mut stride = if query.job.is_some() { wide } else { narrow };
        let mut left = limits::RECORDS_LOOKED_AT;
        let mut found = Vec::new();
        while end > floor && found.len() <= limits::RECORDS_PER_PAGE && left > 0 {
            let after = end.saturating_sub(stride.saturating_add(1)).max(floor - 1);
            let window = RecordQuery { after, before: Some(end), limit: most, ..query.clone() };
            let records = store.audit(caller, window).await?;
            // The store reads forwards: if more match than it returns, those at the end are missing.
            if records.len() == most && stride > narrow {
                stride = narrow;
                continue;
            }
            left = left.saturating_sub(if query.job.is_some() { narrow } else { end - after });
            if records.len() * 10 < most {
                stride = stride.saturating_mul(4).min(wide);
            }
            found.extend(records.into_iter().rev());
            end = after + 1;
        }
        let has_more = found.len() > limits::RECORDS_PER_PAGE;
        found.truncate(limits::RECORDS_PER_PAGE);
        let before =
            if has_more { found.last().map(|record| record.seq) } else { (end > floor).then_some(end) };
        Ok(Records { records: found, before })
    }
}

/// The number of the first record at or after a time; one more than the last if there is none. Records are sorted by time:
/// a binary search.
async fn first_at(store: &Store, at: Timestamp, last: u64) -> Result<u64, StoreError> {
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        match next_after(store, middle).await? {
            Some(record) if record.at < at => low = record.seq,
            _ => high = middle,
        }
    }
    Ok(low + 1)
}

async fn next_after(store: &Store, after: u64) -> Result<Option<Record>, StoreError> {
    let query = RecordQuery { after, limit: 1, ..RecordQuery::default() };
    Ok(store.audit(&Caller::system(), query).await?.pop())
}
