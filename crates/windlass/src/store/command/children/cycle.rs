//! Refuses children that could never start: they depend on their parent, or on a job that waits for it.

use std::collections::BTreeSet;

use super::refusal;
use crate::error::{FieldProblem, StoreError, WorkError};
use crate::job::{Dependency, JobId, JobRecord, Need, NewJob, Seq};
use crate::limits;
use crate::store::tx::write_tx::WriteTx;

/// Refuses a child that depends on its own parent and, if the parent parks until the children have ended, one that
/// depends on a job that waits for the parent: each would wait for the other forever.
pub(super) fn check(
    tx: &mut WriteTx<'_>,
    parent: &JobRecord,
    jobs: &[NewJob],
    parks: bool,
) -> Result<(), WorkError> {
    let stored = |job: &NewJob| -> Vec<JobId> {
        let all = job.after.iter().chain(&job.after_any);
        let id = |dependency: &Dependency| match dependency {
            Dependency::Job(id) => Some(*id),
            Dependency::Named(_) => None,
        };
        all.filter_map(id).collect()
    };
    if jobs.iter().all(|job| stored(job).is_empty()) {
        return Ok(());
    }
    let mut waiting = BTreeSet::from([parent.id]);
    if parks {
        add_waiting(tx, parent, &mut waiting)?;
    }
    for (index, job) in jobs.iter().enumerate() {
        if let Some(id) = stored(job).into_iter().find(|id| waiting.contains(id)) {
            return Err(refusal(index, "after", FieldProblem::Cycle(id.to_string())));
        }
    }
    Ok(())
}

/// Adds the jobs that wait for this one, directly or through others, as its dependents or as parents of a group. Looks
/// at a bounded number of them.
fn add_waiting(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    waiting: &mut BTreeSet<JobId>,
) -> Result<(), StoreError> {
    let mut open = vec![job.clone()];
    let mut left = limits::DEPENDENTS_LOOKED_AT;
    while let Some(job) = open.pop() {
        if let Some(of) = job.parent
            && let Some(parent) = tx.job(of.seq)?.cloned()
            && parent.details.wait.as_ref().is_some_and(|wait| wait.is_for_group(of.group))
            && waiting.insert(parent.id)
        {
            open.push(parent);
        }
        let mut after = None;
        while job.has.dependents && left > 0 {
            let db = tx.db()?;
            let page = db.dependents(job.seq, after, limits::CASCADE_PAGE)?;
            let seqs: Vec<Seq> = page.iter().map(|edge| edge.dependent).collect();
            let dependents = db.load(&seqs)?;
            for (edge, dependent) in page.iter().zip(dependents) {
                let waits = |dependent: &JobRecord| match edge.need {
                    Need::After => !dependent.state.is_final(),
                    Need::AfterAny => !dependent.state.is_final() && dependent.any_unmet,
                };
                if let Some(dependent) = dependent.filter(waits)
                    && waiting.insert(dependent.id)
                {
                    open.push(dependent);
                }
            }
            left = left.saturating_sub(page.len().max(1));
            match page.last() {
                Some(last) if page.len() == limits::CASCADE_PAGE => after = Some((last.dependent, last.need)),
                _ => break,
            }
        }
    }
    Ok(())
}
