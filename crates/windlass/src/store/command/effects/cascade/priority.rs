//! Propagates the priority of a job to its dependents.

use std::collections::BTreeMap;

use super::{Consequences, Rest};
use crate::job::{JobRecord, Need, Priority, Seq};
use crate::limits;
use crate::store::documents::cascade::Task;
use crate::store::engine::{EngineResult, Side};
use crate::store::tx::write_tx::WriteTx;

impl WriteTx<'_> {
    /// Waiting jobs inherit the highest priority of their dependencies.
    pub(super) fn pass_on_priority(
        &mut self,
        job: Seq,
        mut after: Option<(Seq, Need)>,
        todo: &mut Consequences,
    ) -> EngineResult<Rest> {
        let Some(priority) = self.job(job)?.map(JobRecord::effective_priority) else { return Ok(None) };
        let (edges, has_more) = self.edges_after(job, after, todo)?;
        for some in edges.chunks(limits::CASCADE_INHERITING_AT_ONCE) {
            if after.is_some() && self.budgets[todo.source as usize].left() == 0 {
                return Ok(Some(Task::Priority { job, after }));
            }
            let seqs: Vec<Seq> = some.iter().map(|edge| edge.dependent).collect();
            let inherited = self.inherited_by(&seqs, priority, todo)?;
            for (seq, inherited) in inherited {
                let Some(dependent) = self.job(seq)?.cloned() else { continue };
                self.budgets[todo.source as usize].change(&dependent);
                let was = dependent.effective_priority();
                let next = JobRecord { inherited, ..dependent };
                if next.effective_priority() != was && next.has.dependents {
                    todo.add(self.now, next.depth, Task::Priority { job: seq, after: None });
                }
                todo.changed += 1;
                self.put(next);
            }
            after = some.last().map(|edge| (edge.dependent, edge.need));
        }
        Ok(has_more.then_some(Task::Priority { job, after }))
    }

    /// The new inherited priorities of these jobs, for those that change, now that one of their dependencies has this
    /// priority.
    fn inherited_by(
        &mut self,
        seqs: &[Seq],
        priority: Priority,
        todo: &Consequences,
    ) -> EngineResult<BTreeMap<Seq, Priority>> {
        let (mut inherited, mut lowered) = (BTreeMap::new(), Vec::new());
        self.budgets[todo.source as usize].charge_rows(seqs.len());
        for seq in seqs {
            let Some(job) = self.job(*seq)? else { continue };
            if job.state.is_final() || !job.has_unmet_dependencies() {
                continue;
            }
            if job.inherited < priority {
                inherited.insert(*seq, priority);
            } else if job.inherited > priority {
                // The priority may be inherited from another job.
                lowered.push(*seq);
            }
        }
        if lowered.is_empty() {
            return Ok(inherited);
        }
        let edges = self.db()?.edges(&lowered, Side::Dependent)?;
        self.budgets[todo.source as usize].charge_rows(edges.len());
        self.load(&edges.iter().map(|edge| edge.dependency).collect::<Vec<_>>())?;
        let mut highest: BTreeMap<Seq, Priority> = BTreeMap::new();
        for edge in edges {
            let priority = self.job(edge.dependency)?.map_or(Priority::BULK, JobRecord::effective_priority);
            let best = highest.entry(edge.dependent).or_insert(Priority::BULK);
            *best = priority.max(*best);
        }
        for (seq, priority) in highest {
            if self.job(seq)?.is_some_and(|job| job.inherited != priority) {
                inherited.insert(seq, priority);
            }
        }
        Ok(inherited)
    }
}
