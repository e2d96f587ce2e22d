//! Moves a job and applies the consequences: attempts, dependents, child groups, freed keys. Consequences are processed
//! from a list, never by recursion, and within the bounds of one commit (see `cascade.rs`).

use super::audit::RecordActor;
use super::cascade::Consequences;
use crate::error::InvalidTransition;
use crate::job::{
    AttemptOutcome, ChildGroup, ConcurrencyKey, GroupDecision, GroupStrategy, JobEvent, JobRecord, JobState,
    Parent, Seq, Spec, Transition, acts_at, spared, timer, transition,
};
use crate::store::documents::attempt::AttemptRecord;
use crate::store::documents::cascade::Task;
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{EngineResult, JobData, JobDataKind, JobDataWrite, Key, KeyKind};
use crate::store::tx::write_tx::WriteTx;

impl WriteTx<'_> {
    /// Applies an event to a job, with all consequences. Returns whether the job changed.
    pub(crate) fn apply(
        &mut self,
        seq: Seq,
        event: &JobEvent,
        cause: &RecordActor,
    ) -> EngineResult<Result<bool, InvalidTransition>> {
        let mut todo = Consequences::default();
        let result = self.apply_collecting(seq, event, cause, &mut todo)?;
        self.process(todo)?;
        Ok(result)
    }

    /// Applies an event to a job; consequences are added to `todo`.
    pub(in crate::store::command) fn apply_collecting(
        &mut self,
        seq: Seq,
        event: &JobEvent,
        cause: &RecordActor,
        todo: &mut Consequences,
    ) -> EngineResult<Result<bool, InvalidTransition>> {
        let now = self.now;
        let Some(before) = self.job(seq)?.cloned() else { return Ok(Ok(false)) };
        let change = match transition(&before, event, now) {
            Ok(Transition::Changed(change)) => change,
            Ok(Transition::Unchanged) => return Ok(Ok(false)),
            Err(refused) => return Ok(Err(refused)),
        };
        let mut after = change.job;
        if *event == JobEvent::Resume {
            after = self.with_renewed_ticket(after)?;
        }
        // Only a claimable job can be blocked.
        after.is_blocked &= after.state == JobState::Scheduled && before.state == JobState::Scheduled;
        // The attempt that completed a job is derived from the job itself.
        if let Some(outcome) = change.attempt
            && after.completed_by.is_none()
        {
            self.store_attempt(&before, &after, outcome);
        }
        // The worker does not know yet: the attempt was not ended by its own report.
        if change.attempt.is_some() && cause.kind != "worker" {
            self.interrupt();
        }
        self.record_transition(event, &before, &after, cause)?;
        if let Some(key) = after.concurrency
            && competes_for_key(&before)
            && !competes_for_key(&after)
        {
            todo.freed.push_back(key);
        }
        if after.state.is_final() && !before.state.is_final() {
            todo.ended.push_back(seq);
        }
        if before.state == JobState::Running && after.state != JobState::Running {
            // A worker that did not end the attempt itself must be notified, or two workers would run the job for a
            // while.
            if cause.kind != "worker" {
                self.interrupt();
            }
            // Other jobs may have waited for the slot that this one frees.
            if !self.config()?.running_limits(&after.lane).is_empty() {
                self.wake();
            }
        }
        self.put(after);
        Ok(Ok(true))
    }

    fn store_attempt(&mut self, before: &JobRecord, after: &JobRecord, outcome: AttemptOutcome) {
        let error = after.details.error.as_ref().filter(|error| error.attempt == before.attempt).cloned();
        let record = AttemptRecord {
            worker: before.lease.map(|lease| lease.worker),
            started_at: before.started_at.unwrap_or(self.now),
            ended_at: self.now,
            outcome,
            error,
        };
        self.write_job_data(JobDataWrite::Put(JobData {
            seq: before.seq,
            kind: JobDataKind::Attempt,
            name: String::new(),
            number: u64::from(before.attempt),
            body: encode(&record).into(),
        }));
    }

    /// Applies the consequences of a job's end for itself and its parent; consequences for other jobs are added to
    /// `todo`.
    pub(in crate::store::command) fn ended(&mut self, seq: Seq, todo: &mut Consequences) -> EngineResult<()> {
        let Some(job) = self.job(seq)?.cloned() else { return Ok(()) };
        if job.has.unique_key {
            self.free_unique_key(&job)?;
        }
        if job.has.dependents {
            let Seq(next) = self.allocate(0)?;
            todo.add(self.now, job.depth, Task::Dependents { job: seq, after: None, last: Seq(next - 1) });
        }
        if let Some(parent) = job.parent {
            self.child_ended_in(parent, job.state == JobState::Completed, todo)?;
        }
        if job.has.children && job.state == JobState::Cancelled {
            self.cancel_children_later(&job, None, "its parent was cancelled", todo);
        }
        if job.has.callback && !job.lane.is_internal() {
            self.call_back(&job)?;
        }
        Ok(())
    }

    fn free_unique_key(&mut self, job: &JobRecord) -> EngineResult<()> {
        let key_of = |spec: Spec| {
            let (tenant, job_type) = (job.lane.tenant.clone(), job.lane.job_type.clone());
            Some(Key { kind: KeyKind::Unique, tenant, job_type, text: spec.unique_key? })
        };
        let key = match self.spec_or_damage(job.seq)? {
            Ok(spec) => key_of(spec),
            // The text may have been changed: only a key that this job holds is released.
            Err(_) => match self.raw(|db| db.damaged_spec(job.seq))?.and_then(key_of) {
                Some(key) => {
                    let holder = self.db()?.keyed(std::slice::from_ref(&key))?.pop().flatten();
                    holder.is_some_and(|holder| holder.seq == job.seq).then_some(key)
                }
                None => None,
            },
        };
        if let Some(key) = key {
            self.release_key(key);
        }
        Ok(())
    }

    fn child_ended_in(
        &mut self,
        parent: Parent,
        is_completed: bool,
        todo: &mut Consequences,
    ) -> EngineResult<()> {
        let Some(mut group) = self.child_group(parent.seq, parent.group)? else { return Ok(()) };
        let decided = group.child_ended(is_completed);
        self.put_child_group(parent.seq, parent.group, &group);
        if decided.is_some() {
            self.group_decided(parent.seq, parent.group, &group, todo)?;
        }
        Ok(())
    }

    /// Wakes a parent whose group was decided before it parked.
    pub(crate) fn wake_if_decided(&mut self, parent: Seq, number: u64) -> EngineResult<()> {
        let group = self.child_group(parent, number)?.filter(|group| group.decided.is_some());
        let Some(group) = group else { return Ok(()) };
        let mut todo = Consequences::default();
        self.group_decided(parent, number, &group, &mut todo)?;
        self.process(todo)?;
        Ok(())
    }

    /// Wakes the parent that waits for a group, and cancels the children that are no longer needed.
    fn group_decided(
        &mut self,
        parent: Seq,
        number: u64,
        group: &ChildGroup,
        todo: &mut Consequences,
    ) -> EngineResult<()> {
        let Some(job) = self.job(parent)?.cloned() else { return Ok(()) };
        if job.details.wait.as_ref().is_some_and(|wait| wait.is_for_group(number)) {
            let _refused = self.apply_collecting(parent, &JobEvent::Wake, &RecordActor::system(), todo)?;
        }
        if group.open > 0 && group.strategy != GroupStrategy::CollectAll {
            let reason = match group.decided {
                Some(GroupDecision::Badly) => "its group cannot succeed any more",
                _ => "its group has succeeded without it",
            };
            self.cancel_children_later(&job, Some(number), reason, todo);
        }
        Ok(())
    }

    fn cancel_children_later(
        &self,
        parent: &JobRecord,
        group: Option<u64>,
        reason: &str,
        todo: &mut Consequences,
    ) {
        let (reason, after) = (reason.to_owned(), None);
        let task = Task::Children { parent: parent.seq, id: parent.id, group, reason, after };
        todo.add(self.now, parent.depth, task);
    }

    /// Unblocks the next job of each lane that is blocked on this key. It does so in every lane, because a paused lane
    /// must not block the others.
    pub(in crate::store::command) fn unblock(&mut self, key: ConcurrencyKey) -> EngineResult<()> {
        for job in self.db()?.set_aside(key)? {
            let seq = self.cache_job(job);
            self.set_blocked(seq, false)?;
        }
        Ok(())
    }

    /// Blocks a claimable job, or unblocks it.
    pub(crate) fn set_blocked(&mut self, seq: Seq, is_blocked: bool) -> EngineResult<()> {
        if let Some(job) = self.job(seq)?.cloned()
            && job.state == JobState::Scheduled
        {
            self.put(JobRecord { is_blocked, ..job });
        }
        Ok(())
    }

    /// A group of children.
    pub(crate) fn child_group(&mut self, parent: Seq, group: u64) -> EngineResult<Option<ChildGroup>> {
        let found = self.job_data(parent, JobDataKind::Group, "", group)?;
        found.map(|body| parse(&body)).transpose()
    }

    /// Stores a group of children.
    pub(crate) fn put_child_group(&mut self, parent: Seq, number: u64, group: &ChildGroup) {
        self.write_job_data(JobDataWrite::Put(JobData {
            seq: parent,
            kind: JobDataKind::Group,
            name: String::new(),
            number,
            body: encode(group).into(),
        }));
    }

    /// Applies due timers to a job before a command uses it, so that no answer depends on when maintenance last ran.
    pub(crate) fn apply_due_timers(&mut self, seq: Seq) -> EngineResult<()> {
        if self.release_if_older(seq)? {
            // The lease has expired, even if the command that triggered this fails.
            self.begin();
        }
        // Each step advances the job; a resume may be followed by a wake or a promotion.
        for _ in 0..4 {
            let (now, env, grace) = (self.now, self.env, self.grace);
            let Some(job) = self.job(seq)? else { return Ok(()) };
            if acts_at(job).is_none_or(|at| at > now) {
                return Ok(());
            }
            if let Some(spared) = spared(job, now, &grace) {
                self.put(spared);
                self.begin();
                continue;
            }
            let Some(event) = timer(job, now, &grace, env.entropy.fraction()) else { return Ok(()) };
            if event == JobEvent::Wake {
                self.keep_timeout_of_wait(seq)?;
            }
            let _refused = self.apply(seq, &event, &RecordActor::system())?;
            // Timer effects are committed even if the command that triggered them fails.
            self.begin();
        }
        Ok(())
    }
}

/// Whether a job runs, or is the next to run, for its concurrency key.
fn competes_for_key(job: &JobRecord) -> bool {
    job.state == JobState::Running || (job.state == JobState::Scheduled && !job.is_blocked)
}
