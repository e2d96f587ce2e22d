//! A rejected value: its field and the problem.

use crate::limits;
use crate::webhook_url::TargetError;

/// A rejected value: its field and the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Dotted path of the field, as in the HTTP API.
    pub field: String,
    /// What is wrong.
    pub problem: FieldProblem,
}

impl FieldError {
    /// A problem found in a field.
    pub fn new(field: impl Into<String>, problem: FieldProblem) -> FieldError {
        FieldError { field: field.into(), problem }
    }

    /// The same problem, in a field of the object at this place.
    #[must_use]
    pub fn within(self, place: &str) -> FieldError {
        FieldError { field: format!("{place}.{}", self.field), ..self }
    }
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldProblem {
    /// A required value is missing.
    #[error("is required")]
    Missing,
    /// The text or list is longer than allowed.
    #[error("has length {length}, the limit is {limit}")]
    TooLong {
        /// The length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The values exceed a limit on their total size.
    #[error("has {length} bytes together with the fields before it, the limit is {limit}: split it")]
    TooManyBytes {
        /// The length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A name with characters that are not allowed.
    #[error("`{0}` is not a name: letters, digits, `_ . : -`, starting with a letter")]
    NotAName(String),
    /// A version with characters that are not allowed.
    #[error("`{0}` is not a version: letters, digits and `_ . : + / @ -`")]
    NotAVersion(String),
    /// A number or duration outside its range.
    #[error("is {value}, allowed is {min} to {max}")]
    OutOfRange {
        /// The value.
        value: String,
        /// The smallest allowed value.
        min: String,
        /// The largest allowed value.
        max: String,
    },
    /// An unknown word.
    #[error("`{value}` is not one of {allowed}")]
    Unknown {
        /// The value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// Settings that contradict each other, or another problem described by the text.
    #[error("{0}")]
    Contradiction(String),
    /// A dependency on a job that does not exist or belongs to another tenant.
    #[error("`{0}` names no job")]
    NoSuchJob(String),
    /// A local name used for two jobs of one batch.
    #[error("`{0}` is the name of two jobs in this batch")]
    NameTwice(String),
    /// Jobs that depend on each other.
    #[error("`{0}` would depend on itself")]
    Cycle(String),
    /// The tenant has reached a limit.
    #[error("`{value}` would be one more than tenant {tenant} may have: {name} is {limit}")]
    LimitReached {
        /// The tenant's setting.
        name: &'static str,
        /// The queue, type or key that would be one too many; for a pair of a queue and a type, the queue.
        value: String,
        /// The limit.
        limit: u64,
        /// The tenant.
        tenant: String,
    },
    /// The callback or push URL is not allowed.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl FieldProblem {
    /// An unknown word, of which the message repeats the beginning.
    pub fn unknown(value: &str, allowed: &'static str) -> FieldProblem {
        FieldProblem::Unknown { value: value.chars().take(limits::SHOWN_CHARS_MAX).collect(), allowed }
    }

    /// The setting that limits the concurrency keys of a tenant.
    pub const MAX_CONCURRENCY_KEYS: &'static str = "max_concurrency_keys";

    /// Whether the same submission may be accepted as soon as other jobs have ended.
    pub fn is_temporary(&self) -> bool {
        matches!(self, FieldProblem::LimitReached { name, .. } if *name == Self::MAX_CONCURRENCY_KEYS)
    }
}

impl From<std::convert::Infallible> for FieldProblem {
    fn from(never: std::convert::Infallible) -> FieldProblem {
        match never {}
    }
}
