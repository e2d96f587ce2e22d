//! Waiting for other processes: their locks are held for milliseconds, so a caller never hears of one unless it lasts
//! for the whole of its time limit. It decides nothing about order; whoever comes first is served.

use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::tables::store_error;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::EngineResult;

/// SQLite's own handler sleeps up to 100 ms at a time, which would be the slowest step of every contended commit.
const NAP: Duration = Duration::from_millis(5);

/// Makes statements on this connection wait for locks.
pub(super) fn wait_for_locks(connection: &Connection) -> EngineResult<()> {
    connection.busy_handler(Some(nap)).map_err(store_error)
}

/// Makes statements on this connection give up at once if somebody has the lock.
pub(super) fn never_wait(connection: &Connection) -> EngineResult<()> {
    connection.busy_handler(Some(|_| false)).map_err(store_error)
}

fn nap(naps_before: i32) -> bool {
    let naps_max = limits::LOCK_WAIT.as_millis() / NAP.as_millis();
    // The first naps are short: most locks are gone after one fsync.
    thread::sleep(if naps_before < 10 { NAP / 10 } else { NAP });
    u128::try_from(naps_before).is_ok_and(|before| before < naps_max)
}

/// Tries until no other process is in the way, or the time for it is over.
pub(super) fn patiently<T>(
    clock: &dyn Clock,
    mut attempt: impl FnMut() -> EngineResult<T>,
) -> EngineResult<T> {
    let began = clock.now();
    for tries in 1..=limits::LOCK_TRIES_MAX {
        match attempt() {
            Err(error) if is_locked(&error) => {}
            decided => return decided,
        }
        if clock.now().since(began) >= limits::LOCK_WAIT_MAX {
            break;
        }
        // Some conflicts are reported at once, without a nap by the handler.
        thread::sleep(NAP * tries);
    }
    Err(StoreError::Overloaded { waiting: 1, retry_after: limits::OVERLOADED_RETRY_AFTER })
}

/// Whether another connection was in the way. The engine's error has no variant for it, since no caller may ever see it.
pub(super) fn is_locked(error: &StoreError) -> bool {
    let StoreError::Database(answer) = error else { return false };
    answer.contains("is locked") || answer.contains("locking protocol")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ManualClock, Timestamp};

    #[test]
    fn a_real_lock_is_recognised_and_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locked.db");
        let [holder, waiter] = [(); 2].map(|()| Connection::open(&path).unwrap());
        never_wait(&waiter).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let clock = ManualClock::new(Timestamp::MIN);
        let mut tries = 0;
        let begun = patiently(&clock, || {
            tries += 1;
            if tries == 3 {
                holder.execute_batch("COMMIT").unwrap();
            }
            waiter.execute_batch("BEGIN IMMEDIATE").map_err(store_error)
        });
        assert_eq!((begun, tries), (Ok(()), 3));
    }

    #[test]
    fn patience_ends_with_the_time_limit_and_other_trouble_is_told_at_once() {
        let clock = ManualClock::new(Timestamp::MIN);
        let locked = patiently::<()>(&clock, || {
            clock.advance(limits::LOCK_WAIT_MAX);
            Err(StoreError::Database("database is locked".to_owned()))
        });
        assert!(matches!(locked, Err(StoreError::Overloaded { .. })));
        let mut tries = 0;
        let full = patiently::<()>(&clock, || {
            tries += 1;
            Err(StoreError::Full)
        });
        assert_eq!((full, tries), (Err(StoreError::Full), 1));
    }
}
