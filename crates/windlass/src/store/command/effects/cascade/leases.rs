//! Ends the leases of lost workers.

use std::collections::BTreeSet;

use super::{Consequences, Rest};
use crate::clock::Timestamp;
use crate::job::{JobEvent, JobRecord, JobState, Seq, WorkerId};
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::cascade::{LeaseEnd, Task};
use crate::store::engine::EngineResult;
use crate::store::filter::Filter;
use crate::store::tx::write_tx::WriteTx;

impl WriteTx<'_> {
    pub(super) fn end_leases(&mut self, task: Task, todo: &mut Consequences) -> EngineResult<Rest> {
        let Task::Leases { workers, before, end, trace_id, mut after } = task else { return Ok(None) };
        let leased = workers.iter().copied().collect();
        let filter = Filter { workers: leased, states: vec![JobState::Running], ..Filter::default() };
        let page = self.scan_page(filter, after, todo)?;
        // Other records of this commit have their own trace.
        let call_trace = self.call_trace.clone();
        for seq in page.seqs {
            if after.is_some() && self.budgets[todo.source as usize].left() == 0 {
                self.call_trace = call_trace;
                return Ok(Some(Task::Leases { workers, before, end, trace_id, after }));
            }
            after = Some(seq);
            let Some((job, worker)) = self.leased_to(seq, &workers, before)? else { continue };
            let reason = Some(format!("worker {worker} is gone"));
            let cause = RecordActor { reason, trace_id: trace_id.clone(), ..RecordActor::system() };
            let random = self.env.entropy.fraction();
            let event = match end {
                LeaseEnd::Release => JobEvent::Release,
                LeaseEnd::Crash => JobEvent::LeaseExpired { random, is_crash: true },
                LeaseEnd::Gap => JobEvent::LeaseExpired { random, is_crash: false },
            };
            self.apply_in_cascade(&job, &event, &cause, todo)?;
        }
        self.call_trace = call_trace;
        let after = page.next;
        Ok(after.is_some().then_some(Task::Leases { workers, before, end, trace_id, after }))
    }

    fn leased_to(
        &mut self,
        seq: Seq,
        workers: &BTreeSet<WorkerId>,
        before: Timestamp,
    ) -> EngineResult<Option<(JobRecord, WorkerId)>> {
        let Some(job) = self.job(seq)? else { return Ok(None) };
        let worker = job.lease.map(|lease| lease.worker).filter(|worker| workers.contains(worker));
        let is_old = job.started_at.is_none_or(|started_at| started_at < before);
        Ok(worker.filter(|_| is_old).map(|worker| (job.clone(), worker)))
    }
}
