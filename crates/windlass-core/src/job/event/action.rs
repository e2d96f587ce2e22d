//! Which actions a state allows: the one rule that API, bulk actions, command line, `top` and dashboard use. Events of the
//! lifecycle are looked up in [`LIFECYCLE`]; the other actions only ask whether the job is final.

use crate::error::InvalidTransition;
use crate::job::{JobAction, JobState, LIFECYCLE};

impl JobAction {
    /// Whether the action can change a job in this state. Every surface that offers actions uses this rule.
    pub fn is_allowed_in(self, state: JobState) -> bool {
        match self {
            JobAction::Priority | JobAction::Patch | JobAction::Signal => !state.is_final(),
            JobAction::Redrive | JobAction::Delete => state.is_final(),
            event => LIFECYCLE.iter().any(|(action, from, _)| *action == event && from.contains(&state)),
        }
    }

    /// Refuses the action in states that do not allow it.
    ///
    /// # Errors
    /// [`InvalidTransition`] names state and action.
    pub fn check(self, state: JobState) -> Result<(), InvalidTransition> {
        if self.is_allowed_in(state) { Ok(()) } else { Err(InvalidTransition { state, action: self }) }
    }
}
