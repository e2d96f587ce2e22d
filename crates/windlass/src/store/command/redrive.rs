//! Redriving: a final job is submitted again as a new job. The old one stays unchanged and names its successor.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::effects::audit::RecordActor;
use super::precondition::IfMatch;
use super::submit::{WantedKey, check_depth, check_new_lane, first_beyond_limit, unique_holder};
use crate::audit::AuditEvent;
use crate::error::{ActionError, FieldError, FieldProblem, InvalidTransition};
use crate::job::{
    JobAction, JobEvent, JobFlags, JobId, JobRecord, Lane, Payload, RareFields, SavedStep, Seq, Spec,
    Transition, WorkerVersion, kept_before, transition,
};
use crate::limits;
use crate::settings::patch::Field;
use crate::store::caller::{Caller, Permission};
use crate::store::command::schema_checks::SchemaChecks;
use crate::store::documents::key_counts::used_key;
use crate::store::engine::{JobData, JobDataKind, JobDataQuery, JobDataWrite, Key, KeyHolder, KeyKind};
use crate::store::tx::write_tx::WriteTx;

/// Options for a redrive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redrive {
    /// Run every step again instead of continuing after the last saved one.
    pub reset_checkpoints: bool,
    /// Run this step and those after it again; the steps before it are not repeated. See
    /// [`kept_before`] for what is kept.
    pub from_step: Option<String>,
    /// Refuse if the job was already redriven: of two concurrent redrives only one succeeds.
    pub only_once: bool,
    /// The payload of the new job, in place of the old one's: for jobs that failed because of what they were given.
    pub payload: Option<Payload>,
    /// The version that the new job requires of its worker; the old one's unless changed.
    pub requires_version: Field<WorkerVersion>,
}

/// Submits a final job again as a new one.
pub(crate) fn redrive(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    (how, checks): (&Redrive, &mut SchemaChecks),
    if_match: &IfMatch,
) -> Result<JobRecord, ActionError> {
    let old = tx.managed(caller, id)?;
    if_match.check(tx, &old)?;
    JobAction::Redrive.check(old.state)?;
    if let Some(successor) = old.details.superseded_by.filter(|_| how.only_once) {
        return Err(ActionError::AlreadyRedriven { id, successor });
    }
    if how.from_step.is_some() && how.reset_checkpoints {
        return Err(from_step(FieldProblem::Contradiction("contradicts `reset_checkpoints`".into())));
    }
    let Some(spec) = tx.spec(old.seq)? else { return Err(ActionError::NotFound(id)) };
    let payload = new_payload(tx, caller, &old, (how, checks))?;
    let is_edited = payload.is_some();
    let payload = payload.unwrap_or_else(|| spec.payload.clone());
    let unique_key = free_unique_key(tx, &old, &spec)?;
    let lane = new_lane(tx, &old, how)?;
    let one_more = BTreeMap::from([(lane.clone(), 1)]);
    check_depth::<ActionError>(tx, one_more)?;
    check_concurrency_key(tx, &old, &spec)?;
    let seq = tx.allocate(1)?;
    let keys = unique_key.into_iter().map(|key| (key, KeyHolder::unique(seq))).collect();
    let held = renewed(tx, &old, lane, seq);
    let given =
        Spec { payload, idempotency_key: None, after: Vec::new(), after_any: Vec::new(), ..spec.clone() };
    let mut held = tx.with_ticket_in_place_of((&old, &spec), (held, &given));
    if !how.reset_checkpoints {
        copy_checkpoints(tx, &old, &mut held, how.from_step.as_deref())?;
    }
    let Ok(Transition::Changed(change)) = transition(&held, &JobEvent::Submit, tx.now) else {
        return Err(InvalidTransition { state: held.state, action: JobAction::Redrive }.into());
    };
    let new = change.job;
    let cause = RecordActor::caller(caller, None);
    let mut context =
        json!({"job_id": id.to_string(), "actor_id": caller.id, "new_job_id": new.id.to_string()});
    if is_edited {
        context["payload_changed"] = json!(true);
    }
    if new.lane.version != old.lane.version {
        context["requires_version"] = json!(new.lane.version);
    }
    if let Some(step) = &how.from_step {
        context["from_step"] = json!(step);
    }
    tx.record_job(AuditEvent::Redriven, &old, &old, &cause, Some(context))?;
    tx.record_job(AuditEvent::Submitted, &held, &new, &cause, None)?;
    tx.insert(new.clone(), given, keys);
    let mut old = old;
    old.details_mut().superseded_by = Some(new.id);
    tx.put(old);
    Ok(new)
}

/// The payload to use in place of the old one's, if one is given. It is a submission of the caller, so it needs that
/// permission; a callback reports what happened, so its payload cannot be changed.
fn new_payload(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    old: &JobRecord,
    (how, checks): (&Redrive, &mut SchemaChecks),
) -> Result<Option<Payload>, ActionError> {
    let Some(payload) = how.payload.clone() else { return Ok(None) };
    caller.require(Permission::Submit)?;
    let problem = |problem| ActionError::Invalid(FieldError::new("payload", problem));
    if old.lane.is_internal() {
        let what = "of a callback or an alert cannot be changed";
        return Err(problem(FieldProblem::Contradiction(what.into())));
    }
    let (length, limit) = (payload.bytes.len(), tx.env.options.payload_bytes_max);
    if length > limit {
        return Err(problem(FieldProblem::TooLong { length, limit }));
    }
    payload.check()?;
    let config = tx.config()?;
    let settings = config.types.get(&old.lane.job_type);
    checks.payload(&tx.env.schemas, &old.lane.job_type, settings, &payload)?;
    Ok(Some(payload))
}

/// The lane of the new job: the old one's, unless it is to require another version.
fn new_lane(tx: &mut WriteTx<'_>, old: &JobRecord, how: &Redrive) -> Result<Arc<Lane>, ActionError> {
    let version = match &how.requires_version {
        Field::Keep => return Ok(old.lane.clone()),
        Field::Clear => None,
        Field::Set(version) => Some(version.clone()),
    };
    if old.lane.is_internal() && version.is_some() {
        let what = "cannot be given to a callback or an alert: the server itself sends them";
        return Err(FieldError::new("requires_version", FieldProblem::Contradiction(what.into())).into());
    }
    let lane = tx.intern_lane(Lane::clone(&old.lane).requiring(version));
    check_new_lane(tx, &lane)?;
    Ok(lane)
}

/// Refuses to use a concurrency key again if its tenant already uses as many as it may.
fn check_concurrency_key(tx: &mut WriteTx<'_>, old: &JobRecord, spec: &Spec) -> Result<(), ActionError> {
    let Some((key, text)) = used_key(old).zip(spec.concurrency_key.as_deref()) else { return Ok(()) };
    match first_beyond_limit(tx, &old.lane.tenant, &[WantedKey { text, key }])? {
        Some((_, problem)) => Err(FieldError::new("concurrency_key", problem).into()),
        None => Ok(()),
    }
}

/// The job's unique key, if it has one and it is free.
fn free_unique_key(tx: &mut WriteTx<'_>, old: &JobRecord, spec: &Spec) -> Result<Option<Key>, ActionError> {
    let Some(text) = &spec.unique_key else { return Ok(None) };
    let (tenant, job_type) = (old.lane.tenant.clone(), old.lane.job_type.clone());
    let key = Key { kind: KeyKind::Unique, tenant, job_type, text: text.clone() };
    match unique_holder(tx, &key)? {
        Some(holder) => Err(ActionError::UniqueKeyTaken { key: text.clone(), holder }),
        None => Ok(Some(key)),
    }
}

/// The job as first submitted, created now, without its dependencies and parent.
fn renewed(tx: &WriteTx<'_>, old: &JobRecord, lane: Arc<Lane>, seq: Seq) -> JobRecord {
    let id = JobId::new(tx.now, tx.env.entropy.bits());
    JobRecord {
        priority: old.priority,
        concurrency: old.concurrency,
        trace: old.trace,
        has: JobFlags { unique_key: old.has.unique_key, callback: old.has.callback, ..JobFlags::default() },
        details: Arc::new(RareFields {
            retry_of: Some(old.id),
            owner_key: old.details.owner_key.clone(),
            ..RareFields::default()
        }),
        ..JobRecord::new(seq, id, lane, old.policy.clone(), tx.now)
    }
}

fn from_step(problem: FieldProblem) -> ActionError {
    ActionError::Invalid(FieldError::new("from_step", problem))
}

/// Gives the new job the checkpoints of the old one; with `step`, only those that a retry from it keeps.
fn copy_checkpoints(
    tx: &mut WriteTx<'_>,
    old: &JobRecord,
    new: &mut JobRecord,
    step: Option<&str>,
) -> Result<(), ActionError> {
    if !old.has.checkpoints && step.is_none() {
        return Ok(());
    }
    let limit = limits::CHECKPOINTS_MAX;
    let query = JobDataQuery { seq: old.seq, kind: JobDataKind::Checkpoint, name: None, above: None, limit };
    let mut kept = tx.db()?.job_data(query)?;
    if let Some(step) = step {
        let saved: Vec<SavedStep<'_>> =
            kept.iter().map(|data| SavedStep { key: &data.name, record: &data.body }).collect();
        let mut is_kept = kept_before(&saved, step).map_err(from_step)?.into_iter();
        kept.retain(|_| is_kept.next().unwrap_or(false));
    }
    let bytes: usize = kept.iter().map(|data| data.body.len()).sum();
    new.has.checkpoints = !kept.is_empty();
    let details = new.details_mut();
    (details.checkpoints, details.checkpoint_bytes) = (kept.len() as u64, bytes as u64);
    for data in kept {
        tx.write_job_data(JobDataWrite::Put(JobData { seq: new.seq, ..data }));
    }
    Ok(())
}
