//! Which final jobs other jobs still need. Deleting and pruning both check this, so that no job loses a result it has
//! yet to read or a dependency it has yet to start after.

use crate::error::StoreError;
use crate::job::{JobRecord, NeededBy, Seq};
use crate::limits;
use crate::store::tx::write_tx::WriteTx;

/// The first job that still needs this one, if any.
pub(crate) fn needed_by(tx: &mut WriteTx<'_>, job: &JobRecord) -> Result<Option<NeededBy>, StoreError> {
    if let Some(parent) = job.parent
        && let Some(parent) = tx.job(parent.seq)?.filter(|parent| !parent.state.is_final())
    {
        return Ok(Some(NeededBy::Parent(parent.id)));
    }
    if !job.has.dependents {
        return Ok(None);
    }
    let (mut after, mut left) = (None, limits::DEPENDENTS_LOOKED_AT);
    loop {
        // Read directly from the engine: the transaction would cache every dependent of a job that has very many.
        let db = tx.db()?;
        let page = db.dependents(job.seq, after, limits::CASCADE_PAGE)?;
        let seqs: Vec<Seq> = page.iter().map(|edge| edge.dependent).collect();
        let dependents = db.load(&seqs)?;
        tx.dependents_seen += page.len();
        let mut stored = dependents.iter().flatten();
        if let Some(dependent) = stored.clone().find(|dependent| !dependent.state.is_final()) {
            return Ok(Some(NeededBy::Dependent(dependent.id)));
        }
        if page.len() > left
            && let Some(dependent) = stored.next_back()
        {
            return Ok(Some(NeededBy::Dependents(dependent.id)));
        }
        left = left.saturating_sub(page.len());
        match page.last() {
            Some(last) if page.len() == limits::CASCADE_PAGE => after = Some((last.dependent, last.need)),
            _ => return Ok(None),
        }
    }
}

/// Whether a commit that removes jobs one by one has scanned as many dependents as it may.
pub(crate) fn has_looked_at_enough(tx: &WriteTx<'_>) -> bool {
    tx.dependents_seen >= limits::DEPENDENTS_LOOKED_AT
}
