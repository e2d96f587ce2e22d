//! The job builder: a job's data and options. The methods are the same for a single job, a job of a batch and a child.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use super::{Client, Handle, Job, JobHandle};
use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem, SubmitError};
use crate::handler::lost_in_json;
use crate::job::{
    Debounce, Dependency, JobId, JobType, NewJob, Payload, Priority, QueueName, RetryPolicy, Tenant,
    WorkerVersion,
};
use crate::store::command::submit::SubmitOptions;

/// Something a job can depend on: a handle, a node of the same batch, or an id.
pub trait IntoDependency {
    /// The dependency as the store takes it.
    fn dependency(&self) -> Dependency;
}

impl IntoDependency for JobId {
    fn dependency(&self) -> Dependency {
        Dependency::Job(*self)
    }
}

impl IntoDependency for JobHandle {
    fn dependency(&self) -> Dependency {
        Dependency::Job(self.id())
    }
}

impl<J: Job> IntoDependency for Handle<J> {
    fn dependency(&self) -> Dependency {
        Dependency::Job(self.id())
    }
}

/// A job and its options.
pub struct JobBuilder<J> {
    // An invalid value is reported at submission, because builders do not fail.
    new: Result<NewJob, FieldError>,
    kind: PhantomData<fn() -> J>,
}

impl<J: Job> From<J> for JobBuilder<J> {
    fn from(job: J) -> JobBuilder<J> {
        JobBuilder::new(&job)
    }
}

impl<J: Job> JobBuilder<J> {
    /// A job with the defaults of its type.
    pub fn new(job: &J) -> JobBuilder<J> {
        JobBuilder { new: builder(job), kind: PhantomData }
    }

    pub(crate) fn into_new(self) -> Result<NewJob, FieldError> {
        self.new
    }

    fn with(mut self, change: impl FnOnce(&mut NewJob)) -> JobBuilder<J> {
        if let Ok(new) = &mut self.new {
            change(new);
        }
        self
    }

    fn with_checked<T>(
        mut self,
        field: &str,
        value: Result<T, FieldProblem>,
        change: impl FnOnce(&mut NewJob, T),
    ) -> JobBuilder<J> {
        match (&mut self.new, value) {
            (Ok(new), Ok(value)) => change(new, value),
            (Ok(_), Err(problem)) => self.new = Err(FieldError::new(field, problem)),
            (Err(_), _) => {}
        }
        self
    }
}

fn builder<J: Job>(job: &J) -> Result<NewJob, FieldError> {
    let job_type = JobType::new(J::TYPE).map_err(|problem| FieldError::new("type", problem))?;
    let payload = serde_json::to_vec(job).map_err(|error| {
        FieldError::new("payload", FieldProblem::Contradiction(format!("cannot be written as JSON: {error}")))
    })?;
    // A payload that no handler could read is rejected here, so the submitter gets the error.
    if let Some(error) = lost_in_json::<J>(&payload) {
        let problem = FieldProblem::Contradiction(format!("cannot be read back from its JSON: {error}"));
        return Err(FieldError::new("payload", problem));
    }
    let defaults = J::defaults();
    let mut new = NewJob::new(job_type, Payload::json(payload));
    if let Some(queue) = defaults.queue {
        new.queue = QueueName::new(queue).map_err(|problem| FieldError::new("queue", problem))?;
    }
    new.priority = defaults.priority;
    new.retry = defaults.retry;
    new.execution_timeout = defaults.timeout;
    Ok(new)
}

macro_rules! options {
    ($($(#[$doc:meta])* fn $name:ident(self $(, $argument:ident: $kind:ty)*) => $body:expr;)*) => {
        impl<J: Job> JobBuilder<J> {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(self $(, $argument: $kind)*) -> JobBuilder<J> {
                let apply: fn(JobBuilder<J> $(, $kind)*) -> JobBuilder<J> = $body;
                apply(self $(, $argument)*)
            })*
        }

        impl<J: Job> Submit<J> {
            $($(#[$doc])*
            pub fn $name(mut self $(, $argument: $kind)*) -> Submit<J> {
                self.builder = self.builder.$name($($argument),*);
                self
            })*
        }
    };
}

options! {
    /// The queue; `default` if not set.
    fn queue(self, name: &str) => |builder, name| {
        builder.with_checked("queue", QueueName::new(name), |new, queue| new.queue = queue)
    };
    /// How long to wait before the job can run.
    fn delay(self, delay: Duration) => |builder, delay| builder.with(|new| new.delay = Some(delay));
    /// Idempotency key: a second submission with the same key returns the first job.
    fn key(self, key: &str) => |builder, key| builder.with(|new| new.idempotency_key = Some(key.to_owned()));
    /// How long the idempotency key is remembered.
    fn key_window(self, window: Duration) => |builder, window| {
        builder.with(|new| new.idempotency_window = Some(window))
    };
    /// Unique key: only one unfinished job can hold it.
    fn unique(self, key: &str) => |builder, key| builder.with(|new| new.unique_key = Some(key.to_owned()));
    /// Concurrency key: limits how many jobs with the same key run at once.
    fn concurrency_key(self, key: &str) => |builder, key| {
        builder.with(|new| new.concurrency_key = Some(key.to_owned()))
    };
    /// Debounces: while a job with this key has not started, a later submission replaces its payload and delay instead
    /// of adding a job.
    fn debounce(self, key: &str, delay: Duration) => |builder, key, delay| {
        builder.with(|new| new.debounce = Some(Debounce { key: key.to_owned(), delay }))
    };
    /// Adds a tag, to find the job by.
    fn tag(self, name: &str, value: &str) => |builder, name, value| {
        builder.with(|new| drop(new.metadata.tags.insert(name.to_owned(), value.to_owned())))
    };
    /// Your own id for the request or process that the job belongs to.
    fn correlation_id(self, id: &str) => |builder, id| {
        builder.with(|new| new.metadata.correlation_id = Some(id.to_owned()))
    };
    /// URL that receives a callback when the job finishes.
    fn callback_url(self, url: &str) => |builder, url| {
        builder.with(|new| new.metadata.callback_url = Some(url.to_owned()))
    };
    /// Runs only after this job completed.
    fn after(self, other: &dyn IntoDependency) => |builder, other| builder.with(|new| new.after.push(other.dependency()));
    /// Runs after this job, or any other job named with `after_any`, has finished.
    fn after_any(self, other: &dyn IntoDependency) => |builder, other| {
        builder.with(|new| new.after_any.push(other.dependency()))
    };
    /// When and how often to retry.
    fn retry(self, policy: RetryPolicy) => |builder, policy| builder.with(|new| new.retry = Some(policy));
    /// Longest duration of one attempt.
    fn timeout(self, timeout: Duration) => |builder, timeout| {
        builder.with(|new| new.execution_timeout = Some(timeout))
    };
    /// How long a lease lasts without a heartbeat.
    fn lease(self, lease: Duration) => |builder, lease| builder.with(|new| new.lease_timeout = Some(lease));
    /// Longest time from submission to a final state.
    fn lifetime(self, lifetime: Duration) => |builder, lifetime| builder.with(|new| new.lifetime = Some(lifetime));
    /// Longest time from when the job becomes ready to its first start; the job fails if it is not started in time.
    fn start_within(self, time: Duration) => |builder, time| builder.with(|new| new.start_timeout = Some(time));
    /// Only workers of exactly this [`version`](crate::Worker::version) receive the job.
    fn requires_version(self, version: &str) => |builder, version| {
        builder.with_checked("requires_version", WorkerVersion::new(version), |new, version| {
            new.requires_version = Some(version);
        })
    };
    /// Keeps the job in state `created` until [`JobHandle::submit`](super::JobHandle::submit) is called.
    fn hold(self) => |builder| builder.with(|new| new.hold = true);
    /// The tenant that owns the job.
    fn tenant(self, tenant: Tenant) => |builder, tenant| builder.with(|new| new.tenant = Some(tenant));
    /// W3C trace context that the job belongs to.
    fn traceparent(self, traceparent: &str) => |builder, traceparent| {
        builder.with(|new| new.traceparent = Some(traceparent.to_owned()))
    };
    /// W3C `tracestate` of that trace context.
    fn tracestate(self, tracestate: &str) => |builder, tracestate| {
        builder.with(|new| new.tracestate = Some(tracestate.to_owned()))
    };
    /// W3C `baggage`: data for everything that the job causes; its handler and child jobs get it.
    fn baggage(self, baggage: &str) => |builder, baggage| {
        builder.with(|new| new.baggage = Some(baggage.to_owned()))
    };
}

impl<J: Job> JobBuilder<J> {
    /// Priority: a number from 0 to 100, a name such as `"high"`, or a [`Priority`].
    #[must_use]
    pub fn priority(self, value: impl TryInto<Priority, Error: Into<FieldProblem>>) -> JobBuilder<J> {
        let priority = value.try_into().map_err(Into::into);
        self.with_checked("priority", priority, |new, priority| new.priority = Some(priority))
    }

    /// Earliest start: a [`Timestamp`], or a [`SystemTime`](std::time::SystemTime).
    #[must_use]
    pub fn run_at(self, at: impl Into<Timestamp>) -> JobBuilder<J> {
        let at = at.into();
        self.with(|new| new.run_at = Some(at))
    }

    /// Names the job within its batch.
    pub(crate) fn named(self, name: String) -> JobBuilder<J> {
        self.with(|new| new.name = Some(name))
    }
}

/// A submission; await it to submit the job.
#[must_use = "nothing is submitted until this is awaited"]
pub struct Submit<J> {
    client: Client,
    builder: JobBuilder<J>,
    options: SubmitOptions,
}

impl<J: Job> Submit<J> {
    pub(crate) fn new(client: Client, builder: JobBuilder<J>) -> Submit<J> {
        Submit { client, builder, options: SubmitOptions::default() }
    }

    /// Priority: a number from 0 to 100, a name such as `"high"`, or a [`Priority`].
    pub fn priority(mut self, value: impl TryInto<Priority, Error: Into<FieldProblem>>) -> Submit<J> {
        self.builder = self.builder.priority(value);
        self
    }

    /// Earliest start: a [`Timestamp`], or a [`SystemTime`](std::time::SystemTime).
    pub fn run_at(mut self, at: impl Into<Timestamp>) -> Submit<J> {
        self.builder = self.builder.run_at(at);
        self
    }

    /// Fails if the idempotency key was already used with another payload.
    pub fn strict(mut self) -> Submit<J> {
        self.options.strict = true;
        self
    }
}

#[cfg(feature = "postgres")]
impl<J: Job> Submit<J> {
    /// Submits the job in your own transaction on the same PostgreSQL database, instead of awaiting this builder.
    /// Committing makes the job visible and wakes a worker; rolling back discards it.
    ///
    /// The job exists once a writer has taken it from the inbox, normally within milliseconds after your commit. Its
    /// owner is the database user.
    ///
    /// # Errors
    /// [`SubmitError`] names the field, value and limit. Your other changes in the transaction stay.
    pub async fn in_postgres_tx(
        self,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<Handle<J>, SubmitError> {
        let new = self.builder.into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
        let (store, caller) = (self.client.local("in_postgres_tx")?, self.client.caller());
        let id = store.submit_in_postgres_tx(transaction, caller, &new, self.options).await?;
        Ok(self.client.handle(id))
    }

    /// Like [`in_postgres_tx`](Submit::in_postgres_tx), in a transaction of `sqlx`.
    ///
    /// # Errors
    /// [`SubmitError`] names the field, value and limit. Your other changes in the transaction stay.
    #[cfg(feature = "sqlx")]
    pub async fn in_sqlx_tx(
        self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    ) -> Result<Handle<J>, SubmitError> {
        let new = self.builder.into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
        let (store, caller) = (self.client.local("in_sqlx_tx")?, self.client.caller());
        let id = store.submit_in_sqlx_tx(transaction, caller, &new, self.options).await?;
        Ok(self.client.handle(id))
    }

    /// The SQL statement that submits the job, for a transaction of any driver: `diesel`, `sea-orm`, …
    ///
    /// # Errors
    /// [`SubmitError`] names the field, value and limit. Checks that need the database fail when the statement is
    /// executed.
    pub fn submit_sql(self) -> Result<crate::store::engines::postgres::SqlStatement, SubmitError> {
        let new = self.builder.into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
        self.client.local("submit_sql")?.submit_sql(self.client.caller(), &new, self.options)
    }
}

impl<J: Job> IntoFuture for Submit<J> {
    type Output = Result<Handle<J>, SubmitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let new =
                self.builder.into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
            let receipts = self.client.api().submit(self.client.caller(), vec![new], self.options).await?;
            Ok(Handle::new(self.client.clone(), &receipts[0]))
        })
    }
}
