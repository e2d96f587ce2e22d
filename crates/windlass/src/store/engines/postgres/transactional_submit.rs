//! Submitting inside the caller's transaction: the job exists if and only if the caller's own rows do. It calls the
//! same SQL function as other programs, and neither begins nor commits.

#[cfg(feature = "sqlx")]
mod sqlx;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::connection::classify_error;
use crate::error::{FieldError, FieldProblem, StoreError, SubmitError};
use crate::job::{Dependency, JobId, NewJob, RetryPolicy};
use crate::store::caller::Caller;
use crate::store::command::submit::{self, SubmitOptions};
use crate::store::environment::Environment;

/// A submission as a statement, to be executed within any transaction on the store's database, with any driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlStatement {
    /// The statement; its one row holds the job's id as a `uuid`.
    pub statement: String,
    /// Its first parameter, a text: the job's type.
    pub job_type: String,
    /// Its second parameter, a `bytea`: the payload.
    pub payload: Vec<u8>,
    /// Its third parameter, a text: everything else, as JSON.
    pub options: String,
}

/// The statement that submits a job.
pub(crate) fn call(
    schema: &str,
    env: &Environment,
    caller: &Caller,
    job: &NewJob,
    options: SubmitOptions,
) -> Result<SqlStatement, SubmitError> {
    submit::check(std::slice::from_ref(job), env.options.payload_bytes_max, &env.options.targets)?;
    if job.debounce.is_some() {
        let problem = FieldProblem::Contradiction("is not possible in the caller's own transaction".into());
        return Err(SubmitError::Invalid { index: 0, invalid: FieldError::new("debounce", problem) });
    }
    Ok(SqlStatement {
        statement: format!("SELECT \"{schema}\".submit($1::text, $2::bytea, $3::text::jsonb)"),
        job_type: job.job_type.to_string(),
        payload: job.payload.bytes.to_vec(),
        options: written(caller, job, options).to_string(),
    })
}

/// A transaction of the caller's on the store's database, of whichever driver.
pub(crate) trait OwnTransaction: Send {
    /// Executes a statement without parameters.
    fn execute(&mut self, sql: &'static str) -> impl Future<Output = Result<(), SubmitError>> + Send;

    /// Executes the submission; the answer is the job's id, or why there is none.
    fn submit(&mut self, call: &SqlStatement) -> impl Future<Output = Result<JobId, SqlSubmitError>> + Send;
}

/// Why the database refused a submission.
pub(crate) enum SqlSubmitError {
    /// Raised by the function `submit` in SQL.
    Raised {
        /// The SQLSTATE.
        code: String,
        /// The message.
        message: String,
        /// The field that the refusal is about.
        field: String,
        /// The same as an error of the database.
        error: StoreError,
    },
    /// Anything else.
    Failed(StoreError),
}

/// Submits a job within `transaction`; committing makes it visible, rolling back discards it.
pub(crate) async fn submit(
    transaction: &mut impl OwnTransaction,
    call: &SqlStatement,
    job: &NewJob,
) -> Result<JobId, SubmitError> {
    transaction.execute("SAVEPOINT windlass_submit").await?;
    match transaction.submit(call).await {
        Ok(id) => {
            transaction.execute("RELEASE SAVEPOINT windlass_submit").await?;
            Ok(id)
        }
        Err(refusal) => {
            // The caller's own changes are kept; only what was done here is undone.
            transaction.execute("ROLLBACK TO SAVEPOINT windlass_submit").await?;
            Err(refusal.into_error(job))
        }
    }
}

impl SqlSubmitError {
    /// The error of the library.
    fn into_error(self, job: &NewJob) -> SubmitError {
        let (code, message, field, error) = match self {
            SqlSubmitError::Raised { code, message, field, error } => (code, message, field, error),
            SqlSubmitError::Failed(error) => return error.into(),
        };
        if code == SqlState::INVALID_PARAMETER_VALUE.code() && !field.is_empty() {
            let problem = message.strip_prefix(&field).unwrap_or(&message).trim_start().to_owned();
            let invalid = FieldError::new(field, FieldProblem::Contradiction(problem));
            return SubmitError::Invalid { index: 0, invalid };
        }
        // The holder is the last word of the message.
        let holder = message.rsplit(' ').next().and_then(|word| word.parse().ok());
        match (code == SqlState::UNIQUE_VIOLATION.code(), field.as_str(), holder) {
            (true, "unique_key", Some(holder)) => {
                let key = job.unique_key.clone().unwrap_or_default();
                SubmitError::UniqueKeyTaken { index: 0, key, holder }
            }
            (true, "idempotency_key", Some(existing)) => SubmitError::PayloadDiffers { index: 0, existing },
            _ => error.into(),
        }
    }
}

impl OwnTransaction for &Transaction<'_> {
    async fn execute(&mut self, sql: &'static str) -> Result<(), SubmitError> {
        self.batch_execute(sql).await.map_err(|error| classify_error(&error).into())
    }

    async fn submit(&mut self, call: &SqlStatement) -> Result<JobId, SqlSubmitError> {
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&call.job_type, Type::TEXT), (&call.payload, Type::BYTEA), (&call.options, Type::TEXT)];
        let rows = self.query_typed(&call.statement, &values).await.map_err(|error| refusal(&error))?;
        let id: Option<Uuid> = rows.first().and_then(|row| row.try_get(0).ok());
        let id = id.ok_or_else(|| StoreError::Database("`submit` in SQL returned no id".into()));
        id.map(|id| JobId::from_bytes(*id.as_bytes())).map_err(SqlSubmitError::Failed)
    }
}

fn refusal(error: &tokio_postgres::Error) -> SqlSubmitError {
    let Some(answer) = error.as_db_error() else { return SqlSubmitError::Failed(classify_error(error)) };
    SqlSubmitError::Raised {
        code: answer.code().code().to_owned(),
        message: answer.message().to_owned(),
        field: answer.column().unwrap_or_default().to_owned(),
        error: classify_error(error),
    }
}

/// A job's options, as `submit` in SQL reads them.
fn written(caller: &Caller, job: &NewJob, options: SubmitOptions) -> Value {
    let span = |duration: Option<Duration>| duration.map(milliseconds);
    let metadata = &job.metadata;
    let all = json!({
        "queue": job.queue.as_str(),
        "requires_version": job.requires_version,
        "priority": job.priority,
        "delay": span(job.delay),
        "run_at": job.run_at.map(|at| at.to_string()),
        "hold": job.hold.then_some(true),
        "idempotency_key": job.idempotency_key,
        "idempotency_window": span(job.idempotency_window),
        "unique_key": job.unique_key,
        "concurrency_key": job.concurrency_key,
        "retry": job.retry.as_ref().map(retry),
        "timeouts": {
            "execution": span(job.execution_timeout),
            "lease": span(job.lease_timeout),
            "lifetime": span(job.lifetime),
            "start": span(job.start_timeout),
        },
        "after": (!job.after.is_empty()).then(|| names(&job.after)),
        "after_any": (!job.after_any.is_empty()).then(|| names(&job.after_any)),
        "tags": (!metadata.tags.is_empty()).then_some(&metadata.tags),
        "correlation_id": metadata.correlation_id,
        "callback_url": metadata.callback_url,
        "tenant": job.tenant.as_ref().or(caller.tenant.as_ref()),
        "traceparent": job.traceparent,
        "tracestate": job.tracestate,
        "baggage": job.baggage,
        "content_type": &*job.payload.content_type,
        "strict": options.strict.then_some(true),
    });
    let Value::Object(all) = all else { return all };
    all.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

fn retry(policy: &RetryPolicy) -> Value {
    json!({
        "strategy": policy.strategy,
        "initial_delay": milliseconds(policy.initial_delay),
        "max_delay": milliseconds(policy.max_delay),
        "multiplier": policy.multiplier,
        "jitter": policy.jitter,
        "jitter_mode": policy.jitter_mode,
        "max_attempts": policy.max_attempts,
        "retry_on": policy.retry_on,
    })
}

/// Rounded up: a wait of half a millisecond must not become zero.
fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_nanos().div_ceil(1_000_000))
}

fn names(dependencies: &[Dependency]) -> Vec<String> {
    let name = |dependency: &Dependency| match dependency {
        Dependency::Job(id) => id.to_string(),
        Dependency::Named(name) => format!("@{name}"),
    };
    dependencies.iter().map(name).collect()
}
