//! Invalid API keys: counted, throttled by address, and reported to operators. Guessing a key is practically impossible;
//! this slows down clients that try, and programs that continue with a revoked key.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass::clock::Timestamp;

use crate::limits;

/// Counts of invalid keys by address.
#[derive(Default)]
pub(crate) struct Guesses {
    by_address: Mutex<HashMap<IpAddr, Failures>>,
    total: AtomicU64,
}

struct Failures {
    count: u32,
    last: Timestamp,
    /// When it was last reported.
    last_report: Option<Timestamp>,
    unreported: u32,
}

impl Failures {
    /// Until when the address is blocked: the time doubles with every invalid key beyond the free ones.
    fn blocked_until(&self) -> Timestamp {
        let Some(beyond) = self.count.checked_sub(limits::GUESSES_FREE) else { return Timestamp::MIN };
        let pause = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(beyond.min(16)));
        self.last.plus(pause.min(limits::GUESS_PAUSE_MAX))
    }
}

impl Guesses {
    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rejects an address with too many invalid keys; returns the time to wait.
    pub(crate) fn check(&self, from: IpAddr, now: Timestamp) -> Result<(), Duration> {
        let until = self.by_address().get(&from).map_or(Timestamp::MIN, Failures::blocked_until);
        if until > now { Err(until.since(now)) } else { Ok(()) }
    }

    /// Counts an invalid key. Returns the number from this address since the last report, if it is time to report.
    pub(crate) fn failed(&self, from: IpAddr, now: Timestamp) -> Option<u32> {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut by_address = self.by_address();
        if by_address.len() >= limits::GUESSING_ADDRESSES_MAX {
            by_address.retain(|_, failures| now.since(failures.last) < limits::GUESS_PAUSE_MAX);
        }
        if by_address.len() >= limits::GUESSING_ADDRESSES_MAX && !by_address.contains_key(&from) {
            return None;
        }
        let failures = by_address.entry(from).or_insert(Failures {
            count: 0,
            last: now,
            last_report: None,
            unreported: 0,
        });
        if now.since(failures.last) >= limits::GUESSES_FORGOTTEN_AFTER {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.unreported = failures.unreported.saturating_add(1);
        failures.last = now;
        let is_due = failures
            .last_report
            .is_none_or(|last_report| now.since(last_report) >= limits::GUESSES_TOLD_EVERY);
        is_due.then(|| {
            failures.last_report = Some(now);
            std::mem::take(&mut failures.unreported)
        })
    }

    /// The number of invalid keys since this process started.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_guesses_is_throttled_and_reported_once_a_minute() {
        let (guesses, now) = (Guesses::default(), Timestamp::from_millis(1_000_000));
        let (eve, ada): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let last_report: Vec<_> =
            (0..limits::GUESSES_FREE).filter_map(|_| guesses.failed(eve, now)).collect();
        assert_eq!(last_report, [1], "the first is reported at once");
        assert_eq!(guesses.check(eve, now), Err(Duration::from_secs(1)));
        assert_eq!(guesses.check(ada, now), Ok(()));
        let later = now.plus(Duration::from_secs(1));
        assert_eq!(guesses.check(eve, later), Ok(()));
        assert_eq!(guesses.failed(eve, later), None);
        assert_eq!(guesses.check(eve, later), Err(Duration::from_secs(2)), "twice as long");
        for _ in 0..100 {
            guesses.failed(eve, later);
        }
        assert_eq!(guesses.check(eve, later), Err(limits::GUESS_PAUSE_MAX));
        let next = later.plus(limits::GUESSES_TOLD_EVERY);
        assert_eq!(guesses.failed(eve, next), Some(limits::GUESSES_FREE + 101));
        let forgotten = next.plus(limits::GUESSES_FORGOTTEN_AFTER);
        guesses.failed(eve, forgotten);
        assert_eq!(guesses.check(eve, forgotten), Ok(()));
        assert_eq!(guesses.total(), u64::from(limits::GUESSES_FREE) + 103);
    }
}
