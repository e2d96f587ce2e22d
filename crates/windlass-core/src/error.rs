//! Errors, one enum per kind of operation, so that a caller matches exactly what can happen. Expected races are not
//! errors but results (`Finish::Stale`, `ActionResult::Unchanged`).

mod field_error;
mod store;

use std::time::Duration;

pub use field_error::{FieldError, FieldProblem};
pub use store::{MoveError, OpenError, RestoreError, StoreError};

use crate::job::{AlertName, JobAction, JobId, JobState, NeededBy, ScheduleName, Version, WorkerId};
use crate::key::KeyId;

/// A queue or tenant has reached its limit of unfinished jobs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{scope} holds {depth} unfinished jobs, the limit is {limit}: try again in {retry_after:?}")]
pub struct TooDeep {
    /// The queue or tenant.
    pub scope: String,
    /// Unfinished jobs now.
    pub depth: u64,
    /// The limit.
    pub limit: u64,
    /// When to try again.
    pub retry_after: Duration,
}

/// A submission was refused; nothing was stored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A value is not allowed. `index` is the job's position in its batch.
    #[error("job {index}: {invalid}")]
    Invalid {
        /// Position in the batch, from 0.
        index: usize,
        /// Field and problem.
        invalid: FieldError,
    },
    /// The payload is larger than the limit.
    #[error("job {index}: payload is {size} bytes, the limit is {limit}")]
    PayloadTooLarge {
        /// Position in the batch, from 0.
        index: usize,
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: usize,
    },
    /// Another job that is not final holds the unique key.
    #[error("job {index}: unique key `{key}` is held by job {holder}")]
    UniqueKeyTaken {
        /// Position in the batch, from 0.
        index: usize,
        /// The unique key.
        key: String,
        /// The job that holds the key.
        holder: JobId,
    },
    /// Strict mode: the idempotency key was used with another payload.
    #[error("job {index}: idempotency key belongs to job {existing} with another payload")]
    PayloadDiffers {
        /// Position in the batch, from 0.
        index: usize,
        /// The job that has the key.
        existing: JobId,
    },
    /// The queue or tenant has reached its limit of unfinished jobs.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An action was refused; nothing changed and nothing was audited.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// The job does not exist, or belongs to another tenant.
    #[error("no job {0}")]
    NotFound(JobId),
    /// The job's state does not allow the action.
    #[error(transparent)]
    Refused(#[from] InvalidTransition),
    /// Strict mode: the job is already suspended.
    #[error("job {0} is already suspended")]
    AlreadySuspended(JobId),
    /// Strict mode: the job runs, and its suspension is already requested.
    #[error("job {0} is running, and its suspension is already requested")]
    SuspensionRequested(JobId),
    /// Strict mode: the job is not suspended.
    #[error("job {0} is not suspended")]
    NotSuspended(JobId),
    /// Strict mode: it is already paused.
    #[error("{0} is already paused")]
    AlreadyPaused(String),
    /// Strict mode: it is not paused.
    #[error("{0} is not paused")]
    NotPaused(String),
    /// The job cannot be deleted yet, because another job needs it.
    #[error("job {id} cannot be deleted: {by}")]
    Needed {
        /// The job.
        id: JobId,
        /// The job's final state.
        state: JobState,
        /// The job that needs it.
        by: NeededBy,
    },
    /// The job was already redriven, and the caller asked for at most one successor.
    #[error("job {id} was already redriven as job {successor}: check that job first")]
    AlreadyRedriven {
        /// The job.
        id: JobId,
        /// The job that replaced it.
        successor: JobId,
    },
    /// The job's version is not the expected one: it changed since the caller read it.
    #[error("job {id} has changed (its version is now {version}): read it again")]
    Changed {
        /// The job.
        id: JobId,
        /// The current version.
        version: Version,
    },
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] FieldError),
    /// The worker does not exist, or was removed.
    #[error("no worker {0}")]
    NoSuchWorker(WorkerId),
    /// The API key does not exist, or was revoked.
    #[error("no key {0}")]
    NoSuchKey(KeyId),
    /// The last admin key cannot be revoked: without it no caller could manage keys.
    #[error("key {0} is the last admin key: create another one first")]
    LastAdminKey(KeyId),
    /// The unique key of the job to redrive is held by another job.
    #[error("unique key `{key}` is held by job {holder}")]
    UniqueKeyTaken {
        /// The unique key.
        key: String,
        /// The job that holds the key.
        holder: JobId,
    },
    /// Redriving would exceed the limit of unfinished jobs of the queue or tenant.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A schedule operation was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The schedule does not exist, or belongs to another tenant.
    #[error("no schedule {0}")]
    NotFound(ScheduleName),
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] FieldError),
    /// The schedule's job was refused.
    #[error(transparent)]
    Refused(Box<SubmitError>),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SubmitError> for ScheduleError {
    fn from(error: SubmitError) -> ScheduleError {
        match error {
            SubmitError::Invalid { invalid, .. } => {
                let field = format!("job.{}", invalid.field);
                ScheduleError::Invalid(FieldError::new(field, invalid.problem))
            }
            SubmitError::Forbidden(denied) => ScheduleError::Forbidden(denied),
            SubmitError::Store(error) => ScheduleError::Store(error),
            refused => ScheduleError::Refused(Box::new(refused)),
        }
    }
}

/// An operation on an alert was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlertError {
    /// The alert does not exist, or belongs to another tenant.
    #[error("no alert {0}")]
    NotFound(AlertName),
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] FieldError),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state machine has no such transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {} a job that is {state}", .action.verb())]
pub struct InvalidTransition {
    /// The job's state.
    pub state: JobState,
    /// The action.
    pub action: JobAction,
}

/// The caller's role or tenant does not allow this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{actor} with role {role} may not {action}")]
pub struct Forbidden {
    /// The caller.
    pub actor: String,
    /// The caller's role.
    pub role: &'static str,
    /// The action.
    pub action: &'static str,
}

/// A worker's request was refused as a whole.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The worker is not registered, or was removed: register again.
    #[error("no worker {0}: register again")]
    NoSuchWorker(WorkerId),
    /// The job does not exist, or belongs to another tenant.
    #[error("no job {0}")]
    NoSuchJob(JobId),
    /// The lease was lost; nothing was written.
    #[error("the lease on job {0} was lost")]
    Stale(JobId),
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] FieldError),
    /// An API key or a tenant has reached its limit of registered workers, or of the bytes in their queue and type
    /// names.
    #[error(
        "this {of} may have {workers_max} workers with {bytes_max} bytes of queue and type names: stop some, or use fewer names"
    )]
    TooManyWorkers {
        /// `key` or `tenant`.
        of: &'static str,
        /// The limit on workers.
        workers_max: usize,
        /// The limit on bytes of names.
        bytes_max: usize,
        /// When to try again; workers without heartbeats are removed by then.
        retry_after: Duration,
    },
    /// A task of the worker panicked; its running jobs were released.
    #[error("a task of the worker panicked: {0}")]
    Panicked(String),
    /// The children were refused.
    #[error(transparent)]
    Children(Box<SubmitError>),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl WorkError {
    /// Whether the same request may succeed later, without a change of anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, WorkError::Store(error) if !error.is_permanent())
    }
}
