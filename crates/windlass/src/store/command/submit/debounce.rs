//! Debouncing: of submissions close together only the last counts. Only the payload of a job that has not started is
//! replaced, so no payload changes after an attempt used it; the audit trail records the change.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::keys::Duplicate;
use super::{Batch, DependencyRef, invalid};
use crate::audit::AuditEvent;
use crate::clock::Timestamp;
use crate::error::{FieldProblem, StoreError, SubmitError};
use crate::job::{Debounce, JobRecord, JobState, Lane, NewJob, Seq};
use crate::store::command::effects::audit::RecordActor;
use crate::store::tx::write_tx::WriteTx;

/// The job that later submissions with a debounce key update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    seq: Seq,
}

/// The document key that maps a debounce key to its job. Submissions that require different versions do not replace each
/// other: a payload for one version is not run by another.
fn document(lane: &Lane, debounce: &Debounce) -> String {
    // Only the key may contain spaces.
    let version = lane.version.as_ref().map_or(String::new(), |version| format!("-for {version}"));
    format!("debounce{version} {} {} {}", lane.tenant, lane.job_type, debounce.key)
}

/// Whether a job's payload may still be replaced: no attempt has started.
fn has_not_started(job: &JobRecord) -> bool {
    job.attempt == 0 && !job.state.is_final()
}

impl Batch<'_> {
    /// Finds the waiting jobs with the same debounce key: their submissions add no job.
    pub(super) fn find_debounced(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &mut HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (index, job) in self.jobs.iter().enumerate() {
            let Some(debounce) = &job.debounce else { continue };
            if self.spawning.is_some() {
                let problem = FieldProblem::Contradiction("children cannot be debounced".into());
                return Err(invalid(index, "debounce", problem));
            }
            let document = document(&self.lanes[index], debounce);
            if let Some(first) = seen.insert(document.clone(), index) {
                let twice = format!("job {first} of the same batch has it");
                return Err(invalid(index, "debounce.key", FieldProblem::Contradiction(twice)));
            }
            if duplicates.contains_key(&index) {
                continue;
            }
            if let Some(seq) = tx.debounced(&document)? {
                if let (Some(found), Some(spec)) = (tx.job(seq)?.cloned(), tx.spec(seq)?) {
                    self.caller.require_manage(&found, &spec)?;
                }
                let target = DependencyRef::Stored(seq);
                let duplicate =
                    Duplicate { target, payload_differs: false, is_debounced: true, removed: None };
                duplicates.insert(index, duplicate);
            }
        }
        Ok(())
    }

    /// Gives waiting jobs their new payload and delay, and stores new ones for the next submission. Runs last: nothing
    /// is refused after it.
    pub(super) fn debounce(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &HashMap<usize, Duplicate>,
        seqs: &[Seq],
    ) -> Result<(), SubmitError> {
        for (index, new) in self.jobs.iter().enumerate() {
            let Some(debounce) = &new.debounce else { continue };
            match duplicates.get(&index) {
                Some(duplicate) if duplicate.is_debounced => self.replace(tx, seqs[index], new)?,
                Some(_) => {}
                None => {
                    let document = document(&self.lanes[index], debounce);
                    tx.put_usage(document.clone(), Some(&Holder { seq: seqs[index] }));
                    tx.watch_debounced(document, new.runs_at(tx.now))?;
                }
            }
        }
        Ok(())
    }

    fn replace(&self, tx: &mut WriteTx<'_>, seq: Seq, new: &NewJob) -> Result<(), StoreError> {
        let Some(before) = tx.job(seq)?.cloned() else { return Ok(()) };
        let old = tx.spec(seq)?;
        tx.rewrite(seq, &new.payload)?;
        let mut after = JobRecord { updated_at: tx.now, ..before.clone() };
        // A job whose delay is over is about to run, and runs with the payload submitted last.
        if before.state != JobState::Scheduled {
            after.run_at = new.runs_at(tx.now);
        }
        if let Some((old, new)) = old.zip(tx.spec(seq)?) {
            after = tx.with_ticket_for_change(after, &old, &new);
        }
        let context = json!({"job_id": after.id.to_string(), "actor_id": self.caller.id,
            "previous_run_at": before.run_at.to_string(), "run_at": after.run_at.to_string()});
        let cause = RecordActor::caller(self.caller, None);
        tx.record_job(AuditEvent::Debounced, &before, &after, &cause, Some(context))?;
        tx.put(after);
        tx.apply_due_timers(seq)
    }
}

impl WriteTx<'_> {
    /// The job that has a debounce key and has not started. Applies due timers first.
    fn debounced(&mut self, document: &str) -> Result<Option<Seq>, StoreError> {
        let Some(Holder { seq }) = self.usage(document)? else { return Ok(None) };
        self.apply_due_timers(seq)?;
        Ok(self.job(seq)?.filter(|job| has_not_started(job)).map(|job| job.seq))
    }

    /// Removes a debounce key whose job has started or no longer exists; returns when to check again otherwise.
    pub(crate) fn remove_debounced(&mut self, document: &str) -> Result<Option<Timestamp>, StoreError> {
        let holder: Option<Holder> = self.usage(document)?;
        let job = match holder {
            Some(Holder { seq }) => self.job(seq)?.filter(|job| has_not_started(job)),
            None => return Ok(None),
        };
        let run_at = job.map(|job| job.run_at);
        if run_at.is_none() {
            self.put_usage::<Holder>(document.to_owned(), None);
        }
        Ok(run_at)
    }
}
