//! Which job needs a final job.

use std::fmt;

use crate::job::JobId;
use crate::limits;

/// An unfinished job that needs a final one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeededBy {
    /// The parent, which has not finished and may read the result of this child again.
    Parent(JobId),
    /// A job that depends on it and has not finished.
    Dependent(JobId),
    /// There are more dependents than are checked, finished or not; this is one of them.
    Dependents(JobId),
}

impl NeededBy {
    /// The job that needs it.
    pub fn job(self) -> JobId {
        match self {
            NeededBy::Parent(id) | NeededBy::Dependent(id) | NeededBy::Dependents(id) => id,
        }
    }

    /// The relation to the needed job: `parent`, `dependent`, or `dependents` if there are too many.
    pub fn as_str(self) -> &'static str {
        match self {
            NeededBy::Parent(_) => "parent",
            NeededBy::Dependent(_) => "dependent",
            NeededBy::Dependents(_) => "dependents",
        }
    }
}

impl fmt::Display for NeededBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NeededBy::Parent(id) | NeededBy::Dependent(id) => {
                write!(f, "job {id}, its {}, has not finished and needs it", self.as_str())
            }
            NeededBy::Dependents(id) => {
                let max = limits::DEPENDENTS_LOOKED_AT;
                write!(f, "more than {max} stored jobs depend on it, such as job {id}: delete those first")
            }
        }
    }
}
