//! Jobs after submission: look at them, wait for them, act on them.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::pauses::{ActionResult, outcome};
use super::{Client, Job};
use crate::audit::Record;
use crate::error::{ActError, FieldProblem, Invalid, StoreError};
use crate::job::{ErrorRecord, JobId, JobState, Priority, Version};
use crate::limits;
use crate::store::command::actions::{JobAction, Patch, Suspend};
use crate::store::command::precondition::{ActOptions, IfMatch};
use crate::store::command::redrive::Redrive;
use crate::store::command::submit::Receipt;
use crate::store::engine::RecordQuery;
use crate::store::query::explain::Reason;
use crate::store::query::job_details::Attempt;
use crate::store::query::snapshot::Snapshot;

/// Why there is no result. Its `Debug` is its text, so that `unwrap` and `main` print something that people can read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The job is not final yet.
    #[error("job {id} is {state} and not final yet")]
    NotYet {
        /// Which job.
        id: JobId,
        /// Where it is.
        state: JobState,
    },
    /// The job ended without success.
    #[error("job {id} ended {state}{}", described(error.as_deref()))]
    Ended {
        /// Which job.
        id: JobId,
        /// How it ended.
        state: JobState,
        /// Its error.
        error: Option<Box<ErrorRecord>>,
    },
    /// There is no such job (any more).
    #[error("no job {0}")]
    NotFound(JobId),
    /// The result is not what its kind says.
    #[error("the result of job {0} cannot be read: {1}")]
    Unreadable(JobId, serde_json::Error),
    /// The store could not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Debug for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What ended a job, after its id and state: in which attempt, the message, the category and the code.
fn described(error: Option<&ErrorRecord>) -> String {
    let Some(error) = error else { return ": no error was kept".into() };
    let within = if error.attempt > 0 { format!(" in attempt {}", error.attempt) } else { String::new() };
    format!("{within}: {}", crate::job::described(&error.message, error.category, error.code.as_deref()))
}

/// A job by its id, whatever its kind.
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

    /// The same job, but actions on it are refused with [`ActError::Changed`] unless it is still in this version; see
    /// [`Snapshot::version`]. An action that changes the job gives it another version.
    ///
    /// ```
    /// # async fn f(job: windlass::Handle<impl windlass::Job>) -> anyhow::Result<()> {
    /// let seen = job.snapshot().await?.ok_or_else(|| anyhow::anyhow!("no such job"))?;
    /// // Cancelled only if nothing has happened to it since.
    /// job.if_match(seen.version()).cancel().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn if_match(&self, version: Version) -> JobHandle {
        JobHandle { if_match: version.into(), ..self.clone() }
    }

    /// Its id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Everything about it now; none if there is no such job.
    pub async fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.client.store().get(self.client.caller(), self.id).await
    }

    /// Where it is now; none if there is no such job.
    pub async fn state(&self) -> Result<Option<JobState>, StoreError> {
        Ok(self.snapshot().await?.map(|found| found.job.state))
    }

    /// Every reason why it does not run (M102).
    pub async fn explain(&self) -> Result<Option<Vec<Reason>>, StoreError> {
        self.client.store().explain(self.client.caller(), self.id).await
    }

    /// The job once it is final, or as it is when `timeout` is over.
    pub async fn wait(&self, timeout: Duration) -> Result<Option<Snapshot>, StoreError> {
        self.client.store().wait(self.client.caller(), self.id, timeout).await
    }

    /// Its result as JSON, once it completed.
    pub async fn result_json(&self, timeout: Duration) -> Result<Vec<u8>, ResultError> {
        let id = self.id;
        let found = self.wait(timeout).await?.ok_or(ResultError::NotFound(id))?;
        match found.job.state {
            JobState::Completed => {
                let kept = self.client.store().result(self.client.caller(), id).await?;
                let result = kept.ok_or(ResultError::NotFound(id))?.0;
                Ok(result.map_or_else(|| b"null".to_vec(), |bytes| bytes.to_vec()))
            }
            state if state.is_final() => {
                Err(ResultError::Ended { id, state, error: found.job.details.error.clone().map(Box::new) })
            }
            state => Err(ResultError::NotYet { id, state }),
        }
    }

    async fn act_with(&self, act: JobAction, strict: bool) -> Result<ActionResult, ActError> {
        let options = ActOptions { strict, if_match: self.if_match.clone() };
        let acted = self.client.store().act_with(self.client.caller(), self.id, act, options).await?;
        Ok(outcome(acted.is_changed))
    }

    async fn act(&self, act: JobAction) -> Result<ActionResult, ActError> {
        self.act_with(act, false).await
    }

    async fn act_strictly(&self, act: JobAction) -> Result<(), ActError> {
        self.act_with(act, true).await.map(drop)
    }

    /// Lets go of a held job.
    pub async fn submit(&self) -> Result<ActionResult, ActError> {
        self.act(JobAction::Submit).await
    }

    /// Holds it (M50).
    pub async fn suspend(&self, how: Suspend) -> Result<ActionResult, ActError> {
        self.act(JobAction::Suspend(how)).await
    }

    /// Holds it; one that is suspended already is an error (M51).
    pub async fn suspend_strictly(&self, how: Suspend) -> Result<(), ActError> {
        self.act_strictly(JobAction::Suspend(how)).await
    }

    /// Lets go of it; with a reason for the audit trail, see [`Store::act`](crate::Store::act).
    pub async fn resume(&self) -> Result<ActionResult, ActError> {
        self.act(JobAction::Resume { reason: None }).await
    }

    /// Lets go of it; one that is not suspended is an error (M51).
    pub async fn resume_strictly(&self) -> Result<(), ActError> {
        self.act_strictly(JobAction::Resume { reason: None }).await
    }

    /// Does not run it any more; its children go with it.
    pub async fn cancel(&self) -> Result<ActionResult, ActError> {
        self.act(JobAction::Cancel { reason: None }).await
    }

    /// The same with a reason, for the job's error and the audit trail.
    pub async fn cancel_because(&self, reason: &str) -> Result<ActionResult, ActError> {
        self.act(JobAction::Cancel { reason: Some(reason.to_owned()) }).await
    }

    /// Changes how urgent it is: a number from 0 to 100, a name such as `"high"`, or a [`Priority`] (M22).
    pub async fn set_priority(
        &self,
        value: impl TryInto<Priority, Error: Into<FieldProblem>>,
    ) -> Result<ActionResult, ActError> {
        let priority = value.try_into().map_err(|problem| Invalid::new("priority", problem.into()))?;
        self.act(JobAction::Priority(priority)).await
    }

    /// Changes tags, correlation id or callback address.
    pub async fn patch(&self, patch: Patch) -> Result<ActionResult, ActError> {
        self.act(JobAction::Patch(patch)).await
    }

    /// Its attempts, the running one last (M17); none if there is no such job.
    pub async fn attempts(&self) -> Result<Option<Vec<Attempt>>, StoreError> {
        self.client.store().attempts(self.client.caller(), self.id).await
    }

    /// What the audit trail keeps about it, the oldest record first (M92).
    pub async fn history(&self) -> Result<Vec<Record>, StoreError> {
        let query =
            RecordQuery { job: Some(self.id), limit: limits::PAGE_RECORDS_MAX, ..RecordQuery::default() };
        self.client.store().audit(self.client.caller(), query).await
    }

    /// Sends it a signal (M72).
    pub async fn signal<T: serde::Serialize + Sync>(&self, name: &str, value: &T) -> Result<(), ActError> {
        let unreadable = |error: serde_json::Error| {
            Invalid::new("value", FieldProblem::Contradiction(format!("cannot be written as JSON: {error}")))
        };
        let value = serde_json::to_vec(value).map_err(unreadable)?;
        self.client.store().signal(self.client.caller(), self.id, name, value).await.map(drop)
    }

    /// Submits it again as a new job, once it is final (M2).
    pub async fn redrive(&self, how: Redrive) -> Result<JobHandle, ActError> {
        let if_match = self.if_match.clone();
        let new = self.client.store().redrive_if(self.client.caller(), self.id, how, if_match).await?;
        Ok(JobHandle::new(self.client.clone(), new.id))
    }

    /// Removes it, once it is final.
    pub async fn delete(&self) -> Result<(), ActError> {
        self.client.store().delete_if(self.client.caller(), self.id, self.if_match.clone()).await
    }
}

/// A job of a known kind.
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

    /// A job of which somebody kept the id; that it is of this kind is found out when its result is read.
    pub(crate) fn of(job: JobHandle) -> Handle<J> {
        Handle { job, is_duplicate: false, payload_differs: false, is_deleted: false, kind: PhantomData }
    }

    /// Whether this is an earlier job with the same idempotency key (M13).
    pub fn is_duplicate(&self) -> bool {
        self.is_duplicate
    }

    /// Whether that earlier job was deleted since: its result is gone, and its key answers for it until the end of the
    /// idempotency window (M13).
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Whether that earlier job had another payload (M13).
    pub fn payload_differs(&self) -> bool {
        self.payload_differs
    }

    /// What its handler returned, once it completed; waits for up to `timeout`, woken when it ends.
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
        f.debug_tuple("AnyJob").field(&self.id).finish()
    }
}

impl<J> fmt::Debug for Handle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = std::any::type_name::<J>();
        f.debug_struct("Handle").field("kind", &kind).field("id", &self.job.id).finish_non_exhaustive()
    }
}
