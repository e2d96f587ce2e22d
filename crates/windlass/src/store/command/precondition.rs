//! Preconditions of actions: the versions of a job that an action is meant for, and whether a repeat is an error. The check
//! runs in the commit that then changes the job, so nobody can change it in between.

use crate::error::ActError;
use crate::job::{JobRecord, Version};
use crate::store::tx::write_tx::WriteTx;

/// Which versions of a job an action is meant for; any other version is refused and nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IfMatch(Option<Vec<Version>>);

impl IfMatch {
    /// Whatever its version.
    pub fn any() -> IfMatch {
        IfMatch(None)
    }

    /// Only one of these versions; with none of them, the action is always refused.
    pub fn one_of(versions: impl IntoIterator<Item = Version>) -> IfMatch {
        IfMatch(Some(versions.into_iter().collect()))
    }

    /// The versions, or none if any will do.
    pub fn versions(&self) -> Option<&[Version]> {
        self.0.as_deref()
    }

    /// Refuses a job in another version; asked in the very commit that then changes the job.
    pub(crate) fn check(&self, tx: &mut WriteTx<'_>, job: &JobRecord) -> Result<(), ActError> {
        let Some(expected) = &self.0 else { return Ok(()) };
        let spec = tx.spec(job.seq)?.ok_or(ActError::NotFound(job.id))?;
        let version = Version::of(job, &spec.labels);
        if expected.contains(&version) { Ok(()) } else { Err(ActError::Changed { id: job.id, version }) }
    }
}

impl From<Version> for IfMatch {
    fn from(version: Version) -> IfMatch {
        IfMatch::one_of([version])
    }
}

/// How an action is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActOptions {
    /// Whether finding the job as asked already is an error (M51).
    pub strict: bool,
    /// Which versions of the job it is meant for.
    pub if_match: IfMatch,
}
