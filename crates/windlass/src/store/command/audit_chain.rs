//! Sealing the audit trail (M93). Records are read and hashed on a snapshot, beside whatever is being written; a commit
//! only adds the new points of the chain, and only if nobody else has gone on from the same point meanwhile.

use crate::audit::{Seal, SealPoint};
use crate::error::StoreError;
use crate::limits;
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{DocumentKind, Read, RecordQuery};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// Records between two points of the chain that are kept; between them only the newest is.
const SEAL_EVERY: u64 = 10_000;

/// The name of the document that says how far the trail is sealed.
const HEAD: &str = "head";

/// What one round of sealing did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealReport {
    /// Up to where the trail is sealed.
    pub seal: Seal,
    /// Whether there is more to seal at once.
    pub has_more: bool,
    /// Whether nothing was done because somebody else is at it.
    pub is_left_to_others: bool,
}

/// The chain as it was found, and as it goes on.
#[derive(Debug, Clone)]
pub(crate) struct SealBacklog {
    from: Seal,
    /// The points to be kept; none if everything is sealed.
    points: Vec<Seal>,
    has_more: bool,
    is_left_to_others: bool,
}

impl SealBacklog {
    /// What there is to say if nothing is to be written.
    pub(crate) fn nothing(&self) -> Option<SealReport> {
        let is_left_to_others = self.is_left_to_others;
        self.points.is_empty().then(|| SealReport {
            seal: self.from.clone(),
            has_more: false,
            is_left_to_others,
        })
    }
}

/// Hashes records that are not sealed yet: one bounded round. None are read if the trail is not sealed up to where it was
/// `left`, when that is given: somebody else goes on with it, and only one of them can.
pub(crate) fn read_backlog(view: &mut ReadTx<'_>, left: Option<&Seal>) -> Result<SealBacklog, StoreError> {
    let newest = newest_point(view.db)?;
    check_head(view.db, newest.as_ref())?;
    let from = newest.map_or_else(Seal::origin, |point| point.seal);
    if left.is_some_and(|left| *left != from) {
        return Ok(SealBacklog { from, points: Vec::new(), has_more: false, is_left_to_others: true });
    }
    let (mut seal, mut points, mut count) = (from.clone(), Vec::new(), 0);
    let limit = limits::PAGE_RECORDS_MAX;
    let has_more = loop {
        let query = RecordQuery { after: seal.through, limit, ..RecordQuery::default() };
        let records = view.db.records(&query)?;
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

/// The newest point that is kept, if the trail was ever sealed.
pub(crate) fn newest_point(db: &mut dyn Read) -> Result<Option<SealPoint>, StoreError> {
    db.documents(DocumentKind::Seal)?.last().map(|document| parse(&document.body)).transpose()
}

/// How far the trail was sealed, as it is said apart from the points.
pub(crate) fn kept_head(db: &mut dyn Read) -> Result<Option<Seal>, StoreError> {
    db.document(DocumentKind::AuditHead, HEAD)?.map(|document| parse(&document.body)).transpose()
}

/// Refuses to seal a trail whose newest seal is missing or was replaced: sealing it again from an earlier point would hide
/// that.
fn check_head(db: &mut dyn Read, newest: Option<&SealPoint>) -> Result<(), StoreError> {
    match kept_head(db)? {
        Some(head) if newest.is_none_or(|point| point.seal != head) => {
            let through = head.through;
            Err(StoreError::Damaged(format!(
                "the audit trail was sealed up to record {through}, and that seal is missing or was changed: \
                 it is not sealed further, `windlass audit verify` says more"
            )))
        }
        _ => Ok(()),
    }
}

/// Writes the new points, unless somebody else has sealed meanwhile.
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

/// Whether this is still the newest point.
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

/// Under which the newest point of its stretch of the chain is kept.
fn key(point: &Seal) -> String {
    format!("{:020}", point.through.div_ceil(SEAL_EVERY) * SEAL_EVERY)
}

#[cfg(test)]
mod tests {
    use crate::audit::Seal;
    use crate::job::QueueName;
    use crate::store::Store;
    use crate::store::caller::Caller;
    use crate::store::command::pause::{Pause, Target};
    use crate::store::environment::StoreOptions;

    /// Does something that is recorded.
    async fn pause(store: &Store, queue: &str) {
        let target = Target::Queue(QueueName::new(queue).unwrap());
        store.pause(&Caller::local(), target, Pause::default()).await.unwrap();
    }

    /// M93: whoever finds that another has gone on with the chain leaves it to that one, and goes on itself once it stands
    /// still.
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
