//! Failures: their six categories, and the record stored for each.

mod fingerprint;
mod http_status;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use fingerprint::{error_pattern, fingerprint};

use crate::clock::Timestamp;
use crate::limits;
use crate::{Words, skip_none};

/// The category of a failure; decides whether it is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Words)]
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
    /// The worker failed, not the job: a crash, a panic, a lost lease.
    System,
    /// A resource limit was reached: a quota, a size, the time to start. Not retried unless `retry_on` names it.
    Resource,
}

/// The failure of an attempt, reported by a worker or by the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Decides whether the job is retried.
    pub category: Category,
    /// A stable code for programs.
    pub code: Option<String>,
    /// A message for people.
    pub message: String,
    /// Delay before the next attempt, instead of the policy's backoff.
    pub retry_after: Option<Duration>,
    /// The causes of the error, nearest first; at most [`limits::ERROR_CAUSES_MAX`] are stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cause: Vec<ErrorCause>,
    /// The call of a step that returned it, within the attempt.
    #[doc(hidden)]
    #[serde(skip)]
    pub origin: Origin,
}

/// A cause of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCause {
    /// A message for people.
    pub message: String,
    /// A stable code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl ErrorCause {
    /// A cause with this message, without a code.
    pub fn new(message: impl Into<String>) -> ErrorCause {
        ErrorCause { message: message.into(), code: None }.bounded()
    }

    /// Adds a code.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> ErrorCause {
        ErrorCause { code: Some(code.into()), ..self }.bounded()
    }

    /// Truncates message and code to their limits.
    #[must_use]
    pub fn bounded(mut self) -> ErrorCause {
        cut(&mut self.message, limits::ERROR_CAUSE_BYTES_MAX);
        if let Some(code) = &mut self.code {
            cut(code, limits::ERROR_CODE_CHARS_MAX);
        }
        self
    }
}

impl From<&str> for ErrorCause {
    fn from(message: &str) -> ErrorCause {
        ErrorCause::new(message)
    }
}

impl From<String> for ErrorCause {
    fn from(message: String) -> ErrorCause {
        ErrorCause::new(message)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.note_shown();
        f.write_str(&self.message)
    }
}

/// Marks a failure that a step returned, so that it is recognised if it fails the attempt. All values compare equal.
#[derive(Clone, Default)]
#[doc(hidden)]
pub struct Origin(Option<Arc<Token>>);

/// Exists as long as any copy of the failure.
#[derive(Default)]
pub struct Token {
    was_shown: Arc<AtomicBool>,
}

impl Token {
    /// Whether the failure was ever formatted as text; outlives the failure.
    pub fn was_shown(&self) -> Arc<AtomicBool> {
        self.was_shown.clone()
    }
}

impl Origin {
    /// An origin and its token.
    pub fn new() -> (Origin, Arc<Token>) {
        let token = Arc::<Token>::default();
        (Origin(Some(token.clone())), token)
    }

    pub fn token(&self) -> Option<&Arc<Token>> {
        self.0.as_ref()
    }

    fn note_shown(&self) {
        if let Some(token) = &self.0 {
            token.was_shown.store(true, Ordering::Relaxed);
        }
    }
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl Eq for Origin {}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Step" } else { "Unknown" })
    }
}

impl Failure {
    /// A failure of this category. Message and code are truncated to their limits, so that a report is never rejected
    /// for its length.
    pub fn new(category: Category, message: impl Into<String>) -> Failure {
        let mut message = message.into();
        cut(&mut message, limits::ERROR_MESSAGE_BYTES_MAX);
        let (cause, origin) = (Vec::new(), Origin::default());
        Failure { category, code: None, message, retry_after: None, cause, origin }
    }

    /// A failure that may succeed on retry.
    pub fn temporary(message: impl Into<String>) -> Failure {
        Failure::new(Category::Temporary, message)
    }

    /// A failure that may succeed after this delay, whatever the retry policy says.
    pub fn retry_after(delay: Duration, message: impl Into<String>) -> Failure {
        Failure::temporary(message).with_retry_after(delay)
    }

    /// A failure that a retry would repeat.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::new(Category::Permanent, message).with_code(code)
    }

    /// A failure because a resource limit was reached; not retried unless the policy's `retry_on` names it.
    pub fn resource(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::new(Category::Resource, message).with_code(code)
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Failure {
        let mut code = code.into();
        cut(&mut code, limits::ERROR_CODE_CHARS_MAX);
        self.code = Some(code);
        self
    }

    /// Sets the delay before the next attempt.
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Failure {
        self.retry_after = Some(delay.min(limits::DURATION_MAX));
        self
    }

    /// Adds a cause after the existing ones. Causes beyond [`limits::ERROR_CAUSES_MAX`] are dropped.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<ErrorCause>) -> Failure {
        if self.cause.len() < limits::ERROR_CAUSES_MAX {
            self.cause.push(cause.into().bounded());
        }
        self
    }

    /// Adds an error and its [`source`](std::error::Error::source)s as causes.
    #[must_use]
    pub fn with_source(self, error: &(dyn std::error::Error + 'static)) -> Failure {
        let chain = std::iter::successors(Some(error), |error| error.source());
        // A chain may be circular or endless; only the part that is stored is read.
        chain
            .take(limits::ERROR_CAUSES_MAX)
            .fold(self, |failure, error| failure.with_cause(error.to_string()))
    }
}

/// Truncates `text` to at most `bytes_max` bytes without splitting a character.
pub fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
}

/// The stored record of a failure.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// The category of the failure.
    pub category: Category,
    /// A stable code for programs.
    pub code: Option<String>,
    /// A message for people.
    pub message: String,
    /// When it happened.
    pub at: Timestamp,
    /// The attempt number.
    pub attempt: u32,
    /// The delay that the worker asked for.
    pub retry_after: Option<Duration>,
    /// Whether a retry was allowed; false for the error that ended the job.
    pub retryable: bool,
    /// The causes of the error, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cause: Vec<ErrorCause>,
}

impl ErrorRecord {
    /// `RETRYABLE` or `TERMINAL`.
    pub fn error_type(&self) -> &'static str {
        if self.retryable { "RETRYABLE" } else { "TERMINAL" }
    }
}

/// A failure in one line: the message, then category and code in parentheses.
pub fn described(message: &str, category: Category, code: Option<&str>) -> String {
    match code {
        Some(code) => format!("{message} ({category}, {code})"),
        None => format!("{message} ({category})"),
    }
}
