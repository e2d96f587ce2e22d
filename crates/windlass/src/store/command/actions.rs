//! Actions on one job: submit a held job, suspend, resume, cancel, change priority and metadata, delete. Each reports
//! whether it changed anything.

pub(crate) mod signal;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::effects::audit::RecordActor;
use super::effects::needed::needed_by;
use super::precondition::{ActionOptions, IfMatch};
use crate::audit::AuditEvent;
use crate::error::ActionError;
use crate::job::{
    JobAction, JobEvent, JobId, JobMetadata, JobRecord, JobState, Priority, Seq, Spec, SuspendMode,
    Suspension, check_text,
};
use crate::limits;
use crate::store::caller::Caller;
use crate::store::documents::cascade::Task;
use crate::store::tx::write_tx::WriteTx;

/// A job after an action, as a record or as a [`Snapshot`](crate::store::query::snapshot::Snapshot), and whether the action
/// changed it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionReport<J = JobRecord> {
    /// The current job.
    pub job: J,
    /// Whether anything changed. If not, no audit record was written.
    pub is_changed: bool,
}

/// Options for suspending a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suspend {
    /// What happens to a running attempt.
    pub mode: SuspendMode,
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// How long until the job resumes by itself.
    pub expires: Option<Duration>,
}

impl Suspend {
    /// A running attempt may finish first.
    pub fn graceful() -> Suspend {
        Suspend { mode: SuspendMode::Graceful, ..Suspend::default() }
    }

    /// A running attempt is stopped now; this does not count as a failure.
    pub fn aggressive() -> Suspend {
        Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() }
    }

    /// Sets the reason.
    #[must_use]
    pub fn reason(self, reason: &str) -> Suspend {
        Suspend { reason: Some(reason.to_owned()), ..self }
    }

    /// Resumes the job automatically after this long.
    #[must_use]
    pub fn expires_in(self, time: Duration) -> Suspend {
        Suspend { expires: Some(time), ..self }
    }
}

/// An action on a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ActionRequest {
    /// Submit a job that was created on hold.
    Submit,
    /// Suspend the job.
    Suspend(Suspend),
    /// Resume a suspended job.
    Resume {
        /// The reason, for the audit trail.
        reason: Option<String>,
    },
    /// Cancel the job and its children.
    Cancel {
        /// The reason, for the audit trail.
        reason: Option<String>,
    },
    /// Change the priority.
    Priority(Priority),
    /// Change the metadata that clients may change.
    Patch(Patch),
}

/// Changes to a job; fields that are `None` stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// The new priority.
    pub priority: Option<Priority>,
    /// The new tags; replaces all tags.
    pub tags: Option<BTreeMap<String, String>>,
    /// The new correlation id; `Some(None)` clears it.
    pub correlation_id: Option<Option<String>>,
    /// The new callback URL; `Some(None)` clears it.
    pub callback_url: Option<Option<String>>,
}

/// Applies an action to a job.
pub(crate) fn act(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    act: &ActionRequest,
) -> Result<ActionReport, ActionError> {
    act_with(tx, caller, id, act, &ActionOptions::default())
}

/// Like [`act`], with options.
pub(crate) fn act_with(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    act: &ActionRequest,
    options: &ActionOptions,
) -> Result<ActionReport, ActionError> {
    let acted = do_if_matched(tx, caller, id, act, &options.if_match)?;
    if options.strict {
        require_change(&acted, act)?;
    }
    Ok(acted)
}

fn do_if_matched(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    act: &ActionRequest,
    if_match: &IfMatch,
) -> Result<ActionReport, ActionError> {
    check(act)?;
    let before = tx.managed(caller, id)?;
    if_match.check(tx, &before)?;
    let is_changed = do_to(tx, caller, &before, act)?;
    let job = tx.job(before.seq)?.cloned().unwrap_or(before);
    Ok(ActionReport { job, is_changed })
}

fn check(act: &ActionRequest) -> Result<(), ActionError> {
    let reason = match act {
        ActionRequest::Suspend(suspend) => suspend.reason.as_deref(),
        ActionRequest::Resume { reason } | ActionRequest::Cancel { reason } => reason.as_deref(),
        ActionRequest::Submit | ActionRequest::Priority(_) | ActionRequest::Patch(_) => None,
    };
    Ok(check_text("reason", reason, limits::REASON_CHARS_MAX)?)
}

/// Applies the action. The job was found and the caller's permission checked.
pub(crate) fn do_to(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    job: &JobRecord,
    act: &ActionRequest,
) -> Result<bool, ActionError> {
    let (seq, now) = (job.seq, tx.now);
    match act {
        ActionRequest::Submit => {
            Ok(tx.apply(seq, &JobEvent::Submit, &RecordActor::caller(caller, None))??)
        }
        ActionRequest::Suspend(suspend) => {
            let suspension = Suspension {
                by: caller.id.clone(),
                reason: suspend.reason.clone(),
                mode: suspend.mode,
                at: now,
                expires_at: suspend.expires.map(|after| now.plus(after)),
                by_pause: false,
            };
            let cause = RecordActor::caller(caller, suspend.reason.as_deref());
            Ok(tx.apply(seq, &JobEvent::Suspend { suspension }, &cause)??)
        }
        ActionRequest::Resume { reason } => {
            let is_changed =
                tx.apply(seq, &JobEvent::Resume, &RecordActor::caller(caller, reason.as_deref()))??;
            tx.deliver_signal(seq)?;
            tx.apply_due_timers(seq)?;
            Ok(is_changed)
        }
        ActionRequest::Cancel { reason } => {
            let message = match reason {
                Some(reason) => format!("cancelled by {}: {reason}", caller.id),
                None => format!("cancelled by {}", caller.id),
            };
            let cause = RecordActor::caller(caller, reason.as_deref());
            Ok(tx.apply(seq, &JobEvent::Cancel { message }, &cause)??)
        }
        ActionRequest::Priority(priority) => set_priority(tx, caller, seq, *priority),
        ActionRequest::Patch(patch) => self::patch(tx, caller, job, patch),
    }
}

fn set_priority(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    seq: Seq,
    priority: Priority,
) -> Result<bool, ActionError> {
    let Some(before) = tx.job(seq)?.cloned() else { return Ok(false) };
    JobAction::Priority.check(before.state)?;
    if before.priority == priority {
        return Ok(false);
    }
    let mut after = before.clone();
    after.priority = priority;
    after.updated_at = tx.now;
    // The order among the jobs blocked on a key changes; the next claim decides again.
    after.is_blocked = false;
    after.details_mut().priority_updated_at = Some(tx.now);
    let context = json!({
        "job_id": before.id.to_string(),
        "actor_id": caller.id,
        "previous_priority": before.priority.value(),
        "new_priority": priority.value(),
    });
    let cause = RecordActor::caller(caller, None);
    tx.record_job(AuditEvent::PriorityUpdated, &before, &after, &cause, Some(context))?;
    let (has_dependents, depth) = (after.has.dependents, after.depth);
    tx.put(after);
    if has_dependents {
        tx.cascade(depth, Task::Priority { job: seq, after: None })?;
    }
    Ok(true)
}

fn patch(tx: &mut WriteTx<'_>, caller: &Caller, job: &JobRecord, patch: &Patch) -> Result<bool, ActionError> {
    JobAction::Patch.check(job.state)?;
    let Some(spec) = tx.spec(job.seq)? else { return Err(ActionError::NotFound(job.id)) };
    let metadata = JobMetadata {
        tags: patch.tags.clone().unwrap_or_else(|| spec.metadata.tags.clone()),
        correlation_id: patch.correlation_id.clone().unwrap_or_else(|| spec.metadata.correlation_id.clone()),
        callback_url: patch.callback_url.clone().unwrap_or_else(|| spec.metadata.callback_url.clone()),
    };
    metadata.check()?;
    if patch.callback_url.is_some() {
        metadata.check_callback(&tx.env.options.targets)?;
    }
    let mut is_changed = false;
    if metadata != spec.metadata {
        let mut next = job.clone();
        next.updated_at = tx.now;
        next.has.callback = metadata.callback_url.is_some();
        let context = json!({"job_id": job.id.to_string(), "actor_id": caller.id});
        tx.record_job(AuditEvent::Patched, job, &next, &RecordActor::caller(caller, None), Some(context))?;
        let new = Spec { metadata: metadata.clone(), ..spec.clone() };
        let next = tx.with_ticket_for_change(next, &spec, &new);
        tx.put(next);
        tx.set_metadata(job.seq, metadata);
        is_changed = true;
    }
    if let Some(priority) = patch.priority {
        is_changed |= set_priority(tx, caller, job.seq, priority)?;
    }
    Ok(is_changed)
}

/// Deletes a final job with its data; its audit records are kept. Refused while another job depends on it.
pub(crate) fn delete(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    if_match: &IfMatch,
) -> Result<(), ActionError> {
    let job = tx.managed(caller, id)?;
    if_match.check(tx, &job)?;
    JobAction::Delete.check(job.state)?;
    // Timer effects on the job are kept, whether or not it may be deleted.
    tx.begin();
    if let Some(by) = needed_by(tx, &job)? {
        return Err(ActionError::Needed { id, state: job.state, by });
    }
    let context = json!({"job_id": id.to_string(), "actor_id": caller.id, "state": job.state.as_str()});
    tx.record_job(AuditEvent::Deleted, &job, &job, &RecordActor::caller(caller, None), Some(context))?;
    tx.remove(job.seq);
    // Flush now, so that no other command in this commit finds the job.
    Ok(tx.flush()?)
}

impl WriteTx<'_> {
    /// The job, if the caller can see and manage it. Applies due timers first.
    pub(crate) fn managed(&mut self, caller: &Caller, id: JobId) -> Result<JobRecord, ActionError> {
        let seq = self.find_readable(id)?.ok_or(ActionError::NotFound(id))?;
        self.apply_due_timers(seq)?;
        let job = self.job(seq)?.filter(|job| caller.can_see(&job.lane.tenant)).cloned();
        let job = job.ok_or(ActionError::NotFound(id))?;
        if caller.role.manages_own_jobs_only() {
            let spec = self.spec(seq)?.ok_or(ActionError::NotFound(id))?;
            caller.require_manage(&job, &spec)?;
        } else {
            caller.require(crate::store::caller::Permission::ManageJob)?;
        }
        Ok(job)
    }
}

/// Returns an error if a suspend or resume found the job already in the requested state; for strict callers.
pub(crate) fn require_change(acted: &ActionReport, act: &ActionRequest) -> Result<(), ActionError> {
    match act {
        ActionRequest::Suspend(_) if !acted.is_changed && acted.job.is_suspended_or_asked_to() => {
            let id = acted.job.id;
            let is_suspended = acted.job.state == JobState::Suspended;
            Err(if is_suspended {
                ActionError::AlreadySuspended(id)
            } else {
                ActionError::SuspensionRequested(id)
            })
        }
        ActionRequest::Resume { .. } if !acted.is_changed => Err(ActionError::NotSuspended(acted.job.id)),
        _ => Ok(()),
    }
}
