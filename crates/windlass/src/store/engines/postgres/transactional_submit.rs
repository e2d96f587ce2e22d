//! Submitting inside the caller's transaction: the job exists if and only if the caller's own rows do. It calls the
//! same SQL function as other programs, and neither begins nor commits.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::connection::classify_error;
use crate::error::{FieldProblem, Invalid, StoreError, SubmitError};
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
        return Err(SubmitError::Invalid { index: 0, invalid: Invalid::new("debounce", problem) });
    }
    Ok(SqlStatement {
        statement: format!("SELECT \"{schema}\".submit($1::text, $2::bytea, $3::text::jsonb)"),
        job_type: job.job_type.to_string(),
        payload: job.payload.bytes.to_vec(),
        options: written(caller, job, options).to_string(),
    })
}

/// Submits a job within `transaction`; committing makes it visible, rolling back discards it.
pub(crate) async fn submit(
    transaction: &Transaction<'_>,
    call: &SqlStatement,
    job: &NewJob,
) -> Result<JobId, SubmitError> {
    let run = |sql: &'static str| async move {
        transaction.batch_execute(sql).await.map_err(|e| database_error(&e))
    };
    run("SAVEPOINT windlass_submit").await?;
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&call.job_type, Type::TEXT), (&call.payload, Type::BYTEA), (&call.options, Type::TEXT)];
    let rows = match transaction.query_typed(&call.statement, &values).await {
        Ok(rows) => rows,
        Err(error) => {
            // The caller's own changes are kept; only what was done here is undone.
            run("ROLLBACK TO SAVEPOINT windlass_submit").await?;
            return Err(refusal(&error, job));
        }
    };
    run("RELEASE SAVEPOINT windlass_submit").await?;
    let id: Option<Uuid> = rows.first().and_then(|row| row.try_get(0).ok());
    let id = id.ok_or_else(|| StoreError::Database("`submit` in SQL returned no id".into()))?;
    Ok(JobId::from_bytes(*id.as_bytes()))
}

fn database_error(error: &tokio_postgres::Error) -> SubmitError {
    classify_error(error).into()
}

/// Converts an error of `submit` in SQL.
fn refusal(error: &tokio_postgres::Error, job: &NewJob) -> SubmitError {
    let Some(answer) = error.as_db_error() else { return database_error(error) };
    let field = answer.column().unwrap_or_default().to_owned();
    if *answer.code() == SqlState::INVALID_PARAMETER_VALUE && !field.is_empty() {
        let words = answer.message();
        let problem = words.strip_prefix(&field).unwrap_or(words).trim_start().to_owned();
        let invalid = Invalid::new(field, FieldProblem::Contradiction(problem));
        return SubmitError::Invalid { index: 0, invalid };
    }
    // The holder is the last word of the message.
    let holder = answer.message().rsplit(' ').next().and_then(|word| word.parse().ok());
    match (answer.code() == &SqlState::UNIQUE_VIOLATION, field.as_str(), holder) {
        (true, "unique_key", Some(holder)) => {
            let key = job.unique_key.clone().unwrap_or_default();
            SubmitError::UniqueKeyTaken { index: 0, key, holder }
        }
        (true, "idempotency_key", Some(existing)) => SubmitError::PayloadDiffers { index: 0, existing },
        _ => database_error(error),
    }
}

/// A job's options, as `submit` in SQL reads them.
fn written(caller: &Caller, job: &NewJob, options: SubmitOptions) -> Value {
    let span = |duration: Option<Duration>| duration.map(milliseconds);
    let labels = &job.labels;
    let all = json!({
        "queue": job.queue.as_str(),
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
        "tags": (!labels.tags.is_empty()).then_some(&labels.tags),
        "correlation_id": labels.correlation_id,
        "callback_url": labels.callback_url,
        "tenant": job.tenant.as_ref().or(caller.tenant.as_ref()),
        "traceparent": job.traceparent,
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
