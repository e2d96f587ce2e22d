//! Request rate limits: a token bucket per caller, in this process's memory. They prevent one key from using up the whole
//! server; the store limits jobs.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::job::JobId;

use crate::limits;

/// The buckets of all callers. Tokens of jobs have their own: a caller who submits jobs can have any number of them, and
/// must not crowd out keys.
pub(crate) struct RequestRates {
    keys: Buckets<String>,
    tokens: Buckets<JobId>,
}

impl Default for RequestRates {
    fn default() -> RequestRates {
        RequestRates {
            keys: Buckets::new(limits::REQUESTS_PER_SECOND, limits::REQUESTS_BURST),
            tokens: Buckets::new(limits::TOKEN_REQUESTS_PER_SECOND, limits::TOKEN_REQUESTS_BURST),
        }
    }
}

impl RequestRates {
    /// Counts a request with a key; if there were too many, returns the time until the next.
    pub(crate) fn take(&self, caller: &str, now: Timestamp) -> Result<(), Duration> {
        self.keys.take(caller.to_owned(), now)
    }

    /// Counts a request with a token of this job.
    pub(crate) fn take_token(&self, job: JobId, now: Timestamp) -> Result<(), Duration> {
        self.tokens.take(job, now)
    }
}

struct Buckets<K> {
    by_caller: Mutex<HashMap<K, Bucket>>,
    per_second: u64,
    full: u64,
}

struct Bucket {
    /// In thousandths, so that the share of a millisecond is a whole number.
    tokens: u64,
    at: Timestamp,
}

/// One token, in the bucket's unit.
const TOKEN: u64 = 1_000;

impl<K: Eq + Hash> Buckets<K> {
    fn new(per_second: u32, burst: u32) -> Buckets<K> {
        Buckets {
            by_caller: Mutex::default(),
            per_second: u64::from(per_second),
            full: u64::from(burst) * TOKEN,
        }
    }

    fn take(&self, caller: K, now: Timestamp) -> Result<(), Duration> {
        let mut buckets = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= limits::RATE_BUCKETS_MAX && !buckets.contains_key(&caller) {
            // A bucket that is full again says nothing.
            buckets.retain(|_, bucket| self.refilled(bucket, now) < self.full);
            if buckets.len() >= limits::RATE_BUCKETS_MAX {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(caller).or_insert(Bucket { tokens: self.full, at: now });
        bucket.tokens = self.refilled(bucket, now);
        bucket.at = bucket.at.max(now);
        match bucket.tokens.checked_sub(TOKEN) {
            Some(left) => {
                bucket.tokens = left;
                Ok(())
            }
            None => Err(Duration::from_secs(1)),
        }
    }

    fn refilled(&self, bucket: &Bucket, now: Timestamp) -> u64 {
        let millis = u64::try_from(now.since(bucket.at).as_millis()).unwrap_or(u64::MAX);
        bucket.tokens.saturating_add(millis.saturating_mul(self.per_second)).min(self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_runs_wild_is_slowed_down_and_others_are_not() {
        let (rates, now) = (RequestRates::default(), Timestamp::from_millis(1_000_000));
        for _ in 0..limits::REQUESTS_BURST {
            rates.take("a", now).unwrap();
        }
        assert!(rates.take("a", now).is_err());
        rates.take("b", now).unwrap();
        let later = now.plus(Duration::from_secs(1));
        for _ in 0..limits::REQUESTS_PER_SECOND {
            rates.take("a", later).unwrap();
        }
        assert!(rates.take("a", later).is_err());
    }

    #[test]
    fn tokens_of_many_jobs_free_no_key_from_its_limit() {
        let (rates, now) = (RequestRates::default(), Timestamp::from_millis(1_000_000));
        for _ in 0..limits::REQUESTS_BURST {
            rates.take("a", now).unwrap();
        }
        for job in 0..=limits::RATE_BUCKETS_MAX as u128 {
            rates.take_token(JobId::new(now, job), now).unwrap();
        }
        assert!(rates.take("a", now).is_err());
        let leaked = JobId::new(now, u128::MAX);
        let taken = (0..limits::REQUESTS_BURST).filter(|_| rates.take_token(leaked, now).is_ok()).count();
        assert_eq!(taken, limits::TOKEN_REQUESTS_BURST as usize, "a token is in pages");
    }

    #[test]
    fn buckets_that_are_full_again_make_room() {
        let (rates, now) = (RequestRates::default(), Timestamp::from_millis(1_000_000));
        for job in 0..limits::RATE_BUCKETS_MAX as u128 {
            rates.take_token(JobId::new(now, job), now).unwrap();
        }
        let later = now.plus(Duration::from_secs(60));
        let busy = JobId::new(now, 0);
        while rates.take_token(busy, later).is_ok() {}
        rates.take_token(JobId::new(now, u128::MAX), later).unwrap();
        assert!(rates.take_token(busy, later).is_err(), "it is not forgotten");
    }
}
