//! Sealing the audit trail (M93). Records are read and hashed on a snapshot, beside whatever is being written; a commit
//! only adds the new points of the chain, and only if nobody else has gone on from the same point meanwhile.

use crate::audit::Seal;
use crate::error::StoreError;
use crate::limits;
use crate::store::config::{encode, parse};
use crate::store::engine::{DocumentKind, RecordQuery};
use crate::store::unit::Unit;
use crate::store::view::View;

/// Records between two points of the chain that are kept; between them only the newest is.
const SEAL_EVERY: u64 = 10_000;

/// What one round of sealing did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Up to where the trail is sealed.
    pub seal: Seal,
    /// Whether there is more to seal at once.
    pub has_more: bool,
}

/// The chain as it was found, and as it goes on.
#[derive(Debug, Clone)]
pub(crate) struct Unsealed {
    from: Seal,
    /// The points to be kept; none if everything is sealed.
    points: Vec<Seal>,
    has_more: bool,
}

impl Unsealed {
    /// What there is to say if nothing is to be written.
    pub(crate) fn nothing(&self) -> Option<Sealed> {
        self.points.is_empty().then(|| Sealed { seal: self.from.clone(), has_more: false })
    }
}

/// Hashes records that are not sealed yet: one bounded round.
pub(crate) fn look(view: &mut View<'_>) -> Result<Unsealed, StoreError> {
    let from = match view.db.documents(DocumentKind::Seal)?.last() {
        Some(document) => parse(&document.body)?,
        None => Seal::origin(),
    };
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
    Ok(Unsealed { from, points, has_more })
}

/// Writes the new points, unless somebody else has sealed meanwhile.
pub(crate) fn put(unit: &mut Unit<'_>, found: &Unsealed) -> Result<Sealed, StoreError> {
    let Unsealed { from, points, has_more } = found;
    if !is_last(unit, from)? {
        return Ok(Sealed { seal: from.clone(), has_more: false });
    }
    for point in points {
        unit.put_document(DocumentKind::Seal, &key(point), Some(&encode(point)), |_| {})?;
    }
    Ok(Sealed { seal: points.last().unwrap_or(from).clone(), has_more: *has_more })
}

/// Whether this is still the newest point.
fn is_last(unit: &mut Unit<'_>, point: &Seal) -> Result<bool, StoreError> {
    let next = key(&Seal { through: point.through + 1, hash: String::new() });
    let (here, after) = (
        unit.document(DocumentKind::Seal, &key(point))?,
        unit.document(DocumentKind::Seal, &next)?.filter(|document| document.key != key(point)),
    );
    let is_here = here.map_or(Ok(Seal::origin()), |document| parse(&document.body))? == *point;
    Ok(is_here && after.is_none())
}

/// Under which the newest point of its stretch of the chain is kept.
fn key(point: &Seal) -> String {
    format!("{:020}", point.through.div_ceil(SEAL_EVERY) * SEAL_EVERY)
}
