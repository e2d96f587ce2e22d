//! A transaction of `sqlx` on the store's database.

use sqlx::postgres::PgDatabaseError;
use sqlx::{Postgres, Row, Transaction};

use super::{OwnTransaction, SqlStatement, SqlSubmitError};
use crate::error::{StoreError, SubmitError};
use crate::job::JobId;

impl OwnTransaction for Transaction<'_, Postgres> {
    async fn execute(&mut self, sql: &'static str) -> Result<(), SubmitError> {
        let done = sqlx::query(sql).execute(&mut **self).await;
        done.map(drop).map_err(|error| StoreError::Database(error.to_string()).into())
    }

    async fn submit(&mut self, call: &SqlStatement) -> Result<JobId, SqlSubmitError> {
        // As a text: a `uuid` would need a feature of `sqlx`.
        let statement = format!("{}::text", call.statement);
        let query = sqlx::query(sqlx::AssertSqlSafe(statement));
        let query = query.bind(&call.job_type).bind(&call.payload).bind(&call.options);
        let row = query.fetch_one(&mut **self).await.map_err(|error| refusal(&error))?;
        let id = row.try_get::<String, _>(0).ok().and_then(|id| id.parse().ok());
        id.ok_or_else(|| {
            SqlSubmitError::Failed(StoreError::Database("`submit` in SQL returned no id".into()))
        })
    }
}

fn refusal(error: &sqlx::Error) -> SqlSubmitError {
    let failed = StoreError::Database(error.to_string());
    let answer = error.as_database_error().and_then(|answer| answer.try_downcast_ref::<PgDatabaseError>());
    let Some(answer) = answer else { return SqlSubmitError::Failed(failed) };
    SqlSubmitError::Raised {
        code: answer.code().to_owned(),
        message: answer.message().to_owned(),
        field: answer.column().unwrap_or_default().to_owned(),
        error: failed,
    }
}
