//! Repairs what follows from other stored data, one finding per commit. Everything is derived again in the commit that
//! writes it, and nothing is done if it does not follow any more. What is repaired is decided by `verify`.

use serde_json::json;

use crate::audit::AuditEvent;
use crate::error::ActionError;
use crate::job::{ChildGroup, JobEvent, JobRecord, JobState, Need, Seq, Tenant};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::cascade::{self, Task};
use crate::store::documents::config::parse;
use crate::store::documents::schedules::Schedule;
use crate::store::engine::{
    CountChange, DerivedData, DocumentKind, Edge, EngineResult, JobDataKind, JobDataQuery, Key, KeyChange,
    KeyHolder, RecordQuery, Side,
};
use crate::store::tx::write_tx::WriteTx;
use crate::store::verify::graph::{count_children, set_aside_for_no_limit};
use crate::store::verify::repair::{Defect, RepairResult};

/// A repair of a plan.
pub(crate) struct Step<'a> {
    pub(crate) code: &'static str,
    pub(crate) findings: &'a [String],
    pub(crate) action: &'a str,
    pub(crate) defect: &'a Defect,
    pub(crate) plan: &'a str,
    /// The last audit record of the snapshot in which it was found.
    pub(crate) through: u64,
}

/// Repairs one finding, and records it.
pub(crate) fn repair(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    step: &Step<'_>,
) -> Result<RepairResult, ActionError> {
    caller.require(Permission::Administer)?;
    let repaired = tx.repair(step)?;
    if repaired == RepairResult::Done {
        let (cause, findings) = (RecordActor::caller(caller, None), step.findings);
        let context = json!({
            "plan": step.plan,
            "invariant": step.code,
            "findings": findings.iter().take(limits::REPAIR_FINDINGS_RECORDED).collect::<Vec<_>>(),
            "repair": step.action,
        });
        tx.record_operation(AuditEvent::StoreRepaired, Tenant::default(), &cause, &context);
        tx.outdate_cache();
        tx.wake();
    }
    Ok(repaired)
}

/// What a repair does, before it is recorded.
type Outcome = EngineResult<RepairResult>;

fn refused(why: impl Into<String>) -> RepairResult {
    RepairResult::Refused(why.into())
}

fn done_if(is_done: bool) -> RepairResult {
    if is_done { RepairResult::Done } else { RepairResult::Gone }
}

impl WriteTx<'_> {
    fn repair(&mut self, step: &Step<'_>) -> Outcome {
        match step.defect {
            Defect::Derived(what) => self.derive(what),
            Defect::KeyTotal(tenant) => self.derive(&DerivedData::KeyTotal(tenant.clone())),
            Defect::Count { lane, state, by } => {
                let change = CountChange { lane: lane.clone(), state: *state, by: *by };
                self.repair_count(step, change)
            }
            Defect::KeyCount(change) => self.repair_key_count(step, change),
            Defect::Marks(seq) => self.repair_marks(*seq),
            Defect::UniqueKey { seq, key } => self.repair_unique_key(*seq, key),
            Defect::Dependencies(seq) => self.repair_dependencies(*seq),
            Defect::Group { parent, number } => self.repair_group(*parent, *number),
            Defect::Blocked(seq) => self.repair_blocked(*seq),
            Defect::Priority(seq) => self.repair_priority(*seq),
            Defect::Schedule(key) => self.repair_schedule(key),
        }
    }

    fn derive(&mut self, what: &DerivedData) -> Outcome {
        match self.db()?.derived_mut() {
            Some(derived) => derived.derive(what).map(|()| RepairResult::Done),
            None => Ok(refused("this engine derives nothing")),
        }
    }

    /// Differences found in a snapshot stay right while jobs change, which changes both sides alike, but not after
    /// another plan has repaired one of them.
    fn is_repaired_otherwise(&mut self, step: &Step<'_>) -> EngineResult<bool> {
        let mut query = RecordQuery {
            after: step.through,
            event: Some(AuditEvent::StoreRepaired),
            limit: limits::PAGE_RECORDS_MAX,
            ..RecordQuery::default()
        };
        loop {
            let page = self.db()?.records(&query)?;
            let Some(last) = page.last() else { return Ok(false) };
            query.after = last.seq;
            let own = format!("\"plan\":\"{}\"", step.plan);
            if page.iter().any(|record| !record.context.contains(&own)) {
                return Ok(true);
            }
        }
    }

    fn repair_count(&mut self, step: &Step<'_>, change: CountChange) -> Outcome {
        if self.is_repaired_otherwise(step)? {
            return Ok(refused("counters were repaired meanwhile: verify again"));
        }
        let counts = self.db()?.counts()?;
        let stored = counts.lanes.get(&change.lane).map_or(0, |states| states[change.state as usize]);
        if stored.checked_add_signed(change.by).is_none() {
            return Ok(refused(format!("the counter is {stored} by now: verify again")));
        }
        self.raw(|db| db.count(&[change]))?;
        Ok(RepairResult::Done)
    }

    fn repair_key_count(&mut self, step: &Step<'_>, change: &KeyChange) -> Outcome {
        if self.is_repaired_otherwise(step)? {
            return Ok(refused("counters were repaired meanwhile: verify again"));
        }
        let stored = self.db()?.jobs_with_keys(&change.tenant, &[change.key])?.pop().unwrap_or(0);
        if stored.checked_add_signed(change.by).is_none() {
            return Ok(refused(format!("the counter is {stored} by now: verify again")));
        }
        self.raw(|db| db.count_keys(std::slice::from_ref(change)))?;
        // The number of keys moves with a count that was right, and this one was not.
        self.derive(&DerivedData::KeyTotal(change.tenant.clone()))?;
        Ok(RepairResult::Done)
    }

    fn repair_marks(&mut self, seq: Seq) -> Outcome {
        let Some(before) = self.job(seq)?.cloned() else { return Ok(RepairResult::Gone) };
        let mut job = before.clone();
        if let Some(spec) = self.spec(seq)? {
            job.has.unique_key = spec.unique_key.is_some();
        }
        job.has.dependents |= !self.db()?.dependents(seq, None, 1)?.is_empty();
        let (kind, name) = (JobDataKind::Group, None);
        let groups = JobDataQuery { seq, kind, name, above: None, limit: 1 };
        job.has.children |= !self.db()?.job_data(groups)?.is_empty();
        let is_changed = job != before;
        if is_changed {
            self.put(job);
        }
        Ok(done_if(is_changed))
    }

    fn repair_unique_key(&mut self, seq: Seq, key: &Key) -> Outcome {
        let Some(job) = self.job(seq)?.filter(|job| !job.state.is_final()).cloned() else {
            return Ok(RepairResult::Gone);
        };
        let holder = self.db()?.keyed(std::slice::from_ref(key))?.pop().flatten();
        if let Some(holder) = holder {
            if holder.seq == seq {
                return Ok(RepairResult::Gone);
            }
            if self.job(holder.seq)?.is_some_and(|other| !other.state.is_final()) {
                return Ok(refused(format!("by now the job with number {} holds the key", holder.seq.0)));
            }
        }
        match self.db()?.import() {
            Some(import) => import.import_keys(&[(key.clone(), KeyHolder::unique(seq))])?,
            None => return Ok(refused("this engine cannot write keys alone")),
        }
        if !job.has.unique_key {
            let mut job = job;
            job.has.unique_key = true;
            self.put(job);
        }
        Ok(RepairResult::Done)
    }

    fn repair_dependencies(&mut self, seq: Seq) -> Outcome {
        let Some(job) = self.job(seq)?.filter(|job| !job.state.is_final()).cloned() else {
            return Ok(RepairResult::Gone);
        };
        let known = self.db()?.edges(&[seq], Side::Dependent)?;
        let missing = self.missing_edges(&job, &known)?;
        let (mut open, mut any_kept, mut any_ended, mut failed) = (0, false, None, None);
        for edge in known.iter().chain(&missing) {
            let Some(dependency) = self.job(edge.dependency)?.cloned() else {
                return Ok(refused(format!(
                    "it waits for the job with number {}, which is gone",
                    edge.dependency.0
                )));
            };
            let is_applied =
                dependency.state.is_final() && !cascade::covers(self.reader()?, &dependency, edge)?;
            any_kept |= edge.need == Need::AfterAny;
            match (edge.need, is_applied, dependency.state) {
                (Need::After, true, JobState::Completed) | (Need::AfterAny, false, _) => {}
                (Need::After, true, state) => failed = failed.or(Some(state)),
                (Need::After, false, _) => open += 1,
                (Need::AfterAny, true, state) => any_ended = any_ended.or(Some(state)),
            }
        }
        let waits = matches!(job.state, JobState::Pending | JobState::Created | JobState::Suspended);
        let any_open = any_kept && any_ended.is_none() && job.any_unmet;
        if !waits && (open > 0 || any_open || failed.is_some()) {
            return Ok(refused(format!("it is {} although a dependency is open", job.state)));
        }
        let is_linked = !missing.is_empty();
        self.link_again(missing)?;
        if let Some(state) = failed {
            return self.apply_dependency_end(seq, Need::After, state);
        }
        // The last step is a transition: it decides the job's state.
        let has_one_left = job.after_unmet > 0 || !job.any_unmet;
        let is_last = job.state == JobState::Pending && open == 0 && has_one_left;
        let numbers = JobRecord { after_unmet: open + u32::from(is_last), ..job.clone() };
        let is_counted = numbers != job;
        if is_counted {
            self.put(numbers);
        }
        let mut is_applied = false;
        if is_last {
            is_applied |=
                self.apply_dependency_end(seq, Need::After, JobState::Completed)? == RepairResult::Done;
        }
        if let Some(state) = any_ended.filter(|_| job.any_unmet && waits) {
            is_applied |= self.apply_dependency_end(seq, Need::AfterAny, state)? == RepairResult::Done;
        }
        Ok(done_if(is_linked || is_counted || is_applied))
    }

    fn apply_dependency_end(&mut self, seq: Seq, need: Need, state: JobState) -> Outcome {
        let event = JobEvent::DependencyEnded { need, state };
        match self.apply(seq, &event, &RecordActor::system())? {
            Ok(is_changed) => Ok(done_if(is_changed)),
            Err(why) => Ok(refused(why.to_string())),
        }
    }

    /// The edges to jobs that a submission names, that have not ended, and to which there is none.
    fn missing_edges(&mut self, job: &JobRecord, known: &[Edge]) -> EngineResult<Vec<Edge>> {
        let Some(spec) = self.spec(job.seq)? else { return Ok(Vec::new()) };
        let mut missing = Vec::new();
        for (ids, need) in [(&spec.after, Need::After), (&spec.after_any, Need::AfterAny)] {
            for dependency in self.find(ids)?.into_iter().flatten() {
                let edge = Edge { dependency, dependent: job.seq, need };
                let is_live = self.job(dependency)?.is_some_and(|found| !found.state.is_final());
                if is_live && !known.contains(&edge) && !missing.contains(&edge) {
                    missing.push(edge);
                }
            }
        }
        Ok(missing)
    }

    fn link_again(&mut self, missing: Vec<Edge>) -> EngineResult<()> {
        for edge in missing {
            if let Some(mut live) = self.job(edge.dependency)?.filter(|job| !job.has.dependents).cloned() {
                live.has.dependents = true;
                self.put(live);
            }
            self.link(edge);
        }
        Ok(())
    }

    fn repair_group(&mut self, parent: Seq, number: u64) -> Outcome {
        let Some(job) = self.job(parent)?.cloned() else { return Ok(RepairResult::Gone) };
        let Some(before) = self.child_group(parent, number)? else { return Ok(RepairResult::Gone) };
        self.flush()?;
        let found = count_children(&mut self.read_tx(), &job, number)?;
        if !found.is_complete(&before) {
            return Ok(refused("not all children of the group are stored"));
        }
        let mut group: ChildGroup = before.clone();
        group.recounted(found.open, found.completed);
        let is_counted = group != before;
        if is_counted {
            self.put_child_group(parent, number, &group);
        }
        let waits = job.details.wait.as_ref().is_some_and(|wait| wait.is_for_group(number));
        let is_woken = waits && group.decided.is_some();
        if group.decided.is_some() {
            self.wake_if_decided(parent, number)?;
        }
        Ok(done_if(is_counted || is_woken))
    }

    fn repair_blocked(&mut self, seq: Seq) -> Outcome {
        let Some(job) = self.job(seq)?.filter(|job| job.is_blocked).cloned() else {
            return Ok(RepairResult::Gone);
        };
        self.flush()?;
        if set_aside_for_no_limit(&mut self.read_tx(), &job)?.is_none() {
            return Ok(RepairResult::Gone);
        }
        self.set_blocked(seq, false)?;
        Ok(RepairResult::Done)
    }

    /// The most urgent dependency decides, whether the job is too urgent or not urgent enough.
    fn repair_priority(&mut self, seq: Seq) -> Outcome {
        let is_waiting = |job: &&JobRecord| !job.state.is_final() && job.has_unmet_dependencies();
        let Some(job) = self.job(seq)?.filter(is_waiting).cloned() else { return Ok(RepairResult::Gone) };
        let mut most: Option<JobRecord> = None;
        for edge in self.db()?.edges(&[seq], Side::Dependent)? {
            if let Some(found) = self.job(edge.dependency)?
                && most.as_ref().is_none_or(|most| found.effective_priority() > most.effective_priority())
            {
                most = Some(found.clone());
            }
        }
        let Some(most) = most.filter(|most| most.effective_priority() != job.inherited) else {
            return Ok(RepairResult::Gone);
        };
        self.cascade(most.depth, Task::Priority { job: most.seq, after: None })?;
        Ok(RepairResult::Done)
    }

    fn repair_schedule(&mut self, key: &str) -> Outcome {
        let Some(document) = self.document(DocumentKind::Schedule, key)? else {
            return Ok(RepairResult::Gone);
        };
        let schedule: Schedule = parse(&document.body)?;
        let next_at = schedule.first_run();
        if schedule.next_at == next_at {
            return Ok(RepairResult::Gone);
        }
        self.put_schedule(Schedule { next_at, ..schedule }).map(|_| RepairResult::Done)
    }
}
