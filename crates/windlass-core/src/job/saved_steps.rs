//! The order of a job's saved steps, and which of them a retry from one of them keeps. A worker saves the place of each
//! call with its record (see `docs/protocol.md`); plain checkpoints of other workers have no place, and so no order.

use serde::Deserialize;

use crate::error::FieldProblem;
use crate::limits;

/// Separates the key of a step from the name of a call within it.
const WITHIN: &str = "#/";
/// Prefix of the key with the deadline of a wait.
const DEADLINE: &str = "deadline:";
/// Prefix of the key of a wait for a signal.
const WAIT: &str = "signal:";

/// A saved step or checkpoint: its key and its JSON.
#[derive(Debug, Clone, Copy)]
pub struct SavedStep<'a> {
    /// The key.
    pub key: &'a str,
    /// The saved JSON.
    pub record: &'a [u8],
}

#[derive(Default, Deserialize)]
struct Places {
    at: Option<u32>,
    from: Option<u32>,
}

impl SavedStep<'_> {
    /// The first place it took in the order of calls; `None` for what has no place: waits for signals, calls within a
    /// step, and plain checkpoints.
    fn place(&self) -> Option<u32> {
        let places: Places = serde_json::from_slice(self.record).unwrap_or_default();
        places.from.or(places.at)
    }
}

/// The key of the outermost step around a call; the key itself if there is none. A deadline belongs to its wait.
fn outermost(key: &str) -> &str {
    let key = key.strip_prefix(DEADLINE).unwrap_or(key);
    // The name of a signal may contain the separator, with its `#` doubled.
    if key.starts_with(WAIT) { key } else { key.split_once(WITHIN).map_or(key, |(outer, _)| outer) }
}

/// The keys of the steps that a job can be retried from, in the order in which they first ran.
pub fn ordered_steps<'a>(saved: &[SavedStep<'a>]) -> Vec<&'a str> {
    let mut placed: Vec<(u32, &str)> =
        saved.iter().filter_map(|step| Some((step.place()?, step.key))).collect();
    placed.sort_unstable();
    placed.into_iter().map(|(_, key)| key).collect()
}

/// Which of the saved steps a retry from `step` keeps: those that first ran before it. The step itself, those after it
/// and calls within them run again. Received signals, other results of waits, and plain checkpoints have no place and are
/// kept, because a signal is not sent a second time.
///
/// # Errors
/// If the job has not saved this step, or saved it without a place; the message lists the possible ones.
pub fn kept_before(saved: &[SavedStep<'_>], step: &str) -> Result<Vec<bool>, FieldProblem> {
    let place_of = |key: &str| saved.iter().find(|saved| saved.key == key).and_then(SavedStep::place);
    let Some(first) = place_of(step) else { return Err(not_possible(saved, step)) };
    let is_kept = |saved: &SavedStep<'_>| {
        let outer = outermost(saved.key);
        match place_of(outer) {
            Some(place) => place < first,
            // Calls within a step that was not saved: the step runs again, after all that was saved.
            None => !saved.key.contains(WITHIN) || outer.starts_with(WAIT),
        }
    };
    Ok(saved.iter().map(is_kept).collect())
}

fn not_possible(saved: &[SavedStep<'_>], step: &str) -> FieldProblem {
    let possible = ordered_steps(saved);
    let text = match (&possible[..], saved.iter().any(|saved| saved.key == step)) {
        ([], _) => "the job has no saved steps with a place in their order: retry it without `from_step`, or from the \
                    beginning with `reset_checkpoints`"
            .to_owned(),
        (steps, is_saved) => {
            let what =
                if is_saved { "has no place in the order of steps" } else { "is not a saved step of this job" };
            let (shown, more) = steps.split_at(steps.len().min(limits::STEPS_NAMED_MAX));
            let more = if more.is_empty() { "" } else { ", …" };
            format!("`{step}` {what}; possible: {}{more}", shown.join(", "))
        }
    };
    FieldProblem::Contradiction(text)
}
