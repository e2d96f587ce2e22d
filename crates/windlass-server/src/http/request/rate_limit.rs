//! Request rate limits: a token bucket per caller, in this process's memory. They prevent one key from using up the whole
//! server; the store limits jobs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass::clock::Timestamp;

use crate::limits;

/// The buckets of all callers.
#[derive(Default)]
pub(crate) struct RequestRates(Mutex<HashMap<String, Bucket>>);

struct Bucket {
    /// In thousandths, so that the share of a millisecond is a whole number.
    tokens: u64,
    at: Timestamp,
}

/// One token, in the bucket's unit.
const TOKEN: u64 = 1_000;

impl RequestRates {
    /// Takes a token; if there is none, returns the time until the next.
    pub(crate) fn take(&self, caller: &str, now: Timestamp) -> Result<(), Duration> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= windlass::limits::API_KEYS_MAX && !buckets.contains_key(caller) {
            buckets.clear();
        }
        let full = u64::from(limits::REQUESTS_BURST) * TOKEN;
        let bucket = match buckets.get_mut(caller) {
            Some(bucket) => bucket,
            None => buckets.entry(caller.to_owned()).or_insert(Bucket { tokens: full, at: now }),
        };
        let millis = u64::try_from(now.since(bucket.at).as_millis()).unwrap_or(u64::MAX);
        let gained = millis.saturating_mul(u64::from(limits::REQUESTS_PER_SECOND));
        bucket.tokens = bucket.tokens.saturating_add(gained).min(full);
        bucket.at = bucket.at.max(now);
        match bucket.tokens.checked_sub(TOKEN) {
            Some(left) => {
                bucket.tokens = left;
                Ok(())
            }
            None => Err(Duration::from_secs(1)),
        }
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
}
