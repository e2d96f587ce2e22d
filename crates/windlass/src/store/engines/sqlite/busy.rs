//! Waiting for other processes: their locks are held for milliseconds, so a caller only gets an error if one lasts for
//! its whole time limit. There is no ordering among waiters.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::tables::store_error;
use crate::clock::Deadline;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::EngineResult;

/// SQLite's own handler sleeps up to 100 ms at a time, which would be the slowest step of every contended commit.
const NAP: Duration = Duration::from_millis(5);

/// Makes statements on this connection wait for locks.
pub(super) fn wait_for_locks(connection: &Connection) -> EngineResult<()> {
    connection.busy_handler(Some(nap)).map_err(store_error)
}

/// Makes statements on this connection fail immediately if another connection holds the lock.
pub(super) fn never_wait(connection: &Connection) -> EngineResult<()> {
    connection.busy_handler(Some(|_| false)).map_err(store_error)
}

thread_local! {
    /// Until when this thread waits for locks; SQLite passes only a count to its handler.
    static UNTIL: Cell<Option<Deadline>> = const { Cell::new(None) };
}

fn nap(naps_before: i32) -> bool {
    let naps_max = limits::LOCK_WAIT.as_millis() / NAP.as_millis();
    // The first sleeps are short: most locks are released after one fsync.
    thread::sleep(if naps_before < 10 { NAP / 10 } else { NAP });
    u128::try_from(naps_before).is_ok_and(|before| before < naps_max)
        && !UNTIL.get().is_some_and(Deadline::is_over)
}

/// Retries while another process holds the lock, until `until` or the limit for locks.
pub(super) fn retry_while_locked<T>(
    until: Option<Deadline>,
    mut attempt: impl FnMut() -> EngineResult<T>,
) -> EngineResult<T> {
    let most = Deadline::after(limits::LOCK_WAIT_MAX);
    let until = until.map_or(most, |until| until.min(most));
    let mut pause = NAP;
    loop {
        UNTIL.set(Some(until));
        let tried = attempt();
        UNTIL.set(None);
        match tried {
            Err(error) if is_locked(&error) => {}
            decided => return decided,
        }
        if until.is_over() {
            let why = "another program holds a lock on the file and must end its transaction first";
            return Err(StoreError::Unavailable(why.to_owned()));
        }
        // Some conflicts are reported immediately, without calling the handler.
        thread::sleep(pause.min(until.left()));
        pause = (pause + NAP).min(limits::CROSS_PROCESS_EVERY);
    }
}

/// Whether another connection held the lock. The engine's error has no variant for it, because no caller may ever see
/// it.
pub(super) fn is_locked(error: &StoreError) -> bool {
    let StoreError::Database(answer) = error else { return false };
    answer.contains("is locked") || answer.contains("locking protocol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_lock_is_recognised_and_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locked.db");
        let [holder, waiter] = [(); 2].map(|()| Connection::open(&path).unwrap());
        never_wait(&waiter).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut tries = 0;
        let begun = retry_while_locked(None, || {
            tries += 1;
            if tries == 3 {
                holder.execute_batch("COMMIT").unwrap();
            }
            waiter.execute_batch("BEGIN IMMEDIATE").map_err(store_error)
        });
        assert_eq!((begun, tries), (Ok(()), 3));
    }

    #[test]
    fn waiting_ends_with_the_deadline_and_other_errors_are_returned_at_once() {
        let mut tries = 0;
        let locked = retry_while_locked::<()>(Some(Deadline::after(Duration::ZERO)), || {
            tries += 1;
            Err(StoreError::Database("database is locked".to_owned()))
        });
        assert!(matches!(locked, Err(StoreError::Unavailable(_))));
        assert_eq!(tries, 1, "it is tried once in any case");
        let full = retry_while_locked::<()>(None, || {
            tries += 1;
            Err(StoreError::Full)
        });
        assert_eq!((full, tries), (Err(StoreError::Full), 2));
    }

    /// SQLite's handler would sleep for seconds if it did not know the deadline.
    #[test]
    fn a_lock_that_stays_is_given_up_at_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locked.db");
        let [holder, waiter] = [(); 2].map(|()| Connection::open(&path).unwrap());
        wait_for_locks(&waiter).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let watch = crate::clock::Stopwatch::start();
        let deadline = Deadline::after(Duration::from_millis(50));
        let begun = retry_while_locked(Some(deadline), || {
            waiter.execute_batch("BEGIN IMMEDIATE").map_err(store_error)
        });
        assert!(matches!(begun, Err(StoreError::Unavailable(_))));
        assert!(watch.elapsed() < limits::LOCK_WAIT / 2, "{:?}", watch.elapsed());
    }
}
