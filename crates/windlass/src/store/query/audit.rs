//! Pages of the audit trail. If no index matches the query, a page scans a bounded number of records and returns where
//! to continue.

use crate::audit::Record;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::RecordQuery;
use crate::store::tx::read_tx::ReadTx;

/// A page of the audit trail, oldest record first.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RecordPage {
    /// The records. There may be fewer than requested, or none, before the last page, if few of the scanned records
    /// match.
    pub records: Vec<Record>,
    /// The number to continue after; `None` after the last page.
    pub next: Option<u64>,
}

/// Returns the next page.
pub(crate) fn page(tx: &mut ReadTx<'_>, query: &RecordQuery) -> Result<RecordPage, StoreError> {
    let mut query = query.clone();
    if query.job.is_some() {
        // The records of a job are found by an index, however far apart they are.
        let records = tx.db.records(&query)?;
        return Ok(RecordPage { next: last_of_full(&records, query.limit), records });
    }
    if let Some(since) = query.since.take() {
        query.after = query.after.max(first_at(tx, since)? - 1);
    }
    if let Some(until) = query.until.take() {
        let end = first_at(tx, until)?;
        query.before = Some(query.before.map_or(end, |before| before.min(end)));
    }
    let reach = query.reach.unwrap_or(limits::AUDIT_SCAN_MAX).clamp(1, limits::AUDIT_SCAN_MAX);
    let horizon = query.after.saturating_add(reach);
    let end = query.before.map_or(horizon + 1, |before| before.min(horizon + 1));
    let records = tx.db.records(&RecordQuery { before: Some(end), ..query.clone() })?;
    let next = match last_of_full(&records, query.limit) {
        Some(last) => Some(last),
        None if has_record_between(tx, horizon, query.before)? => Some(horizon),
        None => None,
    };
    Ok(RecordPage { records, next })
}

fn last_of_full(records: &[Record], limit: usize) -> Option<u64> {
    records.last().filter(|_| records.len() == limit).map(|last| last.seq)
}

fn has_record_between(tx: &mut ReadTx<'_>, after: u64, before: Option<u64>) -> Result<bool, StoreError> {
    let query = RecordQuery { after, before, limit: 1, ..RecordQuery::default() };
    Ok(!tx.db.records(&query)?.is_empty())
}

/// The number of the first record at or after a time; one more than the last record if there is none. Store time never
/// goes back and numbers have no gaps, so a binary search finds it.
fn first_at(tx: &mut ReadTx<'_>, at: Timestamp) -> Result<u64, StoreError> {
    let mut is_before = |number: u64| -> Result<bool, StoreError> {
        let query = RecordQuery { after: number - 1, limit: 1, ..RecordQuery::default() };
        Ok(tx.db.records(&query)?.first().is_some_and(|record| record.at < at))
    };
    let mut above = 1;
    while is_before(above)? {
        above *= 2;
    }
    // Invariant: record `below` is before the time, or is 0; record `above` is not, or does not exist.
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if is_before(middle)? { below = middle } else { above = middle }
    }
    Ok(above)
}
