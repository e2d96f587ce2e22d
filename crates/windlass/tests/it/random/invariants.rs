//! What must hold from one look to the next, whatever was done: what two engines that share their rules could both get
//! wrong.

use std::collections::{HashMap, HashSet};

use windlass::audit::{AuditEvent, Record};
use windlass::clock::Timestamp;
use windlass::job::{Fence, JobId, JobRecord, JobState, JobType, Priority, Tenant, WorkerId};
use windlass::store::{Directive, Finish, Snapshot, StoreOptions};

use super::operation::{Answer, Operation};

/// All jobs as they were at the last look, the last fence and worker that each was given out with, and the store's
/// generation.
#[derive(Default)]
pub(super) struct Laws {
    before: HashMap<JobId, JobRecord>,
    claims: HashMap<JobId, (Fence, WorkerId)>,
    generation: u64,
    /// The children of each parent, as they were spawned.
    children: HashMap<JobId, Vec<JobId>>,
    /// Until when each idempotency key stands for which job, by tenant, type and key.
    keys: HashMap<(Tenant, JobType, String), (Timestamp, JobId)>,
    /// Keys of jobs that were to be submitted with an outcome, whose answer does not say whether they were.
    follow_up_keys: HashSet<(JobType, String)>,
}

impl Laws {
    /// Compares every job with how it was: what is final stays (Model: final-states), what counts never falls (Model: counters-and-fences).
    pub(super) fn check(&mut self, now: &[Snapshot]) -> Result<(), String> {
        for Snapshot { job, spec, .. } in now {
            if let Some(before) = self.before.get(&job.id) {
                grew(before, job)?;
            }
            if spec.payload.bytes.is_empty() {
                return Err(format!("job {} has lost its payload", job.id));
            }
        }
        let before = std::mem::take(&mut self.before);
        self.before = now.iter().map(|found| (found.job.id, found.job.clone())).collect();
        now.iter().try_for_each(|found| self.has_what_it_needs(&before, found))?;
        now.iter().try_for_each(|found| self.inherits(found))
    }

    /// Model: dependencies, child-groups. Nothing that a live job needs is deleted or pruned: no child of it, nothing that it depends on.
    fn has_what_it_needs(
        &self,
        before: &HashMap<JobId, JobRecord>,
        Snapshot { job, spec, .. }: &Snapshot,
    ) -> Result<(), String> {
        if job.state.is_final() {
            return Ok(());
        }
        let children = self.children.get(&job.id).into_iter().flatten();
        let was_there = |id: &&JobId| before.contains_key(&job.id) && before.contains_key(*id);
        let mut needed = children.chain(spec.after.iter().chain(&spec.after_any).filter(was_there));
        match needed.find(|id| !self.before.contains_key(*id)) {
            Some(gone) => Err(format!("job {} needs {gone}, which is gone: {job:?}", job.id)),
            None => Ok(()),
        }
    }

    /// Model: inherited-priority. A job that waits is as urgent as the most urgent of those it waits for.
    fn inherits(&self, Snapshot { job, spec, .. }: &Snapshot) -> Result<(), String> {
        if job.state.is_final() || !job.has_unmet_dependencies() {
            return Ok(());
        }
        let mut most = Priority::BULK;
        for id in spec.after.iter().chain(&spec.after_any) {
            // What was removed may have been more urgent.
            let Some(dependency) = self.before.get(id) else { return Ok(()) };
            most = most.max(dependency.effective_priority());
        }
        if job.inherited == most {
            return Ok(());
        }
        Err(format!("job {} inherits {:?}, not {most:?}", job.id, job.inherited))
    }

    /// Model: idempotency-key. Within its window a key stands for one job, whether that is still stored or not.
    pub(super) fn submitted(
        &mut self,
        now: Timestamp,
        operation: &Operation,
        answer: &Answer,
    ) -> Result<(), String> {
        if let Operation::Finish(_, _, reports) = operation {
            for new in reports.iter().flat_map(|report| &report.follow_ups) {
                let key = new.idempotency_key.clone().map(|text| (new.job_type.clone(), text));
                self.follow_up_keys.extend(key);
            }
        }
        let (Operation::Submit(_, jobs, _), Answer::Submitted(Ok(receipts))) = (operation, answer) else {
            return Ok(());
        };
        for (new, receipt) in jobs.iter().zip(receipts) {
            let Some(text) = &new.idempotency_key else { continue };
            let lane = &receipt.job.lane;
            let key = (lane.tenant.clone(), lane.job_type.clone(), text.clone());
            let holder = self.keys.get(&key).filter(|(until, _)| *until > now);
            match holder {
                Some((_, holder)) if !receipt.is_duplicate || receipt.job.id != *holder => {
                    return Err(format!("key {key:?} stands for {holder}, but {receipt:?}"));
                }
                Some(_) => {}
                // Jobs of one batch are one whatever the window.
                None if receipts
                    .iter()
                    .any(|other| !other.is_duplicate && other.job.id == receipt.job.id)
                    && receipt.is_duplicate => {}
                None if receipt.is_duplicate
                    && self.follow_up_keys.contains(&(key.1.clone(), key.2.clone())) => {}
                None if receipt.is_duplicate => {
                    return Err(format!("key {key:?} stands for nothing, but {receipt:?}"));
                }
                None if receipt.is_debounced => {}
                None => {
                    let window = new.idempotency_window.unwrap_or(StoreOptions::default().idempotency_window);
                    self.keys.insert(key, (now.plus(window), receipt.job.id));
                }
            }
        }
        Ok(())
    }

    /// Model: counters-and-fences. Fences only grow, and nothing is taken but from the worker that claimed last, with the fence it was given, in
    /// the generation that gave it (Model: store-generation).
    pub(super) fn answered(&mut self, operation: &Operation, answer: &Answer) -> Result<(), String> {
        match (operation, answer) {
            (_, Answer::Claimed(_, Ok(claimed))) => {
                for claimed in &claimed.jobs {
                    let (job, fence) = (claimed.job.id, claimed.job.fence);
                    let Some(lease) = claimed.job.lease else {
                        return Err(format!("job {job} has no lease"));
                    };
                    let before = self.claims.insert(job, (fence, lease.worker));
                    if before.is_some_and(|(before, _)| before >= fence) {
                        return Err(format!("job {job} was given out again with {fence:?}"));
                    }
                    if fence.generation() < self.generation {
                        return Err(format!(
                            "job {job} was given out with {fence:?} of an earlier generation"
                        ));
                    }
                }
                Ok(())
            }
            (_, Answer::Began(Ok(begun))) => {
                if begun.number <= self.generation {
                    return Err(format!("generation {} came twice", begun.number));
                }
                self.generation = begun.number;
                Ok(())
            }
            (Operation::Finish(_, worker, reports), Answer::Finished(Ok(ends))) => {
                let taken = reports.iter().zip(ends).filter(|(_, end)| matches!(end, Finish::Applied(_)));
                taken
                    .into_iter()
                    .try_for_each(|(report, _)| self.is_last(report.job, report.fence, Some(*worker)))
            }
            (Operation::Heartbeat(_, worker, beats), Answer::Beaten(Ok(reply))) => {
                let taken = beats.iter().zip(&reply.directives);
                let mut taken = taken.filter(|(_, (_, directive))| *directive == Directive::Continue);
                taken.try_for_each(|(beat, _)| self.is_last(beat.job, beat.fence, Some(*worker)))
            }
            (Operation::AttemptWrite(_, lease, _), Answer::Noted(Ok(()))) => {
                self.is_last(lease.job, lease.fence, lease.worker)
            }
            (Operation::Spawn(_, lease, _), Answer::Spawned(Ok(spawned))) => {
                // Model: child-groups. A decided group does not stop the parent again.
                if spawned.is_known && spawned.parent.state == JobState::Scheduled {
                    return Err(format!("job {} was stopped for nothing", spawned.parent.id));
                }
                if !spawned.is_known {
                    let ids = spawned.children.iter().map(|child| child.id);
                    self.children.entry(spawned.parent.id).or_default().extend(ids);
                }
                self.is_last(lease.job, lease.fence, lease.worker)
            }
            _ => Ok(()),
        }
    }

    fn is_last(&self, job: JobId, fence: Fence, worker: Option<WorkerId>) -> Result<(), String> {
        let last = self.claims.get(&job);
        let is_taken_from_the_last = last.is_some_and(|(last, holder)| {
            *last == fence
                && worker.is_none_or(|worker| worker == *holder)
                && fence.generation() >= self.generation
        });
        if is_taken_from_the_last {
            return Ok(());
        }
        Err(format!("job {job} was given out with {last:?}, but {fence:?} of {worker:?} was taken"))
    }
}

/// The live trail of every job: each step begins where the one before it ended (Model: atomic-changes).
#[derive(Default)]
pub(super) struct Steps {
    states: HashMap<JobId, JobState>,
}

impl Steps {
    pub(super) fn take(&mut self, record: &Record) -> Result<(), String> {
        let (Some(job), Some((from, to))) = (record.job, step_of(record)) else { return Ok(()) };
        match self.states.insert(job, to) {
            Some(known) if known != from => Err(format!("job {job} was {known}, but {record:?}")),
            _ => Ok(()),
        }
    }
}

/// What counts has not fallen, and what was final is as it was.
pub(crate) fn grew(before: &JobRecord, now: &JobRecord) -> Result<(), String> {
    let counts = |job: &JobRecord| {
        [u64::from(job.attempt), u64::from(job.failures), u64::from(job.crashes), job.fence.0]
    };
    let has_fallen = counts(before).iter().zip(counts(now)).any(|(before, now)| *before > now);
    if has_fallen || before.updated_at > now.updated_at || before.expires_at > now.expires_at {
        return Err(format!("job {} went back\n  from {before:?}\n  to {now:?}", now.id));
    }
    let has_changed =
        |job: &JobRecord| (job.state, job.completed_at, job.fence, job.cost_cents, job.details.error.clone());
    if before.state.is_final() && has_changed(before) != has_changed(now) {
        return Err(format!("job {} was final\n  {before:?}\n  and is now {now:?}", now.id));
    }
    Ok(())
}

/// The step that a record tells of, if it tells of one.
pub(super) fn step_of(record: &Record) -> Option<(JobState, JobState)> {
    // An expired lease is recorded beside its consequence.
    if record.event == AuditEvent::Reaped {
        return None;
    }
    let context: serde_json::Value = serde_json::from_str(&record.context).ok()?;
    let state = |name: &str| context.get(name)?.as_str()?.parse().ok();
    Some((state("previous_state")?, state("state")?))
}
