//! Preconditions of actions: the versions of a job that an action applies to, and whether a repeat is an error. The
//! check runs in the commit that changes the job, so the job cannot change in between.

use crate::error::ActionError;
use crate::job::{JobRecord, Spec, Version};
use crate::store::tx::write_tx::WriteTx;

/// The versions of a job that an action applies to; any other version is refused and nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IfMatch(Option<Vec<Version>>);

impl IfMatch {
    /// Matches any version.
    pub fn any() -> IfMatch {
        IfMatch(None)
    }

    /// Matches only these versions; if empty, the action is always refused.
    pub fn one_of(versions: impl IntoIterator<Item = Version>) -> IfMatch {
        IfMatch(Some(versions.into_iter().collect()))
    }

    /// The versions, or `None` if any version matches.
    pub fn versions(&self) -> Option<&[Version]> {
        self.0.as_deref()
    }

    /// Refuses a job in another version. Called in the commit that then changes the job.
    pub(crate) fn check(&self, tx: &mut WriteTx<'_>, job: &JobRecord) -> Result<(), ActionError> {
        let Some(expected) = &self.0 else { return Ok(()) };
        // A job whose submission is damaged is shown without it, and so is its version.
        let spec = tx.spec_or_damage(job.seq)?.unwrap_or_else(|_| Spec::unknown());
        let version = Version::new(job, &spec.metadata);
        if expected.contains(&version) { Ok(()) } else { Err(ActionError::Changed { id: job.id, version }) }
    }
}

impl From<Version> for IfMatch {
    fn from(version: Version) -> IfMatch {
        IfMatch::one_of([version])
    }
}

/// Options for an action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActionOptions {
    /// Whether it is an error if the job is already in the requested state.
    pub strict: bool,
    /// The versions of the job that the action applies to.
    pub if_match: IfMatch,
}

impl ActionOptions {
    /// It is an error if the job is already in the requested state.
    #[must_use]
    pub fn strict() -> ActionOptions {
        ActionOptions { strict: true, ..ActionOptions::default() }
    }

    /// Applies the action only to these versions of the job.
    #[must_use]
    pub fn if_match(self, if_match: IfMatch) -> ActionOptions {
        ActionOptions { if_match, ..self }
    }
}
