//! Submitting jobs inside a transaction of the caller's own, on the database that the store is on: what only SQLite or only
//! PostgreSQL can do, each in its way.

use crate::error::{StoreError, SubmitError};
#[cfg(feature = "postgres")]
use crate::job::JobId;
use crate::job::NewJob;
use crate::store::Store;
use crate::store::caller::Caller;
#[cfg(feature = "sqlite")]
use crate::store::command::submit::Receipt;
use crate::store::command::submit::SubmitOptions;
use crate::store::engine::Engine;
#[cfg(feature = "postgres")]
use crate::store::engines::postgres;
#[cfg(feature = "sqlite")]
use crate::store::engines::sqlite;

impl Store {
    /// Submits jobs inside the caller's own transaction on the same file. Committing makes them visible and wakes
    /// workers; rolling back discards them.
    ///
    /// Begin the transaction as [`Immediate`](rusqlite::TransactionBehavior::Immediate): SQLite refuses to upgrade a
    /// transaction that has read first if another connection wrote in between.
    ///
    /// # Errors
    /// [`SubmitError`] as for [`submit`](Store::submit). Other changes of the transaction are kept.
    #[cfg(feature = "sqlite")]
    pub fn submit_in_tx(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        caller: &Caller,
        jobs: &[NewJob],
        options: SubmitOptions,
    ) -> Result<Vec<Receipt>, SubmitError> {
        let theirs = transaction.path().map(std::path::Path::new).and_then(|path| path.canonicalize().ok());
        let engine = self.engine_as::<sqlite::SqliteEngine>();
        let ours = engine.and_then(|engine| engine.file().canonicalize().ok());
        if ours.is_none() || theirs != ours {
            let message = "the transaction is on another file than this store".to_owned();
            return Err(StoreError::Database(message).into());
        }
        sqlite::transactional_submit::submit(transaction, &self.env, caller, jobs, options)
    }

    /// Returns the SQL statement that submits a job inside the caller's own transaction on the same database, with any
    /// driver. Committing makes the job visible and wakes workers; rolling back discards it.
    ///
    /// # Errors
    /// [`SubmitError`] names field, value and limit. Only checks that need no database are made here.
    #[cfg(feature = "postgres")]
    pub fn submit_sql(
        &self,
        caller: &Caller,
        job: &NewJob,
        options: SubmitOptions,
    ) -> Result<postgres::SqlStatement, SubmitError> {
        let engine = self.engine_as::<postgres::PostgresEngine>().ok_or_else(|| {
            StoreError::Database("submitting in SQL needs a store in PostgreSQL".to_owned())
        })?;
        postgres::transactional_submit::call(engine.schema(), &self.env, caller, job, options)
    }

    /// Submits a job inside the caller's own transaction and returns its id. The job's owner is the database user.
    ///
    /// # Errors
    /// [`SubmitError`] as for [`submit`](Store::submit). Other changes of the transaction are kept.
    #[cfg(feature = "postgres")]
    pub async fn submit_in_postgres_tx(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        caller: &Caller,
        job: &NewJob,
        options: SubmitOptions,
    ) -> Result<JobId, SubmitError> {
        let call = self.submit_sql(caller, job, options)?;
        postgres::transactional_submit::submit(&mut &*transaction, &call, job).await
    }

    /// The same in a transaction of `sqlx`.
    ///
    /// # Errors
    /// [`SubmitError`] names the field, value and limit; the transaction's other changes stay.
    #[cfg(feature = "sqlx")]
    pub async fn submit_in_sqlx_tx(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Postgres>,
        caller: &Caller,
        job: &NewJob,
        options: SubmitOptions,
    ) -> Result<JobId, SubmitError> {
        let call = self.submit_sql(caller, job, options)?;
        postgres::transactional_submit::submit(transaction, &call, job).await
    }

    /// The local engine, if it is of this type: for what only one database can do, in a transaction of the caller's own.
    fn engine_as<E: Engine>(&self) -> Option<&E> {
        let engine: &dyn std::any::Any = &*self.engine;
        engine.downcast_ref()
    }
}
