//! Inserting the jobs of a submission, each in its initial state.

use std::collections::HashMap;
use std::sync::Arc;

use super::keys::{Duplicate, concurrency_key};
use super::{Batch, DependencyRef, Receipt};
use crate::audit::AuditEvent;
use crate::error::SubmitError;
use crate::job::{
    JobEvent, JobFlags, JobId, JobRecord, JobState, Lane, Need, NewJob, Parent, Policy, Priority, RareFields,
    Seq, Spec, Traceparent, Transition, transition,
};
use crate::store::caller::Caller;
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::config::Config;
use crate::store::engine::{Edge, KeyHolder, KeyHolderCache, KeyKind};
use crate::store::tx::write_tx::WriteTx;

impl Batch<'_> {
    pub(super) fn insert(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &HashMap<usize, Duplicate>,
        depths: &[u32],
    ) -> Result<Vec<Receipt>, SubmitError> {
        let config = tx.config()?;
        let first = tx.allocate(self.jobs.len() - duplicates.len())?;
        let mut seqs: Vec<Option<Seq>> = vec![None; self.jobs.len()];
        let mut next = first.0;
        for (index, seq) in seqs.iter_mut().enumerate() {
            match duplicates.get(&index) {
                None => {
                    *seq = Some(Seq(next));
                    next += 1;
                }
                Some(Duplicate { target: DependencyRef::Stored(stored), .. }) => *seq = Some(*stored),
                Some(Duplicate { target: DependencyRef::InBatch(_), .. }) => {}
            }
        }
        for (index, duplicate) in duplicates {
            if let DependencyRef::InBatch(other) = duplicate.target {
                seqs[*index] = seqs[other];
            }
        }
        let seqs: Vec<Seq> =
            seqs.into_iter().map(|seq| seq.expect("every job has its place by now")).collect();
        let mut policies = Policies::default();
        let removed = removed_among(duplicates);
        for &index in self.order.iter().filter(|index| !duplicates.contains_key(index)) {
            let needs = self.stored_needs(tx, index, &seqs, &removed)?;
            self.insert_one(tx, &config, (index, depths[index]), &seqs, needs, &mut policies)?;
        }
        self.debounce(tx, duplicates, &seqs)?;
        let mut receipts = Vec::with_capacity(self.jobs.len());
        for (index, seq) in seqs.iter().enumerate() {
            let duplicate = duplicates.get(&index);
            let job = match removed.get(seq) {
                Some(known) => self.sketch(*seq, index, *known),
                None => tx.job(*seq)?.expect("a job that was just added is there").clone(),
            };
            receipts.push(Receipt {
                job,
                is_deleted: removed.contains_key(seq),
                is_duplicate: duplicate.is_some_and(|duplicate| !duplicate.is_debounced),
                is_debounced: duplicate.is_some_and(|duplicate| duplicate.is_debounced),
                payload_differs: duplicate.is_some_and(|duplicate| duplicate.payload_differs),
            });
        }
        Ok(receipts)
    }

    fn insert_one(
        &self,
        tx: &mut WriteTx<'_>,
        config: &Config,
        (index, depth): (usize, u32),
        seqs: &[Seq],
        needs: Vec<StoredNeed>,
        policies: &mut Policies,
    ) -> Result<(), SubmitError> {
        let (new, lane, now) = (&self.jobs[index], &self.lanes[index], tx.now);
        let (policy, priority) = policies.resolve(config, new, lane, &tx.env.options.policy);
        let id = self.given_id.unwrap_or_else(|| JobId::new(now, tx.env.entropy.bits()));
        let any_met = needs.iter().any(|need| need.need == Need::AfterAny && need.state.is_final());
        let job = JobRecord {
            priority,
            inherited: needs.iter().map(|need| need.priority).max().unwrap_or(Priority::BULK),
            run_at: new.runs_at(now),
            after_unmet: u32::try_from(needs.iter().filter(|need| need.is_open(Need::After)).count())
                .expect("the number of dependencies is limited"),
            any_unmet: !any_met && needs.iter().any(|need| need.need == Need::AfterAny),
            depth,
            concurrency: new.concurrency_key.as_deref().map(|key| concurrency_key(&lane.tenant, key)),
            parent: self.parent_of(index),
            trace: new.traceparent.as_deref().and_then(Traceparent::parse).map(|parent| parent.trace_id()),
            has: JobFlags {
                unique_key: new.unique_key.is_some(),
                callback: new.metadata.callback_url.is_some(),
                ..JobFlags::default()
            },
            details: policies.details(new, self.caller),
            ..JobRecord::new(seqs[index], id, lane.clone(), policy, now)
        };
        let (seq, spec) = (job.seq, self.spec(new, &needs));
        let job = tx.with_ticket(job, &spec);
        self.add(tx, &job, spec, index)?;
        for need in needs {
            mark_dependency(tx, &need)?;
            // A dependency that had already failed ends this job immediately.
            if need.need == Need::After && need.state.is_final() && need.state != JobState::Completed {
                let event = JobEvent::DependencyEnded { need: Need::After, state: need.state };
                let _refused = tx.apply(seq, &event, &RecordActor::system())?;
            }
        }
        Ok(())
    }

    fn parent_of(&self, index: usize) -> Option<Parent> {
        self.spawning.map(|parent| Parent {
            seq: parent.seq,
            id: parent.id,
            group: parent.group,
            index: u32::try_from(index).expect("the size of a batch is limited"),
        })
    }

    /// Inserts a job in its initial state.
    fn add(
        &self,
        tx: &mut WriteTx<'_>,
        held: &JobRecord,
        spec: Spec,
        index: usize,
    ) -> Result<(), SubmitError> {
        let new = &self.jobs[index];
        let submitted = if new.hold { None } else { transition(held, &JobEvent::Submit, tx.now).ok() };
        let job = match submitted {
            Some(Transition::Changed(change)) => change.job,
            Some(Transition::Unchanged) | None => held.clone(),
        };
        let mut keys = Vec::new();
        if let Some(text) = &new.idempotency_key {
            let window = new.idempotency_window.unwrap_or(tx.env.options.idempotency_window);
            let holder = KeyHolder::idempotency(job.seq, job.id, &new.payload, tx.now.plus(window));
            keys.push((self.key(KeyKind::Idempotency, index, text), holder));
        }
        if let Some(text) = &new.unique_key {
            keys.push((self.key(KeyKind::Unique, index, text), KeyHolder::unique(job.seq)));
        }
        let event = if new.hold { AuditEvent::Held } else { AuditEvent::Submitted };
        let cause = RecordActor::caller(self.caller, None);
        tx.record_job(event, held, &job, &cause, None)?;
        tx.insert(job, spec, keys);
        Ok(())
    }

    fn spec(&self, new: &NewJob, needs: &[StoredNeed]) -> Spec {
        let ids = |need: Need| needs.iter().filter(|n| n.need == need).map(|n| n.id).collect();
        new.spec(self.caller.id.clone(), ids(Need::After), ids(Need::AfterAny))
    }

    fn stored_needs(
        &self,
        tx: &mut WriteTx<'_>,
        index: usize,
        seqs: &[Seq],
        removed: &HashMap<Seq, KeyHolderCache>,
    ) -> Result<Vec<StoredNeed>, SubmitError> {
        let mut found = Vec::with_capacity(self.needs[index].len());
        for (need, target) in &self.needs[index] {
            let seq = match target {
                DependencyRef::Stored(seq) => *seq,
                DependencyRef::InBatch(other) => seqs[*other],
            };
            if let Some(known) = removed.get(&seq) {
                let state = known.ended.unwrap_or(JobState::Completed);
                let priority = Priority::BULK;
                found.push(StoredNeed { need: *need, edge: None, id: known.id, state, priority });
            } else if let Some(job) = tx.job(seq)? {
                found.push(StoredNeed {
                    need: *need,
                    edge: Some(Edge { dependency: seq, dependent: seqs[index], need: *need }),
                    id: job.id,
                    state: job.state,
                    priority: job.effective_priority(),
                });
            }
        }
        Ok(found)
    }

    /// A job record with what is still known of a removed job.
    fn sketch(&self, seq: Seq, index: usize, known: KeyHolderCache) -> JobRecord {
        let at = known.id.submitted_at();
        let state = known.ended.unwrap_or(JobState::Completed);
        JobRecord { state, ..JobRecord::new(seq, known.id, self.lanes[index].clone(), Arc::default(), at) }
    }
}

/// The duplicates whose jobs were removed, by sequence number.
fn removed_among(duplicates: &HashMap<usize, Duplicate>) -> HashMap<Seq, KeyHolderCache> {
    let removed = duplicates.values().filter_map(|duplicate| match duplicate.target {
        DependencyRef::Stored(seq) => Some((seq, duplicate.removed?)),
        DependencyRef::InBatch(_) => None,
    });
    removed.collect()
}

/// A dependency with its current state.
struct StoredNeed {
    need: Need,
    /// `None` if the dependency was removed: it has ended, and there is nothing to wait for.
    edge: Option<Edge>,
    id: JobId,
    state: JobState,
    priority: Priority,
}

impl StoredNeed {
    fn is_open(&self, need: Need) -> bool {
        self.need == need && self.state != JobState::Completed
    }
}

/// Policies of one batch: jobs with equal policies share one.
#[derive(Default)]
struct Policies {
    plain: HashMap<Arc<Lane>, (Arc<Policy>, Priority)>,
    details: Option<Arc<RareFields>>,
}

impl Policies {
    fn resolve(
        &mut self,
        config: &Config,
        new: &NewJob,
        lane: &Arc<Lane>,
        defaults: &Policy,
    ) -> (Arc<Policy>, Priority) {
        let is_plain = new.retry.is_none()
            && new.execution_timeout.is_none()
            && new.lease_timeout.is_none()
            && new.lifetime.is_none()
            && new.start_timeout.is_none();
        if !is_plain {
            let (policy, priority) = config.resolve(new, lane, defaults);
            return (Arc::new(policy), new.priority.unwrap_or(priority));
        }
        let (policy, priority) = self.plain.entry(lane.clone()).or_insert_with(|| {
            let (policy, priority) = config.resolve(new, lane, defaults);
            (Arc::new(policy), priority)
        });
        (policy.clone(), new.priority.unwrap_or(*priority))
    }

    fn details(&mut self, new: &NewJob, caller: &Caller) -> Arc<RareFields> {
        let owned = |fields| Arc::new(RareFields { owner_key: caller.key.clone(), ..fields });
        match new.rare_fields() {
            Some(fields) => owned(fields),
            None => self.details.get_or_insert_with(|| owned(RareFields::default())).clone(),
        }
    }
}

fn mark_dependency(tx: &mut WriteTx<'_>, need: &StoredNeed) -> Result<(), SubmitError> {
    let Some(edge) = need.edge else { return Ok(()) };
    tx.link(edge);
    if let Some(job) = tx.job(edge.dependency)?
        && !job.has.dependents
    {
        let mut job = job.clone();
        job.has.dependents = true;
        tx.put(job);
    }
    Ok(())
}
