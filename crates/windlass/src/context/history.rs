//! The records of a job's history: what each call of a step, a sleep, a wait or a child group came to. Each record is a
//! checkpoint whose key is made of the call's name and of how many calls of that name came before it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::CHECKPOINT;
use crate::clock::Timestamp;
use crate::job::{Failure, GroupStrategy, JobType, NewJob};
use crate::store::command::claim::Checkpoint;

/// Prefixes of the keys that the context makes itself; no step's name may begin with one.
const RESERVED: [&str; 4] = ["sleep:", "signal:", "children:", "deadline:"];

/// Whether a step cannot have this name.
pub(super) fn is_reserved(name: &str) -> bool {
    name == CHECKPOINT || RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

/// The key of the n-th call of a name in a branch, from 1. A `#` in the name is doubled, so no two calls share a key.
pub(super) fn key_of(name: &str, branch: &str, occurrence: u32) -> String {
    let name = name.replace('#', "##");
    if occurrence == 1 { format!("{name}{branch}") } else { format!("{name}{branch}#{occurrence}") }
}

/// What one call came to, as saved.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record<'a> {
    /// Its place in the order of calls; none if it ran beside another step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<u32>,
    /// Its first place, if its call was opened again: places between the two are not required any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<u32>,
    /// A step's value.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<&'a RawValue>,
    /// A step's permanent error, or a temporary one after which the handler went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<Failure>,
    /// The handler dropped the call before it ended, and went on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_out: bool,
    /// The call ended with an error that failed its attempt: it runs again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) open: bool,
    /// When a sleep or a wait ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Timestamp>,
    /// How long a sleep was asked to last, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lasts_ms: Option<u64>,
    /// What identifies a group of children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<GroupShape>,
}

/// What identifies a group of children beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupShape {
    strategy: GroupStrategy,
    count: usize,
    types: BTreeSet<JobType>,
}

impl GroupShape {
    pub(super) fn of(strategy: GroupStrategy, jobs: &[NewJob]) -> GroupShape {
        GroupShape {
            strategy,
            count: jobs.len(),
            types: jobs.iter().map(|job| job.job_type.clone()).collect(),
        }
    }
}

impl std::fmt::Display for GroupShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types: Vec<&str> = self.types.iter().map(JobType::as_str).collect();
        write!(f, "{} children of type {} ({:?})", self.count, types.join(", "), self.strategy)
    }
}

/// Whole milliseconds of a duration, as a record keeps them.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What the order of calls needs to know of the saved records.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Calls that earlier attempts saved, with their places.
    pub(super) places: BTreeMap<String, Option<u32>>,
    /// Those of them that this attempt has to call, by place.
    pub(super) required: BTreeSet<(u32, String)>,
    pub(super) left_out: BTreeSet<String>,
    /// Calls that run again, with the first place they had.
    pub(super) open: BTreeMap<String, u32>,
    /// The first place that no record has.
    pub(super) next_place: u32,
}

impl Known {
    pub(super) fn of(checkpoints: &[Checkpoint]) -> Known {
        let mut known = Known::default();
        // Places that lie after a call that was opened again: the calls there may not come any more.
        let mut optional: Vec<(u32, u32)> = Vec::new();
        for saved in checkpoints {
            let key = &saved.step;
            if key == CHECKPOINT || key.starts_with("deadline:") {
                continue;
            }
            let record = serde_json::from_slice::<Record<'_>>(&saved.value).unwrap_or_default();
            if let Some(at) = record.at {
                known.next_place = known.next_place.max(at.saturating_add(1));
                let first = record.from.unwrap_or(at);
                let last = if record.open { u32::MAX } else { at };
                optional.push((first, last));
            }
            if record.left_out {
                known.left_out.insert(key.clone());
            } else if record.open {
                known.open.insert(key.clone(), record.from.or(record.at).unwrap_or(0));
            } else {
                known.places.insert(key.clone(), record.at);
            }
        }
        optional.retain(|(first, last)| first < last);
        let is_required = |at: u32| !optional.iter().any(|(first, last)| *first < at && at < *last);
        let placed = known.places.iter().filter_map(|(key, at)| Some(((*at)?, key.clone())));
        known.required = placed.filter(|(at, _)| is_required(*at)).collect();
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_share_a_key() {
        let names = ["a", "a#", "a##", "a#2", "a#2#2", "a##2", "#", "##", "#2", ""];
        let mut keys = BTreeSet::new();
        for name in names {
            for branch in ["", "#r1", "#r1#r1", "#r2"] {
                for occurrence in 1..=30 {
                    let key = key_of(name, branch, occurrence);
                    assert!(keys.insert(key), "{name:?} {branch:?} {occurrence}");
                }
            }
        }
        assert_eq!(key_of("page", "", 1), "page");
        assert_eq!(key_of("page", "", 2), "page#2");
    }

    fn saved(step: &str, record: &Record<'_>) -> Checkpoint {
        Checkpoint { step: step.into(), value: serde_json::to_vec(record).unwrap().into() }
    }

    #[test]
    fn what_came_after_a_call_that_was_opened_again_is_not_required() {
        let at = |at| Record { at: Some(at), ..Record::default() };
        let opened = Record { open: true, ..at(1) };
        let known = Known::of(&[saved("a", &at(0)), saved("b", &opened), saved("c", &at(2))]);
        assert_eq!(known.required, BTreeSet::from([(0, "a".to_owned())]));
        assert_eq!((known.open.get("b"), known.next_place), (Some(&1), 3));
        let again = Record { from: Some(1), ..at(3) };
        let known = Known::of(&[saved("a", &at(0)), saved("b", &again), saved("c", &at(2))]);
        assert_eq!(known.required, BTreeSet::from([(0, "a".to_owned()), (3, "b".to_owned())]));
    }
}
