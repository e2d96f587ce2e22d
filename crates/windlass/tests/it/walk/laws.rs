//! What must hold from one look to the next, whatever was done: what two engines that share their rules could both get
//! wrong.

use std::collections::HashMap;

use windlass::audit::{AuditEvent, Record};
use windlass::job::{Fence, Job, JobId, Priority, State};
use windlass::store::command::finish::Finish;
use windlass::store::command::heartbeat::Directive;
use windlass::store::query::snapshot::Snapshot;

use super::operation::{Answer, Operation};

/// All jobs as they were at the last look, and the last fence that each was given out with.
#[derive(Default)]
pub(super) struct Laws {
    before: HashMap<JobId, Job>,
    fences: HashMap<JobId, Fence>,
}

impl Laws {
    /// Compares every job with how it was: what is final stays (M2), what counts never falls (M5).
    pub(super) fn look(&mut self, now: &[Snapshot]) -> Result<(), String> {
        for Snapshot { job, spec, .. } in now {
            if let Some(before) = self.before.get(&job.id) {
                grew(before, job)?;
            }
            if spec.payload.bytes.is_empty() {
                return Err(format!("job {} has lost its payload", job.id));
            }
        }
        self.before = now.iter().map(|found| (found.job.id, found.job.clone())).collect();
        now.iter().try_for_each(|found| self.inherits(found))
    }

    /// M24: a job that waits is as urgent as the most urgent of those it waits for.
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

    /// M5: fences only grow, and nothing is taken from a worker that does not name the last one.
    pub(super) fn answered(&mut self, operation: &Operation, answer: &Answer) -> Result<(), String> {
        match (operation, answer) {
            (_, Answer::Claimed(_, Ok(claimed))) => {
                for claimed in &claimed.jobs {
                    let (job, fence) = (claimed.job.id, claimed.job.fence);
                    if self.fences.insert(job, fence).is_some_and(|before| before >= fence) {
                        return Err(format!("job {job} was given out again with {fence:?}"));
                    }
                }
                Ok(())
            }
            (Operation::Finish(_, _, reports), Answer::Finished(Ok(ends))) => {
                let taken = reports.iter().zip(ends).filter(|(_, end)| matches!(end, Finish::Applied(_)));
                taken.into_iter().try_for_each(|(report, _)| self.is_last(report.job, report.fence))
            }
            (Operation::Heartbeat(_, _, beats), Answer::Beaten(Ok(pulse))) => {
                let taken = beats.iter().zip(&pulse.directives);
                let mut taken = taken.filter(|(_, (_, directive))| *directive == Directive::Continue);
                taken.try_for_each(|(beat, _)| self.is_last(beat.job, beat.fence))
            }
            (Operation::Note(_, hand, _), Answer::Noted(Ok(()))) => self.is_last(hand.job, hand.fence),
            (Operation::Spawn(_, hand, _), Answer::Spawned(Ok(spawned))) => {
                // M64: a group that is decided is no reason to stop again.
                if spawned.is_known && spawned.parent.state == State::Scheduled {
                    return Err(format!("job {} was stopped for nothing", spawned.parent.id));
                }
                self.is_last(hand.job, hand.fence)
            }
            _ => Ok(()),
        }
    }

    fn is_last(&self, job: JobId, fence: Fence) -> Result<(), String> {
        match self.fences.get(&job) {
            Some(last) if *last == fence => Ok(()),
            last => Err(format!("job {job} was given out with {last:?}, but {fence:?} was taken")),
        }
    }
}

/// The live trail of every job: each step begins where the one before it ended (M3).
#[derive(Default)]
pub(super) struct Steps {
    states: HashMap<JobId, State>,
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

fn grew(before: &Job, now: &Job) -> Result<(), String> {
    let counts =
        |job: &Job| [u64::from(job.attempt), u64::from(job.failures), u64::from(job.crashes), job.fence.0];
    let has_fallen = counts(before).iter().zip(counts(now)).any(|(before, now)| *before > now);
    if has_fallen || before.updated_at > now.updated_at || before.expires_at > now.expires_at {
        return Err(format!("job {} went back\n  from {before:?}\n  to {now:?}", now.id));
    }
    let has_changed =
        |job: &Job| (job.state, job.completed_at, job.fence, job.cost_cents, job.details.error.clone());
    if before.state.is_final() && has_changed(before) != has_changed(now) {
        return Err(format!("job {} was final\n  {before:?}\n  and is now {now:?}", now.id));
    }
    Ok(())
}

/// The step that a record tells of, if it tells of one.
pub(super) fn step_of(record: &Record) -> Option<(State, State)> {
    // A lease that ended is told of beside what that led to.
    if record.event == AuditEvent::Reaped {
        return None;
    }
    let context: serde_json::Value = serde_json::from_str(&record.context).ok()?;
    let state = |name: &str| context.get(name)?.as_str()?.parse().ok();
    Some((state("previous_state")?, state("state")?))
}
