//! The audit trail from its end. The store reads it forwards only; the end is found by asking for what comes after a
//! number, and remembered, so that the next look starts from there.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass::Store;
use windlass::audit::Record;
use windlass::clock::Timestamp;
use windlass::error::StoreError;
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;

use crate::dashboard::pages::limits;

/// The last record's number as last seen.
#[derive(Debug, Default)]
pub(in crate::dashboard) struct Tail(AtomicU64);

/// A page of records, newest first.
pub(in crate::dashboard) struct Records {
    pub(in crate::dashboard) records: Vec<Record>,
    /// Where to go on: records before this one.
    pub(in crate::dashboard) before: Option<u64>,
}

impl Tail {
    /// The number of the last record; 0 if there is none.
    pub(in crate::dashboard) async fn last(&self, store: &Store) -> Result<u64, StoreError> {
        // Strides that double until nothing comes after, then halve: the end is between.
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

    /// Whether anything was recorded since the last look; moves on to the end.
    pub(in crate::dashboard) async fn has_moved(&self, store: &Store) -> Result<bool, StoreError> {
        let before = self.0.load(Ordering::Relaxed);
        Ok(self.last(store).await? > before)
    }

    /// Records that fit, newest first, those before number `before` only. So many are looked at and no more: a page may
    /// hold few of them, or none, and still not be the last.
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
        // What is about one job is found by an index, however far apart.
        let (narrow, wide) =
            (most as u64, if query.job.is_some() { u64::MAX } else { limits::RECORDS_STRIDE_MAX });
        let mut stride = if query.job.is_some() { wide } else { narrow };
        let mut left = limits::RECORDS_LOOKED_AT;
        let mut found = Vec::new();
        while end > floor && found.len() <= limits::RECORDS_PER_PAGE && left > 0 {
            let after = end.saturating_sub(stride.saturating_add(1)).max(floor - 1);
            let window = RecordQuery { after, before: Some(end), limit: most, ..query.clone() };
            let records = store.audit(caller, window).await?;
            // The store reads forwards: where more fit than it gives, those at the end are missing.
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

/// The number of the first record at or after a moment; one more than the last if there is none. Records are in the order of
/// time, so halving finds it.
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
