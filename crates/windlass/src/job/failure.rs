//! Failures: their five categories and the record that is kept of each (M43, M45).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::limits;

/// What kind of failure it was; decides whether another attempt makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// May succeed next time.
    Temporary,
    /// Will fail the same way again.
    Permanent,
    /// Took longer than allowed.
    Timeout,
    /// Was cancelled.
    Cancelled,
    /// The worker, not the work, failed: a crash, a panic, a lost lease.
    System,
}

impl Category {
    /// All categories.
    pub const ALL: [Category; 5] =
        [Category::Temporary, Category::Permanent, Category::Timeout, Category::Cancelled, Category::System];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Category::Temporary => "temporary",
            Category::Permanent => "permanent",
            Category::Timeout => "timeout",
            Category::Cancelled => "cancelled",
            Category::System => "system",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a worker, or the store itself, reports when an attempt fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind.
    pub category: Category,
    /// A stable code for programs.
    pub code: Option<String>,
    /// A sentence for people.
    pub message: String,
    /// When to try again instead of the policy's backoff (M44).
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of this category, its message and code cut to their limits: a report is never refused for length.
    pub fn new(category: Category, message: impl Into<String>) -> Failure {
        let mut message = message.into();
        cut(&mut message, limits::ERROR_MESSAGE_BYTES_MAX);
        Failure { category, code: None, message, retry_after: None }
    }

    /// A failure that may succeed next time.
    pub fn temporary(message: impl Into<String>) -> Failure {
        Failure::new(Category::Temporary, message)
    }

    /// A failure that may succeed after this long, whatever the retry policy says (M44).
    pub fn retry_after(delay: Duration, message: impl Into<String>) -> Failure {
        Failure::temporary(message).with_retry_after(delay)
    }

    /// A failure that will happen again.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::new(Category::Permanent, message).with_code(code)
    }

    /// The same with a code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Failure {
        let mut code = code.into();
        cut(&mut code, limits::ERROR_CODE_CHARS_MAX);
        self.code = Some(code);
        self
    }

    /// The same with its own delay before the next attempt (M44).
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Failure {
        self.retry_after = Some(delay.min(limits::DURATION_MAX));
        self
    }
}

/// Shortens `text` to at most `bytes_max` bytes without splitting a character.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
}

/// The record kept of a failure (M45).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// What kind.
    pub category: Category,
    /// A stable code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A sentence for people.
    pub message: String,
    /// When it happened.
    pub at: Timestamp,
    /// In which attempt.
    pub attempt: u32,
    /// The delay the worker asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// Whether another attempt was allowed for; false for the error that ended the job.
    pub retryable: bool,
}

impl ErrorRecord {
    /// Seed 002's word for it: `RETRYABLE` or `TERMINAL`.
    pub fn error_type(&self) -> &'static str {
        if self.retryable { "RETRYABLE" } else { "TERMINAL" }
    }
}
