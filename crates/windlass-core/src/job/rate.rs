//! Rate limits: a token bucket that refills evenly. Integer arithmetic, so that rounding never lets a job
//! through too early or loses a token.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, whole_millis};

/// A rate limit: a bucket of `count` tokens that refills evenly over `per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Jobs that may start at once if none has started for `per`.
    pub count: u64,
    /// How long it takes to refill the bucket.
    pub per: Duration,
}

impl Rate {
    /// `count` jobs in `per`.
    pub fn new(count: u64, per: Duration) -> Rate {
        Rate { count, per }
    }

    /// The value of one token: `count` of these units are refilled each millisecond, so that `per` refills the whole
    /// bucket.
    fn token(self) -> u64 {
        u64::try_from(whole_millis(self.per)).unwrap_or(u64::MAX).max(1)
    }

    fn capacity(self) -> u64 {
        self.token().saturating_mul(self.count)
    }
}

/// The state of a token bucket. A new bucket is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    rate: Rate,
    /// Missing from a full bucket, in parts of a token (see [`Rate::token`]).
    missing: u64,
    /// The time of that state.
    at: Timestamp,
}

impl Bucket {
    /// A full bucket.
    pub fn full(rate: Rate, now: Timestamp) -> Bucket {
        Bucket { rate, missing: 0, at: now }
    }

    /// The bucket as it is at `now`.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Bucket {
        let elapsed = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        let missing = self.missing.saturating_sub(elapsed.saturating_mul(self.rate.count));
        Bucket { missing, at: self.at.max(now), ..self }
    }

    /// The bucket with another rate. Taken tokens stay taken, up to the size of the new bucket.
    #[must_use]
    pub fn under(self, rate: Rate) -> Bucket {
        if rate == self.rate {
            return self;
        }
        let missing = u128::from(self.missing) * u128::from(rate.token()) / u128::from(self.rate.token());
        let missing = u64::try_from(missing).unwrap_or(u64::MAX).min(rate.capacity());
        Bucket { rate, missing, ..self }
    }

    /// Whole tokens in the bucket.
    pub fn tokens(self) -> u64 {
        self.rate.capacity().saturating_sub(self.missing) / self.rate.token()
    }

    /// Takes this many tokens.
    #[must_use]
    pub fn without(self, tokens: u64) -> Bucket {
        let missing = self.missing.saturating_add(tokens.saturating_mul(self.rate.token()));
        Bucket { missing: missing.min(self.rate.capacity()), ..self }
    }

    /// When the next token is available; in the past if one is available now.
    pub fn next_at(self) -> Timestamp {
        self.missing_at_most(self.rate.capacity() - self.rate.token().min(self.rate.capacity()))
    }

    /// When it is full again and need not be stored any more.
    pub fn full_at(self) -> Timestamp {
        self.missing_at_most(0)
    }

    fn missing_at_most(self, rest: u64) -> Timestamp {
        let wait = self.missing.saturating_sub(rest).div_ceil(self.rate.count.max(1));
        self.at.plus(Duration::from_millis(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_bucket_gives_its_count_at_once_and_then_one_after_the_other() {
        let full = Bucket::full(Rate::new(4, Duration::from_secs(1)), at(0));
        assert_eq!(full.tokens(), 4);
        let empty = full.without(4);
        assert_eq!((empty.tokens(), empty.next_at(), empty.full_at()), (0, at(250), at(1_000)));
        assert_eq!(empty.at(at(249)).tokens(), 0);
        assert_eq!(empty.at(at(250)).tokens(), 1);
        assert_eq!(empty.at(at(999)).tokens(), 3);
        assert_eq!(empty.at(at(5_000)).tokens(), 4, "it never holds more than its count");
        assert_eq!(empty.at(at(250)).without(1).next_at(), at(500));
    }

    #[test]
    fn uneven_rates_lose_nothing_to_rounding() {
        // Three in a second: a token every 333⅓ ms. After a thousand seconds it must be three thousand.
        let mut bucket = Bucket::full(Rate::new(3, Duration::from_secs(1)), at(0)).without(3);
        let mut given = 0;
        for millis in 1..=1_000_000 {
            bucket = bucket.at(at(millis));
            given += bucket.tokens();
            bucket = bucket.without(bucket.tokens());
        }
        assert_eq!(given, 3_000);
    }

    #[test]
    fn looking_more_often_changes_nothing() {
        let rate = Rate::new(7, Duration::from_millis(1_003));
        let once = Bucket::full(rate, at(0)).without(7).at(at(700));
        let often =
            (0..=700).fold(Bucket::full(rate, at(0)).without(7), |bucket, millis| bucket.at(at(millis)));
        assert_eq!(often, once);
        assert_eq!(once.at(at(-5_000)), once, "a clock that goes back gives nothing twice");
    }

    #[test]
    fn another_rate_does_not_forgive_what_was_taken() {
        let taken = Bucket::full(Rate::new(10, Duration::from_secs(10)), at(0)).without(8);
        let larger = taken.under(Rate::new(20, Duration::from_secs(60)));
        assert_eq!(larger.tokens(), 12);
        let smaller = taken.under(Rate::new(5, Duration::from_secs(60)));
        assert_eq!((smaller.tokens(), smaller.next_at()), (0, at(12_000)));
        assert_eq!(taken.under(Rate::new(10, Duration::from_secs(10))), taken);
    }

    #[test]
    fn the_largest_rate_does_not_overflow() {
        let rate = Rate::new(crate::limits::RATE_COUNT_MAX, crate::limits::DURATION_MAX);
        let empty = Bucket::full(rate, at(0)).without(u64::MAX);
        assert_eq!(empty.tokens(), 0);
        assert_eq!(empty.at(Timestamp::MAX).tokens(), rate.count);
        assert_eq!(empty.full_at(), at(0).plus(rate.per));
        let one = Bucket::full(Rate::new(1, crate::limits::DURATION_MAX), at(0)).without(1);
        assert_eq!(one.next_at(), at(0).plus(crate::limits::DURATION_MAX));
    }
}
