//! Processes the consequences of a change: notifies dependents of an end, propagates priorities, cancels children, ends
//! leases of lost workers, suspends running jobs of a paused queue. A commit does as much as its budget allows, level
//! by level of the dependency graph. The rest is stored as cursors, from which
//! [`continue_cascades`](WriteTx::continue_cascades) continues. No decisions about single jobs are made here.

mod leases;
mod priority;
mod suspend;

use std::collections::{BTreeMap, VecDeque};

use super::audit::RecordActor;
use crate::clock::Timestamp;
use crate::job::{ConcurrencyKey, JobEvent, JobId, JobRecord, Need, Priority, Seq};
use crate::limits;
use crate::store::documents::cascade::{Cascade, KEYS_END, Task};
use crate::store::engine::{ClaimOrder, Document, DocumentKind, DocumentRange, Edge, EngineResult};
use crate::store::filter::{Filter, Order, Scan, SearchResult};
use crate::store::tx::write_tx::WriteTx;

/// Consequences of the changes made so far.
#[derive(Default)]
pub(in crate::store::command) struct Consequences {
    /// Jobs that became final.
    pub(in crate::store::command) ended: VecDeque<Seq>,
    /// Concurrency keys that lost a holder or a candidate.
    pub(in crate::store::command) freed: VecDeque<ConcurrencyKey>,
    /// By key; keys sort shallower levels first.
    cascades: BTreeMap<String, Cascade>,
    /// Cascades of earlier commits that were not started in this one; by key.
    stored: VecDeque<Document>,
    /// Whether there are stored cascades that were not read.
    has_unread: bool,
    /// The budget of the transaction to charge.
    source: Source,
    /// Jobs that were changed.
    changed: usize,
}

/// The origin of the consequences.
#[derive(Clone, Copy, Default)]
enum Source {
    #[default]
    ThisCommit = 0,
    EarlierCommits = 1,
}

/// A cascade that stopped because its page or the budget was used up.
type Rest = Option<Task>;

/// Jobs of a cascade that are read together.
struct Page {
    seqs: Vec<Seq>,
    /// The job to continue after, if there may be more.
    next: Option<Seq>,
}

impl Consequences {
    pub(in crate::store::command) fn add(&mut self, since: Timestamp, depth: u32, task: Task) {
        let cascade = Cascade { since, depth, task };
        self.cascades.insert(cascade.key(), cascade);
    }

    /// Whether the next stored cascade sorts before all new ones.
    fn is_stored_next(&self) -> bool {
        match (self.stored.front(), self.cascades.first_key_value()) {
            (Some(stored), Some((key, _))) => stored.key <= *key,
            (stored, None) => stored.is_some(),
            (None, Some(_)) => false,
        }
    }
}

impl WriteTx<'_> {
    /// Processes consequences as far as the budget allows, and stores the rest.
    pub(in crate::store::command) fn process(
        &mut self,
        mut todo: Consequences,
    ) -> EngineResult<Consequences> {
        loop {
            self.process_direct(&mut todo)?;
            if self.budgets[todo.source as usize].left() == 0 {
                break;
            }
            let Some(cascade) = self.next_cascade(&mut todo)? else { break };
            let Cascade { since, depth, task } = cascade;
            if let Some(rest) = self.advance_cascade(task, &mut todo)? {
                todo.add(since, depth, rest);
            }
        }
        for cascade in std::mem::take(&mut todo.cascades).into_values() {
            todo.has_unread = true;
            self.keep_cascade(cascade);
        }
        Ok(todo)
    }

    /// Handles the jobs that ended and the jobs that are next for a freed key.
    fn process_direct(&mut self, todo: &mut Consequences) -> EngineResult<()> {
        while let Some(seq) = todo.ended.pop_front() {
            self.ended(seq, todo)?;
        }
        while let Some(key) = todo.freed.pop_front() {
            self.unblock(key)?;
        }
        Ok(())
    }

    fn next_cascade(&mut self, todo: &mut Consequences) -> EngineResult<Option<Cascade>> {
        if todo.is_stored_next()
            && let Some(document) = todo.stored.pop_front()
        {
            self.put_document(DocumentKind::Cascade, &document.key, None, |_| {})?;
            // A cascade that was started again in this commit begins from the front.
            let again = todo.cascades.remove(&document.key);
            return again.map_or_else(|| Cascade::parse(&document), Ok).map(Some);
        }
        // Cascades that were not read may sort before new ones.
        if todo.has_unread {
            return Ok(None);
        }
        Ok(todo.cascades.pop_first().map(|(_, cascade)| cascade))
    }

    fn advance_cascade(&mut self, task: Task, todo: &mut Consequences) -> EngineResult<Rest> {
        match task {
            Task::Priority { job, after } => self.pass_on_priority(job, after, todo),
            Task::Dependents { job, after, last } => self.satisfy_dependents(job, after, last, todo),
            Task::Children { parent, id, group, reason, after } => {
                self.cancel_children((parent, id, group), reason, after, todo)
            }
            Task::Leases { .. } => self.end_leases(task, todo),
            Task::Suspend { .. } => self.suspend_running(task, todo),
        }
    }

    /// How many jobs the next page of a cascade may hold; at least one.
    fn page_of(&self, todo: &Consequences) -> usize {
        self.budgets[todo.source as usize].left().clamp(1, limits::CASCADE_PAGE)
    }

    /// Applies an event to a job of a cascade.
    fn apply_in_cascade(
        &mut self,
        job: &JobRecord,
        event: &JobEvent,
        cause: &RecordActor,
        todo: &mut Consequences,
    ) -> EngineResult<()> {
        self.budgets[todo.source as usize].change(job);
        // Jobs that have moved on (cancelled, or satisfied by another dependency) ignore the event.
        let is_changed = self.apply_collecting(job.seq, event, cause, todo)?.unwrap_or(false);
        todo.changed += usize::from(is_changed);
        // Apply now, so that direct consequences count before the budget is checked again.
        self.process_direct(todo)
    }

    fn edges_after(
        &mut self,
        job: Seq,
        after: Option<(Seq, Need)>,
        todo: &Consequences,
    ) -> EngineResult<(Vec<Edge>, bool)> {
        let max = self.page_of(todo);
        let mut edges = self.db()?.dependents(job, after, max + 1)?;
        let has_more = edges.len() > max;
        edges.truncate(max);
        self.load(&edges.iter().map(|edge| edge.dependent).collect::<Vec<_>>())?;
        Ok((edges, has_more))
    }

    fn satisfy_dependents(
        &mut self,
        job: Seq,
        mut after: Option<(Seq, Need)>,
        last: Seq,
        todo: &mut Consequences,
    ) -> EngineResult<Rest> {
        let Some(ended) = self.job(job)?.cloned() else { return Ok(None) };
        let (edges, has_more) = self.edges_after(job, after, todo)?;
        for (place, edge) in edges.iter().enumerate() {
            if edge.dependent > last {
                return Ok(None);
            }
            if place > 0 && self.budgets[todo.source as usize].left() == 0 {
                return Ok(Some(Task::Dependents { job, after, last }));
            }
            after = Some((edge.dependent, edge.need));
            // An end may overtake a priority change that is still being propagated.
            self.inherit(edge.dependent, ended.effective_priority())?;
            if let Some(dependent) = self.job(edge.dependent)?.cloned() {
                let event = JobEvent::DependencyEnded { need: edge.need, state: ended.state };
                self.apply_in_cascade(&dependent, &event, &RecordActor::system(), todo)?;
            }
        }
        Ok(has_more.then_some(Task::Dependents { job, after, last }))
    }

    /// Raises a job's inherited priority to at least this, if it still waits for other jobs.
    fn inherit(&mut self, seq: Seq, priority: Priority) -> EngineResult<()> {
        if let Some(job) = self.job(seq)?
            && job.inherited < priority
            && !job.state.is_final()
            && job.has_unmet_dependencies()
        {
            let job = JobRecord { inherited: priority, ..job.clone() };
            self.put(job);
        }
        Ok(())
    }

    fn cancel_children(
        &mut self,
        (parent, id, group): (Seq, JobId, Option<u64>),
        reason: String,
        mut after: Option<Seq>,
        todo: &mut Consequences,
    ) -> EngineResult<Rest> {
        let filter = Filter { parent: Some(id), ..Filter::default() };
        let page = self.scan_page(filter, after, todo)?;
        let event = JobEvent::Cancel { message: reason.clone() };
        for seq in page.seqs {
            if after.is_some() && self.budgets[todo.source as usize].left() == 0 {
                return Ok(Some(Task::Children { parent, id, group, reason, after }));
            }
            after = Some(seq);
            let is_meant = |job: &&JobRecord| {
                let is_child = job.parent.is_some_and(|found| group.is_none_or(|group| found.group == group));
                is_child && !job.state.is_final()
            };
            if let Some(child) = self.job(seq)?.filter(is_meant).cloned() {
                self.apply_in_cascade(&child, &event, &RecordActor::system(), todo)?;
            }
        }
        let after = page.next;
        Ok(after.is_some().then_some(Task::Children { parent, id, group, reason, after }))
    }

    /// The next matching jobs, first submitted first.
    fn scan_page(&mut self, filter: Filter, after: Option<Seq>, todo: &Consequences) -> EngineResult<Page> {
        let limit = self.page_of(todo);
        let reach = self.budgets[todo.source as usize].reach();
        let after = after.map(|seq| ClaimOrder { rank: 0, eligible_at: Timestamp::MIN, seq });
        let scan = Scan { filter, order: Order::Oldest, after, limit };
        let SearchResult { jobs, stopped } = self.db()?.search(&scan, reach)?;
        let scanned = if stopped.is_some() { reach } else { jobs.len() };
        self.budgets[todo.source as usize].charge_rows(scanned);
        let last = jobs.last().filter(|_| jobs.len() == limit).map(|job| job.seq);
        let next = stopped.map(|place| place.seq).or(last);
        Ok(Page { seqs: jobs.into_iter().map(|job| self.cache_job(job)).collect(), next })
    }

    /// Starts a cascade: does what the budget allows and stores the rest. Returns how many jobs were changed.
    pub(crate) fn cascade(&mut self, depth: u32, task: Task) -> EngineResult<usize> {
        let mut todo = Consequences::default();
        todo.add(self.now, depth, task);
        Ok(self.process(todo)?.changed)
    }

    /// Continues the cascades that earlier commits left, with up to so many jobs; returns whether there is more.
    pub(crate) fn continue_cascades(&mut self, jobs: usize) -> EngineResult<bool> {
        self.budgets[Source::EarlierCommits as usize].limit(jobs);
        if self.has_no_cascades() {
            return Ok(false);
        }
        let max = limits::CASCADE_PAGE;
        let stored = self.db()?.documents_in(DocumentKind::Cascade, DocumentRange::before(KEYS_END, max))?;
        if stored.is_empty() {
            self.cache_no_cascades();
            return Ok(false);
        }
        let has_unread = stored.len() == max;
        let source = Source::EarlierCommits;
        let todo = Consequences { stored: stored.into(), has_unread, source, ..Consequences::default() };
        let todo = self.process(todo)?;
        Ok(todo.has_unread || !todo.stored.is_empty())
    }
}
