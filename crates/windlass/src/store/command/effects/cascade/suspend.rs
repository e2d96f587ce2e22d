//! Suspends the running jobs of a queue that was paused aggressively.

use super::{Consequences, Rest};
use crate::job::{JobEvent, JobRecord, JobState, SuspendMode, Suspension};
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::cascade::Task;
use crate::store::documents::config::{PauseRecord, PauseScope};
use crate::store::engine::EngineResult;
use crate::store::filter::Filter;
use crate::store::tx::write_tx::WriteTx;

impl WriteTx<'_> {
    /// Starts suspending the running jobs of a queue that this call has just paused.
    pub(in crate::store::command) fn suspend_all_running(&mut self, hold: &PauseRecord) -> EngineResult<()> {
        let (scope, since, trace_id) = (hold.scope.clone(), hold.since, self.call_trace.clone());
        self.cascade(0, Task::Suspend { scope, since, trace_id, after: None })?;
        Ok(())
    }

    pub(super) fn suspend_running(&mut self, task: Task, todo: &mut Consequences) -> EngineResult<Rest> {
        let Task::Suspend { scope, since, trace_id, mut after } = task else { return Ok(None) };
        let now = self.now;
        let is_in_force = |hold: &&PauseRecord| hold.since == since && hold.is_active(now);
        let Some(hold) = self.config()?.pauses.get(&scope).filter(is_in_force).cloned() else {
            return Ok(None);
        };
        let PauseScope::Queue { queue, tenant } = scope.clone() else { return Ok(None) };
        let filter =
            Filter { queue: Some(queue), tenant, states: vec![JobState::Running], ..Filter::default() };
        let page = self.scan_page(filter, after, todo)?;
        let suspension = Suspension {
            by: hold.by.clone(),
            reason: hold.reason.clone(),
            mode: SuspendMode::Aggressive,
            at: now,
            expires_at: hold.expires_at,
            by_pause: true,
        };
        let cause = RecordActor { trace_id: trace_id.clone(), ..RecordActor::suspension(&suspension) };
        let event = JobEvent::Suspend { suspension };
        // Other records of this commit have their own trace.
        let call_trace = self.call_trace.clone();
        for seq in page.seqs {
            if after.is_some() && self.budgets[todo.source as usize].left() == 0 {
                self.call_trace = call_trace;
                return Ok(Some(Task::Suspend { scope, since, trace_id, after }));
            }
            after = Some(seq);
            let running = self.job(seq)?.filter(|job: &&JobRecord| job.state == JobState::Running).cloned();
            if let Some(job) = running {
                self.apply_in_cascade(&job, &event, &cause, todo)?;
            }
        }
        self.call_trace = call_trace;
        let after = page.next;
        Ok(after.is_some().then_some(Task::Suspend { scope, since, trace_id, after }))
    }
}
