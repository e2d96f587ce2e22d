//! Submitting inside the caller's transaction: the job exists if and only if the caller's own rows do. It neither
//! begins nor commits.

use rusqlite::{Connection, Transaction};

use super::tables::{Tables, store_error};
use crate::error::{StoreError, SubmitError};
use crate::job::NewJob;
use crate::store::caller::Caller;
use crate::store::command::submit::{self, Receipt, SubmitOptions};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::write_tx::WriteTx;

/// Submits jobs within `transaction`; committing makes them visible, rolling back discards them.
pub(crate) fn submit(
    transaction: &Transaction<'_>,
    env: &Environment,
    caller: &Caller,
    jobs: &[NewJob],
    options: SubmitOptions,
) -> Result<Vec<Receipt>, SubmitError> {
    submit::check(jobs, env.options.payload_bytes_max, &env.options.targets)?;
    let connection: &Connection = transaction;
    run(connection, "SAVEPOINT windlass_submit")?;
    let submitted = submit_here(connection, env, caller, jobs, options);
    if submitted.is_err() {
        // The caller's own changes are kept; only what was written here is undone.
        run(connection, "ROLLBACK TO windlass_submit")?;
    }
    run(connection, "RELEASE windlass_submit")?;
    submitted
}

fn submit_here(
    connection: &Connection,
    env: &Environment,
    caller: &Caller,
    jobs: &[NewJob],
    options: SubmitOptions,
) -> Result<Vec<Receipt>, SubmitError> {
    let mut tables = Tables::borrowing(connection)?;
    let mut cache = ConnectionCache::default();
    cache.check_not_moved(&mut tables, env)?;
    let now = env.clock.now_after(tables.meta.stamp.at);
    tables.meta.stamp = env.clock.stamp(now);
    let mut tx = WriteTx::new(&mut tables, &mut cache, env, now);
    tx.share_grace()?;
    tx.begin();
    let receipts = submit::submit(&mut tx, caller, jobs, options, None)?;
    // Counted although the caller may still roll back, which is not noticed here: totals are for monitoring only.
    let rates = tx.finish()?.rates;
    env.metrics.counted(&rates);
    tables.write_meta()?;
    Ok(receipts)
}

fn run(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.execute_batch(sql).map_err(store_error)
}
