//! Sealing the audit trail. Records are read and hashed on a snapshot, concurrently with writes. A commit only
//! adds the new seals of the chain, and only if no other process has continued from the same seal
//! meanwhile.

use crate::audit::{Record, Seal, SealPoint};
use crate::error::StoreError;
use crate::limits;
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{DocumentKind, Read, RecordQuery};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// Number of records between two retained seals of the chain; in between only the newest is retained.
const SEAL_EVERY: u64 = 10_000;

/// The key of the document that stores how far the audit trail is sealed.
const HEAD: &str = "head";

/// The result of one sealing round.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealReport {
    /// The newest seal of the audit trail.
    pub seal: Seal,
    /// Whether there is more to seal immediately.
    pub has_more: bool,
    /// Whether nothing was done because another process is sealing.
    pub is_left_to_others: bool,
}

/// The chain as it was read, and its continuation.
#[derive(Debug, Clone)]
pub(crate) struct SealBacklog {
    from: Seal,
    /// The seals to store; empty if everything is sealed.
    points: Vec<Seal>,
    has_more: bool,
    is_left_to_others: bool,
}

impl SealBacklog {
    /// The report if nothing needs to be written.
    pub(crate) fn nothing(&self) -> Option<SealReport> {
        let is_left_to_others = self.is_left_to_others;
        self.points.is_empty().then(|| SealReport {
            seal: self.from.clone(),
            has_more: false,
            is_left_to_others,
        })
    }
}

/// Hashes records that are not sealed yet, in one bounded round. Reads none if `left` is given and the newest
/// seal is not `left`: another process is sealing, and only one of them can continue the chain.
pub(crate) fn read_backlog(tx: &mut ReadTx<'_>, left: Option<&Seal>) -> Result<SealBacklog, StoreError> {
    let newest = newest_point(tx.db)?;
    check_head(tx.db, newest.as_ref())?;
    let from = newest.map_or_else(Seal::origin, |point| point.seal);
    if left.is_some_and(|left| *left != from) {
        return Ok(SealBacklog { from, points: Vec::new(), has_more: false, is_left_to_others: true });
    }
    let written = tx.db.numbers()?.record.saturating_sub(1);
    let (mut seal, mut points, mut count) = (from.clone(), Vec::new(), 0);
    let limit = limits::PAGE_RECORDS_MAX;
    let has_more = loop {
        let query = RecordQuery { after: seal.through, limit, ..RecordQuery::default() };
        let records = tx.db.records(&query)?;
        check_written(&records, written)?;
        for record in &records {
            seal = seal.extend(record);
            if record.seq % SEAL_EVERY == 0 {
                points.push(seal.clone());
            }
        }
        count += records.len();
        if records.len() < limit || count >= limits::SEAL_RECORDS_MAX {
            break records.len() == limit;
        }
    };
    if points.last().unwrap_or(&from) != &seal {
        points.push(seal);
    }
    Ok(SealBacklog { from, points, has_more, is_left_to_others: false })
}

/// The newest stored seal, if the audit trail was ever sealed.
pub(crate) fn newest_point(db: &mut dyn Read) -> Result<Option<SealPoint>, StoreError> {
    db.documents(DocumentKind::Seal)?.last().map(|document| parse(&document.body)).transpose()
}

/// The newest seal as stored apart from the seals.
pub(crate) fn kept_head(db: &mut dyn Read) -> Result<Option<Seal>, StoreError> {
    db.document(DocumentKind::AuditHead, HEAD)?.map(|document| parse(&document.body)).transpose()
}

/// Refuses to seal an audit trail whose newest seal is missing or was replaced: sealing it again from an earlier
/// seal would hide that.
fn check_head(db: &mut dyn Read, newest: Option<&SealPoint>) -> Result<(), StoreError> {
    match kept_head(db)? {
        Some(head) if newest.is_none_or(|point| point.seal != head) => {
            let through = head.through;
            Err(StoreError::Damaged(format!(
                "the audit trail was sealed up to record {through}, but that seal is missing or was changed: \
                 sealing has stopped, see `windlass audit verify`"
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses to seal a record that the store has not written: a commit writes its records together with the number of the
/// last one, so a record beyond that number was added by something else.
fn check_written(records: &[Record], written: u64) -> Result<(), StoreError> {
    match records.last().filter(|last| last.seq > written) {
        Some(last) => Err(StoreError::Damaged(format!(
            "the audit trail goes up to record {}, but the store has written only up to record {written}: \
             sealing has stopped, see `windlass audit verify`",
            last.seq
        ))),
        None => Ok(()),
    }
}

/// Writes the new seals, unless another process has sealed meanwhile.
pub(crate) fn put(tx: &mut WriteTx<'_>, found: &SealBacklog) -> Result<SealReport, StoreError> {
    let SealBacklog { from, points, has_more, .. } = found;
    if !is_last(tx, from)? {
        return Ok(SealReport { seal: from.clone(), has_more: false, is_left_to_others: true });
    }
    let signing_key = tx.env.options.tickets.as_ref().map(|tickets| &tickets.key);
    for seal in points {
        let point = SealPoint::new(seal.clone(), signing_key);
        tx.put_document(DocumentKind::Seal, &key(seal), Some(&encode(&point)), |_| {})?;
    }
    if let Some(seal) = points.last() {
        tx.put_document(DocumentKind::AuditHead, HEAD, Some(&encode(seal)), |_| {})?;
    }
    let seal = points.last().unwrap_or(from).clone();
    Ok(SealReport { seal, has_more: *has_more, is_left_to_others: false })
}

/// Whether this is still the newest seal.
fn is_last(tx: &mut WriteTx<'_>, point: &Seal) -> Result<bool, StoreError> {
    let next = key(&Seal { through: point.through + 1, hash: String::new() });
    let (here, after) = (
        tx.document(DocumentKind::Seal, &key(point))?,
        tx.document(DocumentKind::Seal, &next)?.filter(|document| document.key != key(point)),
    );
    let here: Option<SealPoint> = here.map(|document| parse(&document.body)).transpose()?;
    let is_here = here.map_or_else(Seal::origin, |point| point.seal) == *point;
    Ok(is_here && after.is_none())
}

/// The document key of the newest seal of this section of the chain.
fn key(point: &Seal) -> String {
    format!("{:020}", point.through.div_ceil(SEAL_EVERY) * SEAL_EVERY)
}

#[cfg(test)]
mod tests {
    use crate::audit::Seal;
    use crate::job::QueueName;
    use crate::store::Store;
    use crate::store::caller::Caller;
    use crate::store::command::pause::{Pause, PauseTarget};
    use crate::store::environment::StoreOptions;

    /// Does something that is audited.
    async fn pause(store: &Store, queue: &str) {
        let target = PauseTarget::Queue(QueueName::new(queue).unwrap());
        store.pause(&Caller::local(), target, Pause::default()).await.unwrap();
    }

    /// Model: audit-chain. A process that finds another one continuing the chain stops sealing, and resumes once the chain stops
    /// growing.
    #[tokio::test]
    async fn what_another_seals_is_left_to_it_as_long_as_it_does() {
        let store = Store::open("memory:", StoreOptions::default()).unwrap();
        pause(&store, "one").await;
        let another = store.seal().await.unwrap();
        pause(&store, "two").await;
        let left = store.seal_unless_moved(Some(Seal::origin())).await.unwrap();
        assert_eq!((&left.seal, left.is_left_to_others), (&another.seal, true));
        let own = store.seal_unless_moved(Some(left.seal)).await.unwrap();
        assert!(own.seal.through > another.seal.through && !own.is_left_to_others, "{own:?}");
    }
}
