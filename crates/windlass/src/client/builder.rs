//! A job on its way to submission: its data and what it asks for. The same methods whether it is submitted alone, in a
//! batch or as a child.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use super::{Client, Handle, Job, JobHandle};
use crate::clock::Timestamp;
use crate::error::{FieldProblem, Invalid, SubmitError};
use crate::handler::lost_in_json;
use crate::job::{
    Debounce, Dependency, JobId, JobType, NewJob, Payload, Priority, QueueName, RetryPolicy, Tenant,
};
use crate::store::command::submit::SubmitOptions;

/// Something a job can wait for: a handle, a node of the same batch, or an id.
pub trait IntoDependency {
    /// As the store understands it.
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

/// A job and what it asks for.
pub struct JobBuilder<J> {
    // A value that is not allowed is told at submission, not here: builders do not fail.
    new: Result<NewJob, Invalid>,
    kind: PhantomData<fn() -> J>,
}

impl<J: Job> From<J> for JobBuilder<J> {
    fn from(job: J) -> JobBuilder<J> {
        JobBuilder::new(&job)
    }
}

impl<J: Job> JobBuilder<J> {
    /// A job that asks for what its kind asks for.
    pub fn new(job: &J) -> JobBuilder<J> {
        JobBuilder { new: builder(job), kind: PhantomData }
    }

    pub(crate) fn into_new(self) -> Result<NewJob, Invalid> {
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
            (Ok(_), Err(problem)) => self.new = Err(Invalid::new(field, problem)),
            (Err(_), _) => {}
        }
        self
    }
}

fn builder<J: Job>(job: &J) -> Result<NewJob, Invalid> {
    let job_type = JobType::new(J::TYPE).map_err(|problem| Invalid::new("type", problem))?;
    let payload = serde_json::to_vec(job).map_err(|error| {
        Invalid::new("payload", FieldProblem::Contradiction(format!("cannot be written as JSON: {error}")))
    })?;
    // A payload that no handler could read is refused here, where the submitter hears of it.
    if let Some(error) = lost_in_json::<J>(&payload) {
        let problem = FieldProblem::Contradiction(format!("cannot be read back from its JSON: {error}"));
        return Err(Invalid::new("payload", problem));
    }
    let defaults = J::defaults();
    let mut new = NewJob::new(job_type, Payload::json(payload));
    if let Some(queue) = defaults.queue {
        new.queue = QueueName::new(queue).map_err(|problem| Invalid::new("queue", problem))?;
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
    /// Which queue it waits in.
    fn queue(self, name: &str) => |builder, name| {
        builder.with_checked("queue", QueueName::new(name), |new, queue| new.queue = queue)
    };
    /// How long to wait first.
    fn delay(self, delay: Duration) => |builder, delay| builder.with(|new| new.delay = Some(delay));
    /// Same key, same job: a second submission finds the first one's (M13).
    fn key(self, key: &str) => |builder, key| builder.with(|new| new.idempotency_key = Some(key.to_owned()));
    /// For how long its idempotency key is remembered.
    fn key_window(self, window: Duration) => |builder, window| {
        builder.with(|new| new.idempotency_window = Some(window))
    };
    /// One job at a time with this key (M14).
    fn unique(self, key: &str) => |builder, key| builder.with(|new| new.unique_key = Some(key.to_owned()));
    /// Not to run beside others with this key (M110).
    fn concurrency_key(self, key: &str) => |builder, key| {
        builder.with(|new| new.concurrency_key = Some(key.to_owned()))
    };
    /// Wait for the last of several submissions: while a job with this key has not started, a later one replaces its
    /// payload and its delay instead of adding a job.
    fn debounce(self, key: &str, delay: Duration) => |builder, key, delay| {
        builder.with(|new| new.debounce = Some(Debounce { key: key.to_owned(), delay }))
    };
    /// A word to find it by.
    fn tag(self, name: &str, value: &str) => |builder, name, value| {
        builder.with(|new| drop(new.labels.tags.insert(name.to_owned(), value.to_owned())))
    };
    /// The caller's own name for what it belongs to.
    fn correlation_id(self, id: &str) => |builder, id| {
        builder.with(|new| new.labels.correlation_id = Some(id.to_owned()))
    };
    /// Where to report its end.
    fn callback_url(self, url: &str) => |builder, url| {
        builder.with(|new| new.labels.callback_url = Some(url.to_owned()))
    };
    /// Not before this one completed (M60).
    fn after(self, other: &dyn IntoDependency) => |builder, other| builder.with(|new| new.after.push(other.dependency()));
    /// Not before this one, or another that is named so, ended (M60).
    fn after_any(self, other: &dyn IntoDependency) => |builder, other| {
        builder.with(|new| new.after_any.push(other.dependency()))
    };
    /// When and how often to try again.
    fn retry(self, policy: RetryPolicy) => |builder, policy| builder.with(|new| new.retry = Some(policy));
    /// Longest attempt.
    fn timeout(self, timeout: Duration) => |builder, timeout| {
        builder.with(|new| new.execution_timeout = Some(timeout))
    };
    /// How long a lease holds without a heartbeat.
    fn lease(self, lease: Duration) => |builder, lease| builder.with(|new| new.lease_timeout = Some(lease));
    /// From submission to a final state.
    fn lifetime(self, lifetime: Duration) => |builder, lifetime| builder.with(|new| new.lifetime = Some(lifetime));
    /// From the moment it can be claimed to its first start; it fails if it is not started in time.
    fn start_within(self, time: Duration) => |builder, time| builder.with(|new| new.start_timeout = Some(time));
    /// Held until it is submitted by name.
    fn hold(self) => |builder| builder.with(|new| new.hold = true);
    /// Whose job it is.
    fn tenant(self, tenant: Tenant) => |builder, tenant| builder.with(|new| new.tenant = Some(tenant));
    /// The trace it belongs to.
    fn traceparent(self, traceparent: &str) => |builder, traceparent| {
        builder.with(|new| new.traceparent = Some(traceparent.to_owned()))
    };
}

impl<J: Job> JobBuilder<J> {
    /// How urgent it is: a number from 0 to 100, a name such as `"high"`, or a [`Priority`] (M20).
    #[must_use]
    pub fn priority(self, value: impl TryInto<Priority, Error: Into<FieldProblem>>) -> JobBuilder<J> {
        let priority = value.try_into().map_err(Into::into);
        self.with_checked("priority", priority, |new, priority| new.priority = Some(priority))
    }

    /// When to run it at the earliest: a [`Timestamp`], or a moment of the system's clock.
    #[must_use]
    pub fn at(self, at: impl Into<Timestamp>) -> JobBuilder<J> {
        let at = at.into();
        self.with(|new| new.run_at = Some(at))
    }

    /// Gives it a name within its batch.
    pub(crate) fn named(self, name: String) -> JobBuilder<J> {
        self.with(|new| new.name = Some(name))
    }
}

/// A submission; await it.
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

    /// How urgent it is: a number from 0 to 100, a name such as `"high"`, or a [`Priority`] (M20).
    pub fn priority(mut self, value: impl TryInto<Priority, Error: Into<FieldProblem>>) -> Submit<J> {
        self.builder = self.builder.priority(value);
        self
    }

    /// When to run it at the earliest: a [`Timestamp`], or a moment of the system's clock.
    pub fn at(mut self, at: impl Into<Timestamp>) -> Submit<J> {
        self.builder = self.builder.at(at);
        self
    }

    /// Refuses an idempotency key that was used with another payload (M13).
    pub fn strict(mut self) -> Submit<J> {
        self.options.strict = true;
        self
    }
}

#[cfg(feature = "postgres")]
impl<J: Job> Submit<J> {
    /// Submits it within a transaction of your own on the same PostgreSQL database, instead of awaiting it: committing makes
    /// it visible and wakes a worker, rolling back leaves nothing.
    ///
    /// It is a job once a writer has taken it in, normally within milliseconds after your commit; its owner is the
    /// database's user.
    ///
    /// # Errors
    /// [`SubmitError`] names field, value and limit; what else the transaction did stays.
    pub async fn within_postgres(
        self,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<Handle<J>, SubmitError> {
        let new = self.builder.into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
        let (store, caller) = (self.client.store(), self.client.caller());
        let id = store.submit_in_postgres_tx(transaction, caller, &new, self.options).await?;
        Ok(self.client.handle(id))
    }

    /// The statement that submits it, for a transaction of any driver: `sqlx`, `diesel`, …
    ///
    /// # Errors
    /// [`SubmitError`] names field, value and limit; what only the database knows, it tells when the statement is executed.
    pub fn into_sql(self) -> Result<crate::store::engines::postgres::SqlStatement, SubmitError> {
        let new = self.builder.into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
        self.client.store().sql_call(self.client.caller(), &new, self.options)
    }
}

impl<J: Job> IntoFuture for Submit<J> {
    type Output = Result<Handle<J>, SubmitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let new =
                self.builder.into_new().map_err(|invalid| SubmitError::Invalid { index: 0, invalid })?;
            let receipts = self.client.store().submit(self.client.caller(), vec![new], self.options).await?;
            Ok(Handle::new(self.client.clone(), &receipts[0]))
        })
    }
}
