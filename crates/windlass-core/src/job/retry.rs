//! Retry policies: how often, and after how long. Randomness is passed in.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::JobId;
use super::failure::Category;
use crate::Words;
use crate::error::{FieldError, FieldProblem};
use crate::limits;

/// How the delay grows with the number of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Always the initial delay.
    Constant,
    /// The initial delay times the number of failures.
    Linear,
    /// The initial delay times `multiplier` to the power of failures − 1.
    Exponential,
    /// A function in the worker decides. Without one, or if the worker was lost, like exponential.
    Custom,
}

/// The source of a delay's jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JitterMode {
    /// A random number.
    #[default]
    Random,
    /// A hash of the job's id and the attempt number, so that the delay can be recomputed.
    Hashed,
}

impl JitterMode {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_random(&self) -> bool {
        *self == JitterMode::Random
    }
}

/// When and how often a failed job is retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// How the delay grows.
    pub strategy: Strategy,
    /// Delay after the first failure.
    pub initial_delay: Duration,
    /// Longest delay.
    pub max_delay: Duration,
    /// Factor of the exponential strategy.
    pub multiplier: f64,
    /// Fraction of the delay, 0 to 1, by which it is shortened or lengthened.
    pub jitter: f64,
    /// The source of the jitter.
    #[serde(default, skip_serializing_if = "JitterMode::is_random")]
    pub jitter_mode: JitterMode,
    /// Number of attempts, including the first.
    pub max_attempts: u32,
    /// Categories that are retried in addition to `temporary`; `timeout` and `system` by default, `resource` only if
    /// named.
    pub retry_on: Vec<Category>,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy::standard()
    }
}

impl RetryPolicy {
    /// Three attempts, exponential from 1 s, ±10 %.
    pub fn standard() -> RetryPolicy {
        RetryPolicy {
            strategy: Strategy::Exponential,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(3600),
            multiplier: 2.0,
            jitter: 0.1,
            jitter_mode: JitterMode::Random,
            max_attempts: 3,
            retry_on: vec![Category::Timeout, Category::System],
        }
    }

    /// Three retries, 1 s apart.
    pub fn fixed() -> RetryPolicy {
        RetryPolicy { strategy: Strategy::Constant, jitter: 0.0, max_attempts: 4, ..RetryPolicy::standard() }
    }

    /// Three retries, exponential from 10 s.
    pub fn backoff() -> RetryPolicy {
        RetryPolicy {
            initial_delay: Duration::from_secs(10),
            jitter: 0.0,
            max_attempts: 4,
            ..RetryPolicy::standard()
        }
    }

    /// Three attempts; a function in the worker sets the delay.
    pub fn custom() -> RetryPolicy {
        RetryPolicy { strategy: Strategy::Custom, ..RetryPolicy::standard() }
    }

    /// Sets the number of attempts, including the first.
    #[must_use]
    pub fn attempts(self, max_attempts: u32) -> RetryPolicy {
        RetryPolicy { max_attempts, ..self }
    }

    /// The policy with this name.
    pub fn preset(name: &str) -> Result<RetryPolicy, FieldError> {
        match name {
            "standard" => Ok(RetryPolicy::standard()),
            "fixed" => Ok(RetryPolicy::fixed()),
            "backoff" => Ok(RetryPolicy::backoff()),
            other => Err(FieldError::new(
                "retry.preset",
                FieldProblem::Unknown { value: other.to_owned(), allowed: "standard, fixed, backoff" },
            )),
        }
    }

    /// Retries allowed: one less than the attempts.
    pub fn max_retries(&self) -> u32 {
        self.max_attempts.saturating_sub(1)
    }

    /// Whether a failure of this category may be retried at all.
    pub fn retries(&self, category: Category) -> bool {
        match category {
            Category::Temporary => true,
            Category::Permanent | Category::Cancelled => false,
            Category::Timeout | Category::System | Category::Resource => self.retry_on.contains(&category),
        }
    }

    /// The position of this attempt's delay within its jitter, from 0 up to 1: `random`, or, if the jitter is hashed,
    /// the first 13 hexadecimal digits of SHA-256 over the text `JOB-ID:ATTEMPT`, divided by 16^13.
    pub fn fraction(&self, job: JobId, attempt: u32, random: f64) -> f64 {
        match self.jitter_mode {
            JitterMode::Random => random,
            JitterMode::Hashed => {
                let digest = Sha256::digest(format!("{job}:{attempt}"));
                let top = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
                // 52 bits, which a float holds exactly.
                #[allow(clippy::cast_precision_loss, reason = "52 bits fit a float")]
                let fraction = (top >> 12) as f64 / (1_u64 << 52) as f64;
                fraction
            }
        }
    }

    /// The delay after the `failures`-th failure; `random` is from 0 up to 1 and selects the delay within the jitter.
    ///
    /// Never overflows, never longer than `max_delay`, never negative.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let n = failures.max(1);
        let initial = self.initial_delay.as_secs_f64();
        let raw = match self.strategy {
            Strategy::Constant => initial,
            Strategy::Linear => initial * f64::from(n),
            Strategy::Exponential | Strategy::Custom => {
                initial * self.multiplier.powi(i32::try_from(n - 1).unwrap_or(i32::MAX))
            }
        };
        let longest = self.max_delay.as_secs_f64();
        // Zero times infinity is NaN; it means zero here.
        let capped = if raw.is_nan() { 0.0 } else { raw.min(longest) };
        let jittered = capped * (1.0 + self.jitter * (2.0 * random - 1.0));
        // Seconds as a float are coarser than a duration: rounding must not exceed the limit either.
        Duration::try_from_secs_f64(jittered.max(0.0))
            .map_or(self.max_delay, |delay| delay.min(self.max_delay))
    }

    /// Checks every value against its limits.
    pub fn check(&self) -> Result<(), FieldError> {
        let range = |field: &str, value: String, min: &str, max: String| {
            Err(FieldError::new(field, FieldProblem::OutOfRange { value, min: min.into(), max }))
        };
        if !(1..=limits::ATTEMPTS_MAX).contains(&self.max_attempts) {
            return range(
                "retry.max_attempts",
                self.max_attempts.to_string(),
                "1",
                limits::ATTEMPTS_MAX.to_string(),
            );
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return range("retry.jitter", self.jitter.to_string(), "0", "1".into());
        }
        if !(1.0..=1000.0).contains(&self.multiplier) {
            return range("retry.multiplier", self.multiplier.to_string(), "1", "1000".into());
        }
        for (field, delay) in
            [("retry.initial_delay", self.initial_delay), ("retry.max_delay", self.max_delay)]
        {
            if delay > limits::DURATION_MAX {
                return range(field, format!("{delay:?}"), "0s", "100 years".into());
            }
        }
        if let Some(category) =
            self.retry_on.iter().find(|c| matches!(c, Category::Permanent | Category::Cancelled))
        {
            return Err(FieldError::new(
                "retry.retry_on",
                FieldProblem::Unknown {
                    value: category.to_string(),
                    allowed: "temporary, timeout, system, resource",
                },
            ));
        }
        Ok(())
    }
}
