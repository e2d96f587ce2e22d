//! Moving a job and everything that follows from it, in one commit: attempts, dependents, child groups, freed keys. The
//! consequences are worked off a list, never by recursion.

use std::collections::VecDeque;

use super::record::Cause;
use crate::error::Refused;
use crate::job::{
    AttemptOutcome, ChildGroup, ConcurrencyKey, Decided, Event, GroupStrategy, Job, Parent, Seq, State,
    Transition, Wait, acts_at, timer, transition,
};
use crate::limits;
use crate::store::attempt::AttemptRecord;
use crate::store::config::{encode, parse};
use crate::store::engine::{EngineResult, Facet, FacetKind, FacetWrite, Key, KeyKind, Place, Side};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::unit::Unit;

/// What follows from a change.
enum Consequence {
    /// The job became final.
    Ended(Seq),
    /// A holder of this key, or a candidate for it, went.
    KeyFreed(ConcurrencyKey),
}

impl Unit<'_> {
    /// Lets an event happen to a job, with all that follows. Says whether the job changed.
    pub(crate) fn apply(
        &mut self,
        seq: Seq,
        event: &Event,
        cause: &Cause,
    ) -> EngineResult<Result<bool, Refused>> {
        let mut todo = VecDeque::new();
        let result = self.step(seq, event, cause, &mut todo)?;
        self.work_off(todo)?;
        Ok(result)
    }

    fn work_off(&mut self, mut todo: VecDeque<Consequence>) -> EngineResult<()> {
        while let Some(next) = todo.pop_front() {
            match next {
                Consequence::Ended(seq) => self.ended(seq, &mut todo)?,
                Consequence::KeyFreed(key) => self.unblock(key)?,
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        seq: Seq,
        event: &Event,
        cause: &Cause,
        todo: &mut VecDeque<Consequence>,
    ) -> EngineResult<Result<bool, Refused>> {
        let now = self.now;
        let Some(before) = self.job(seq)?.cloned() else { return Ok(Ok(false)) };
        let change = match transition(&before, event, now) {
            Ok(Transition::Changed(change)) => change,
            Ok(Transition::Unchanged) => return Ok(Ok(false)),
            Err(refused) => return Ok(Err(refused)),
        };
        let mut after = change.job;
        if *event == Event::Resume {
            after = self.with_renewed_ticket(after)?;
        }
        // Only a claimable job can be set aside.
        after.is_blocked &= after.state == State::Scheduled && before.state == State::Scheduled;
        // The attempt that completed a job follows from the job itself.
        if let Some(outcome) = change.attempt
            && after.completed_by.is_none()
        {
            self.keep_attempt(&before, &after, outcome);
        }
        // Whoever runs it does not know yet: it was not its own report that ended the attempt.
        if change.attempt.is_some() && cause.kind != "worker" {
            self.interrupt();
        }
        self.record_transition(event, &before, &after, cause)?;
        if let Some(key) = after.concurrency
            && competes(&before)
            && !competes(&after)
        {
            todo.push_back(Consequence::KeyFreed(key));
        }
        if after.state.is_final() && !before.state.is_final() {
            todo.push_back(Consequence::Ended(seq));
        }
        if before.state == State::Running && after.state != State::Running {
            // Whoever did not end the attempt itself must hear of it, or two would run for a while.
            if cause.kind != "worker" {
                self.interrupt();
            }
            // Others may have waited for this one's place.
            if !self.config()?.running_limits(&after.lane).is_empty() {
                self.wake();
            }
        }
        self.put(after);
        Ok(Ok(true))
    }

    fn keep_attempt(&mut self, before: &Job, after: &Job, outcome: AttemptOutcome) {
        let error = after.details.error.as_ref().filter(|error| error.attempt == before.attempt).cloned();
        let record = AttemptRecord {
            worker: before.lease.map(|lease| lease.worker),
            started_at: before.started_at.unwrap_or(self.now),
            ended_at: self.now,
            outcome,
            error,
        };
        self.write_facet(FacetWrite::Put(Facet {
            seq: before.seq,
            kind: FacetKind::Attempt,
            name: String::new(),
            number: u64::from(before.attempt),
            body: encode(&record).into(),
        }));
    }

    fn ended(&mut self, seq: Seq, todo: &mut VecDeque<Consequence>) -> EngineResult<()> {
        let Some(job) = self.job(seq)?.cloned() else { return Ok(()) };
        if job.has.unique_key {
            self.free_unique_key(&job)?;
        }
        if job.has.dependents {
            self.tell_dependents(&job, todo)?;
        }
        if let Some(parent) = job.parent {
            self.tell_parent(parent, job.state == State::Completed, todo)?;
        }
        if job.has.children && job.state == State::Cancelled {
            self.cancel_children(&job, None, "its parent was cancelled", todo)?;
        }
        if job.has.callback && !job.lane.is_internal() {
            self.call_back(&job)?;
        }
        Ok(())
    }

    fn free_unique_key(&mut self, job: &Job) -> EngineResult<()> {
        if let Some(text) = self.spec(job.seq)?.and_then(|spec| spec.unique_key) {
            let (tenant, job_type) = (job.lane.tenant.clone(), job.lane.job_type.clone());
            self.release_key(Key { kind: KeyKind::Unique, tenant, job_type, text });
        }
        Ok(())
    }

    fn tell_dependents(&mut self, job: &Job, todo: &mut VecDeque<Consequence>) -> EngineResult<()> {
        let edges = self.db()?.edges(&[job.seq], Side::Dependency)?;
        self.load(&edges.iter().map(|edge| edge.dependent).collect::<Vec<_>>())?;
        for edge in edges {
            let event = Event::DependencyEnded { need: edge.need, state: job.state };
            // A dependent that has moved on by itself (cancelled, or content with another) does not listen any more.
            let _refused = self.step(edge.dependent, &event, &Cause::system(), todo)?;
        }
        Ok(())
    }

    fn tell_parent(
        &mut self,
        parent: Parent,
        is_completed: bool,
        todo: &mut VecDeque<Consequence>,
    ) -> EngineResult<()> {
        let Some(mut group) = self.child_group(parent.seq, parent.group)? else { return Ok(()) };
        let decided = group.child_ended(is_completed);
        self.put_child_group(parent.seq, parent.group, &group);
        if decided.is_some() {
            self.group_decided(parent.seq, parent.group, &group, todo)?;
        }
        Ok(())
    }

    /// Wakes a parent that parked on a group which was decided before it parked.
    pub(crate) fn wake_if_decided(&mut self, parent: Seq, number: u64) -> EngineResult<()> {
        let group = self.child_group(parent, number)?.filter(|group| group.decided.is_some());
        let Some(group) = group else { return Ok(()) };
        let mut todo = VecDeque::new();
        self.group_decided(parent, number, &group, &mut todo)?;
        self.work_off(todo)
    }

    /// Wakes the parent that waits for a group, and cancels the children nobody waits for any more.
    fn group_decided(
        &mut self,
        parent: Seq,
        number: u64,
        group: &ChildGroup,
        todo: &mut VecDeque<Consequence>,
    ) -> EngineResult<()> {
        let Some(job) = self.job(parent)?.cloned() else { return Ok(()) };
        if job.details.wait == Some(Wait::Children { group: number }) {
            let _refused = self.step(parent, &Event::Wake, &Cause::system(), todo)?;
        }
        if group.open > 0 && group.strategy != GroupStrategy::CollectAll {
            let reason = match group.decided {
                Some(Decided::Badly) => "its group cannot succeed any more",
                _ => "its group has succeeded without it",
            };
            self.cancel_children(&job, Some(number), reason, todo)?;
        }
        Ok(())
    }

    fn cancel_children(
        &mut self,
        parent: &Job,
        group: Option<u64>,
        reason: &str,
        todo: &mut VecDeque<Consequence>,
    ) -> EngineResult<()> {
        let mut after = None;
        loop {
            let filter = Filter { parent: Some(parent.id), ..Filter::default() };
            let scan = Scan { filter, order: Order::Oldest, after, limit: limits::BULK_JOBS_PER_COMMIT };
            let page = self.db()?.scan(&scan)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(Place::of(last));
            for child in page {
                let is_meant =
                    child.parent.is_some_and(|found| group.is_none_or(|group| found.group == group));
                let seq = self.remember(child);
                let is_open = self.job(seq)?.is_some_and(|job| !job.state.is_final());
                if is_meant && is_open {
                    let event = Event::Cancel { message: reason.to_owned() };
                    let _refused = self.step(seq, &event, &Cause::system(), todo)?;
                }
            }
        }
    }

    /// Gives the next job of each lane that was set aside for this key its chance at the coming claims; of each, since a
    /// lane that is paused must not keep the others from their turn.
    fn unblock(&mut self, key: ConcurrencyKey) -> EngineResult<()> {
        for job in self.db()?.set_aside(key)? {
            let seq = self.remember(job);
            self.set_blocked(seq, false)?;
        }
        Ok(())
    }

    /// Sets a claimable job aside, or gives it its chance again.
    pub(crate) fn set_blocked(&mut self, seq: Seq, is_blocked: bool) -> EngineResult<()> {
        if let Some(job) = self.job(seq)?.cloned()
            && job.state == State::Scheduled
        {
            self.put(Job { is_blocked, ..job });
        }
        Ok(())
    }

    /// A group of children.
    pub(crate) fn child_group(&mut self, parent: Seq, group: u64) -> EngineResult<Option<ChildGroup>> {
        let found = self.facet(parent, FacetKind::Group, "", group)?;
        found.map(|body| parse(&body)).transpose()
    }

    /// Keeps a group of children.
    pub(crate) fn put_child_group(&mut self, parent: Seq, number: u64, group: &ChildGroup) {
        self.write_facet(FacetWrite::Put(Facet {
            seq: parent,
            kind: FacetKind::Group,
            name: String::new(),
            number,
            body: encode(group).into(),
        }));
    }

    /// Lets time act on a job before anybody else does, so that no answer depends on when maintenance last ran.
    pub(crate) fn catch_up(&mut self, seq: Seq) -> EngineResult<()> {
        // Each step moves the job on; a resume may be followed by a wake or a promotion.
        for _ in 0..4 {
            let (now, env) = (self.now, self.env);
            let Some(job) = self.job(seq)? else { return Ok(()) };
            if acts_at(job).is_none_or(|at| at > now) {
                return Ok(());
            }
            let Some(event) = timer(job, now, env.entropy.fraction()) else { return Ok(()) };
            if event == Event::Wake {
                self.keep_timeout_of_wait(seq)?;
            }
            let _refused = self.apply(seq, &event, &Cause::system())?;
            // What time has done stands, whatever becomes of the command that met it.
            self.begin();
        }
        Ok(())
    }
}

/// Whether a job runs, or is the next to run, for its concurrency key.
fn competes(job: &Job) -> bool {
    job.state == State::Running || (job.state == State::Scheduled && !job.is_blocked)
}
