//! A value that was refused: which field, and what is wrong with it.

use crate::webhook_url::TargetError;

/// A value that was refused: which field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// Dotted path of the field, as in the HTTP API.
    pub field: String,
    /// What is wrong.
    pub problem: FieldProblem,
}

impl Invalid {
    /// `problem` found in `field`.
    pub fn new(field: impl Into<String>, problem: FieldProblem) -> Invalid {
        Invalid { field: field.into(), problem }
    }
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldProblem {
    /// Nothing was given where something is required.
    #[error("is required")]
    Missing,
    /// The text or list is longer than allowed.
    #[error("has length {length}, the limit is {limit}")]
    TooLong {
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// More bytes than are allowed together.
    #[error("has {length} bytes with what comes before it, the limit is {limit}: give it in parts")]
    TooManyBytes {
        /// How many they are.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A name with characters that are not allowed.
    #[error("`{0}` is not a name: letters, digits, `_ . : -`, starting with a letter")]
    NotAName(String),
    /// A number or duration outside its range.
    #[error("is {value}, allowed is {min} to {max}")]
    OutOfRange {
        /// What was given.
        value: String,
        /// The smallest allowed.
        min: String,
        /// The largest allowed.
        max: String,
    },
    /// A word that is none of those known.
    #[error("`{value}` is not one of {allowed}")]
    Unknown {
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Two settings that contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// A dependency that names no job, or one of another tenant.
    #[error("`{0}` names no job")]
    NoSuchJob(String),
    /// A local name that stands for two jobs of one batch.
    #[error("`{0}` is the name of two jobs in this batch")]
    NameTwice(String),
    /// Jobs that wait for each other.
    #[error("`{0}` would wait for itself")]
    Cycle(String),
    /// The tenant has as many as it may have.
    #[error("would be one more than tenant {tenant} may have: {name} is {limit}")]
    LimitReached {
        /// The setting of the tenant that says how many.
        name: &'static str,
        /// How many.
        limit: u64,
        /// Whose.
        tenant: String,
    },
    /// An address that is not called.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl From<std::convert::Infallible> for FieldProblem {
    fn from(never: std::convert::Infallible) -> FieldProblem {
        match never {}
    }
}
