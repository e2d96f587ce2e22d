//! Handles of submitted jobs: read them, wait for them, act on them.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::pauses::{ActionResult, outcome};
use super::stream::JobStream;
use super::{Client, Job};
use crate::audit::Record;
use crate::error::{ActionError, FieldError, FieldProblem, StoreError};
use crate::job::{ErrorRecord, JobId, JobState, Priority, Version};
use crate::limits;
use crate::store::command::actions::{ActionRequest, Patch, Suspend};
use crate::store::command::precondition::{ActionOptions, IfMatch};
use crate::store::command::redrive::Redrive;
use crate::store::command::submit::Receipt;
use crate::store::engine::RecordQuery;
use crate::store::query::explain::Reason;
use crate::store::query::job_details::Attempt;
use crate::store::query::snapshot::Snapshot;

/// Why a job has no result. `Debug` prints the same text as `Display`, so `unwrap` and `main` print a readable message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The job is not final yet.
    #[error("job {id} is {state} and not final yet")]
    NotYet {
        /// The job.
        id: JobId,
        /// The current state.
        state: JobState,
    },
    /// The job finished without success.
    #[error("job {id} ended {state}{}", described(error.as_deref()))]
    Ended {
        /// The job.
        id: JobId,
        /// The final state.
        state: JobState,
        /// The error that ended it, if one was stored.
        error: Option<Box<ErrorRecord>>,
    },
    /// The job does not exist, or was deleted.
    #[error("no job {0}")]
    NotFound(JobId),
    /// The result cannot be deserialized as the job's output type.
    #[error("the result of job {0} cannot be read: {1}")]
    Unreadable(JobId, serde_json::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Debug for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Describes a job's error: attempt, message, category and code.
fn described(error: Option<&ErrorRecord>) -> String {
    let Some(error) = error else { return ": no error was stored".into() };
    let within = if error.attempt > 0 { format!(" in attempt {}", error.attempt) } else { String::new() };
    format!("{within}: {}", crate::job::described(&error.message, error.category, error.code.as_deref()))
}

/// A handle for a job of any type.
#[derive(Clone)]
pub struct JobHandle {
    client: Client,
    id: JobId,
    if_match: IfMatch,
}

impl JobHandle {
    pub(crate) fn new(client: Client, id: JobId) -> JobHandle {
        JobHandle { client, id, if_match: IfMatch::any() }
    }

    /// The same handle, but its actions fail with [`ActionError::Changed`] unless the job still has this version; see
    /// [`Snapshot::version`]. An action that changes the job also changes its version.
    ///
    /// ```
    /// # async fn f(job: windlass::Handle<impl windlass::Job>) -> anyhow::Result<()> {
    /// let seen = job.snapshot().await?.ok_or_else(|| anyhow::anyhow!("no such job"))?;
    /// // Cancelled only if the job has not changed since.
    /// job.if_match(seen.version()).cancel().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn if_match(&self, version: Version) -> JobHandle {
        JobHandle { if_match: version.into(), ..self.clone() }
    }

    /// The job.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The job's current data; `None` if the job does not exist.
    pub async fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.client.api().get(self.client.caller(), self.id).await
    }

    /// The job's current state; `None` if the job does not exist.
    pub async fn state(&self) -> Result<Option<JobState>, StoreError> {
        Ok(self.snapshot().await?.map(|found| found.job.state))
    }

    /// All reasons why the job is not running; `None` if the job does not exist.
    pub async fn explain(&self) -> Result<Option<Vec<Reason>>, StoreError> {
        self.client.api().explain(self.client.caller(), self.id).await
    }

    /// Follows the partial output of the job, from its first chunk; see [`Cx::stream`](crate::Cx::stream).
    pub fn stream(&self) -> JobStream {
        JobStream::new(self.client.clone(), self.id)
    }

    /// Waits until the job is final or `timeout` has passed, and returns its data either way.
    pub async fn wait(&self, timeout: Duration) -> Result<Option<Snapshot>, StoreError> {
        self.client.api().wait(self.client.caller(), self.id, timeout).await
    }

    /// Waits for the job's result, as JSON.
    pub async fn result_json(&self, timeout: Duration) -> Result<Vec<u8>, ResultError> {
        let id = self.id;
        let found = self.wait(timeout).await?.ok_or(ResultError::NotFound(id))?;
        match found.job.state {
            JobState::Completed => {
                let kept = self.client.api().result(self.client.caller(), id).await?;
                let result = kept.ok_or(ResultError::NotFound(id))?.0;
                Ok(result.map_or_else(|| b"null".to_vec(), |bytes| bytes.to_vec()))
            }
            state if state.is_final() => {
                Err(ResultError::Ended { id, state, error: found.job.details.error.clone().map(Box::new) })
            }
            state => Err(ResultError::NotYet { id, state }),
        }
    }

    async fn act_with(&self, act: ActionRequest, strict: bool) -> Result<ActionResult, ActionError> {
        let options = ActionOptions { strict, if_match: self.if_match.clone() };
        let acted = self.client.api().act_with(self.client.caller(), self.id, act, options).await?;
        Ok(outcome(acted.is_changed))
    }

    async fn act(&self, act: ActionRequest) -> Result<ActionResult, ActionError> {
        self.act_with(act, false).await
    }

    async fn require_change(&self, act: ActionRequest) -> Result<(), ActionError> {
        self.act_with(act, true).await.map(drop)
    }

    /// Submits a job that was created with `hold`.
    pub async fn submit(&self) -> Result<ActionResult, ActionError> {
        self.act(ActionRequest::Submit).await
    }

    /// Suspends the job.
    pub async fn suspend(&self, how: Suspend) -> Result<ActionResult, ActionError> {
        self.act(ActionRequest::Suspend(how)).await
    }

    /// Suspends the job; fails if it is already suspended.
    pub async fn suspend_strictly(&self, how: Suspend) -> Result<(), ActionError> {
        self.require_change(ActionRequest::Suspend(how)).await
    }

    /// Resumes the job. To record a reason in the audit trail, see [`Store::act`](crate::Store::act).
    pub async fn resume(&self) -> Result<ActionResult, ActionError> {
        self.act(ActionRequest::Resume { reason: None }).await
    }

    /// Resumes the job; fails if it is not suspended.
    pub async fn resume_strictly(&self) -> Result<(), ActionError> {
        self.require_change(ActionRequest::Resume { reason: None }).await
    }

    /// Cancels the job and its children.
    pub async fn cancel(&self) -> Result<ActionResult, ActionError> {
        self.act(ActionRequest::Cancel { reason: None }).await
    }

    /// Cancels the job with a reason, stored in the job's error and the audit trail.
    pub async fn cancel_with_reason(&self, reason: &str) -> Result<ActionResult, ActionError> {
        self.act(ActionRequest::Cancel { reason: Some(reason.to_owned()) }).await
    }

    /// Changes the priority: a number from 0 to 100, a name such as `"high"`, or a [`Priority`].
    pub async fn set_priority(
        &self,
        value: impl TryInto<Priority, Error: Into<FieldProblem>>,
    ) -> Result<ActionResult, ActionError> {
        let priority = value.try_into().map_err(|problem| FieldError::new("priority", problem.into()))?;
        self.act(ActionRequest::Priority(priority)).await
    }

    /// Changes tags, correlation id or callback URL.
    pub async fn patch(&self, patch: Patch) -> Result<ActionResult, ActionError> {
        self.act(ActionRequest::Patch(patch)).await
    }

    /// The job's attempts, oldest first, including a running one; `None` if the job does not exist.
    pub async fn attempts(&self) -> Result<Option<Vec<Attempt>>, StoreError> {
        self.client.api().attempts(self.client.caller(), self.id).await
    }

    /// The job's audit records, oldest first.
    pub async fn history(&self) -> Result<Vec<Record>, StoreError> {
        let query =
            RecordQuery { job: Some(self.id), limit: limits::PAGE_RECORDS_MAX, ..RecordQuery::default() };
        self.client.api().audit(self.client.caller(), query).await
    }

    /// Sends the job a signal.
    pub async fn signal<T: serde::Serialize + Sync>(&self, name: &str, value: &T) -> Result<(), ActionError> {
        let unreadable = |error: serde_json::Error| {
            FieldError::new(
                "value",
                FieldProblem::Contradiction(format!("cannot be written as JSON: {error}")),
            )
        };
        let value = serde_json::to_vec(value).map_err(unreadable)?;
        let if_match = self.if_match.clone();
        self.client.api().signal_if(self.client.caller(), self.id, name, value, if_match).await.map(drop)
    }

    /// Submits a final job again as a new job.
    pub async fn redrive(&self, how: Redrive) -> Result<JobHandle, ActionError> {
        let if_match = self.if_match.clone();
        let new = self.client.api().redrive_if(self.client.caller(), self.id, how, if_match).await?;
        Ok(JobHandle::new(self.client.clone(), new.id))
    }

    /// Deletes the job, which must be final.
    pub async fn delete(&self) -> Result<(), ActionError> {
        self.client.api().delete_if(self.client.caller(), self.id, self.if_match.clone()).await
    }
}

/// A handle for a job of a known type.
pub struct Handle<J> {
    job: JobHandle,
    is_duplicate: bool,
    payload_differs: bool,
    is_deleted: bool,
    kind: PhantomData<fn() -> J>,
}

impl<J> Clone for Handle<J> {
    fn clone(&self) -> Handle<J> {
        Handle { job: self.job.clone(), kind: PhantomData, ..*self }
    }
}

impl<J: Job> Handle<J> {
    pub(crate) fn new(client: Client, receipt: &Receipt) -> Handle<J> {
        Handle {
            job: JobHandle::new(client, receipt.job.id),
            is_duplicate: receipt.is_duplicate,
            payload_differs: receipt.payload_differs,
            is_deleted: receipt.is_deleted,
            kind: PhantomData,
        }
    }

    /// A handle for a job id. Whether the job has this type is checked when its result is read.
    pub(crate) fn from_job(job: JobHandle) -> Handle<J> {
        Handle { job, is_duplicate: false, payload_differs: false, is_deleted: false, kind: PhantomData }
    }

    /// Whether the submission returned an earlier job with the same idempotency key.
    pub fn is_duplicate(&self) -> bool {
        self.is_duplicate
    }

    /// Whether that earlier job was deleted: its result is gone, but its key stays in use until the end of the
    /// idempotency window.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Whether that earlier job has another payload.
    pub fn payload_differs(&self) -> bool {
        self.payload_differs
    }

    /// Waits up to `timeout` for the job to complete and returns its handler's output.
    pub async fn result(&self, timeout: Duration) -> Result<J::Output, ResultError> {
        let json = self.job.result_json(timeout).await?;
        serde_json::from_slice(&json).map_err(|error| ResultError::Unreadable(self.job.id, error))
    }
}

impl<J> std::ops::Deref for Handle<J> {
    type Target = JobHandle;

    fn deref(&self) -> &JobHandle {
        &self.job
    }
}

impl fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobHandle").field(&self.id).finish()
    }
}

impl<J> fmt::Debug for Handle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = std::any::type_name::<J>();
        f.debug_struct("Handle").field("kind", &kind).field("id", &self.job.id).finish_non_exhaustive()
    }
}
