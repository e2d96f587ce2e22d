//! Who needs a final job.

use super::id::JobId;

/// A job that is not final and needs a final one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeededBy {
    /// The parent, which has not ended and may read the result of this child again.
    Parent(JobId),
    /// A job that depends on it and has not ended.
    Dependent(JobId),
}

impl NeededBy {
    /// The job that needs it.
    pub fn job(self) -> JobId {
        match self {
            NeededBy::Parent(id) | NeededBy::Dependent(id) => id,
        }
    }

    /// What that job is to the needed one: `parent` or `dependent`.
    pub fn as_str(self) -> &'static str {
        match self {
            NeededBy::Parent(_) => "parent",
            NeededBy::Dependent(_) => "dependent",
        }
    }
}
