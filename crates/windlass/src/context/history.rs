//! The records of a job's history: the result of each call of a step, a sleep, a wait or a child group. Each record is
//! a checkpoint. Its key consists of the call's name and the number of earlier calls of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::skip_none;

use super::CHECKPOINT;
use crate::clock::Timestamp;
use crate::job::{Failure, GroupStrategy, JobType, NewJob};
use crate::ordered::CollectOrdered;
use crate::store::command::claim::Checkpoint;

/// Prefixes of keys that the context uses itself; a step's name must not start with one.
const RESERVED: [&str; 4] = ["sleep:", "signal:", "children:", "deadline:"];

/// Whether a step cannot have this name.
pub(super) fn is_reserved(name: &str) -> bool {
    name == CHECKPOINT || RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

/// The saved result of one call.
#[skip_none]
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record<'a> {
    /// Its place in the order of calls, which later attempts must follow; `None` if it ran beside another call.
    pub(super) at: Option<u32>,
    /// The first place it took, if that is not `at`: it ran beside another call, or was reopened.
    pub(super) from: Option<u32>,
    /// The last place it took, if it was reopened and has no `at`. Calls between the first and the last are not
    /// required any more.
    pub(super) to: Option<u32>,
    /// A step's value.
    #[serde(borrow, default)]
    pub(super) value: Option<&'a RawValue>,
    /// A step's permanent error, or a temporary error after which the handler continued.
    pub(super) failure: Option<Failure>,
    /// Delay of the snooze that the step returned, in milliseconds: the failure is a snooze.
    pub(super) snooze_ms: Option<u64>,
    /// The handler dropped the call before it ended, and continued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_out: bool,
    /// How long a call had run when the handler dropped it, in milliseconds.
    pub(super) ran_ms: Option<u64>,
    /// The call whose error made the handler drop this one. If that call is reopened, so is this one.
    pub(super) dropped_by: Option<String>,
    /// The call ended with an error that failed its attempt, so it runs again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) open: bool,
    /// When a sleep or a wait ends.
    pub(super) until: Option<Timestamp>,
    /// Requested length of a sleep, in milliseconds.
    pub(super) lasts_ms: Option<u64>,
    /// Identifies a group of children.
    pub(super) group: Option<GroupShape>,
}

/// Identifies a group of children, beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupShape {
    strategy: GroupStrategy,
    count: usize,
    types: BTreeSet<JobType>,
}

impl GroupShape {
    pub(super) fn new(strategy: GroupStrategy, jobs: &[NewJob]) -> GroupShape {
        GroupShape {
            strategy,
            count: jobs.len(),
            types: jobs.iter().map(|job| job.job_type.clone()).collect_ordered(),
        }
    }
}

impl std::fmt::Display for GroupShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types: Vec<&str> = self.types.iter().map(JobType::as_str).collect();
        write!(f, "{} children of type {} ({:?})", self.count, types.join(", "), self.strategy)
    }
}

/// Whole milliseconds of a duration, as stored in a record.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The places of a call in the order of calls; see the fields of [`Record`]. All `None` inside a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) at: Option<u32>,
    pub(super) from: Option<u32>,
}

impl Places {
    pub(super) fn from_record(record: &Record<'_>) -> Places {
        Places { at: record.at, from: record.from }
    }

    pub(super) fn first(self) -> Option<u32> {
        self.from.or(self.at)
    }

    /// The record of a reopened call with these places.
    pub(super) fn opened(self) -> Record<'static> {
        Record { at: self.at, from: self.first(), open: true, ..Record::default() }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct DroppedCall {
    pub(super) places: Places,
    /// How long it had run.
    pub(super) ran: Duration,
    /// The call whose error made the handler drop it.
    pub(super) by: Option<String>,
}

impl DroppedCall {
    pub(super) fn from_record(record: &Record<'_>) -> DroppedCall {
        let ran = Duration::from_millis(record.ran_ms.unwrap_or(0));
        DroppedCall { places: Places::from_record(record), ran, by: record.dropped_by.clone() }
    }
}

/// The part of the saved records that the order of calls needs.
#[derive(Debug, Default)]
pub(super) struct SavedHistory {
    /// Calls that earlier attempts saved.
    pub(super) places: BTreeMap<String, Places>,
    /// Saved calls that this attempt must make, by place.
    pub(super) required: BTreeSet<(u32, String)>,
    pub(super) left_out: BTreeMap<String, DroppedCall>,
    /// Calls that run again, with their first place.
    pub(super) open: BTreeMap<String, Option<u32>>,
    /// The first unused place.
    pub(super) next_place: u32,
}

impl SavedHistory {
    pub(super) fn new(checkpoints: &[Checkpoint]) -> SavedHistory {
        let mut known = SavedHistory::default();
        // Places after a reopened call: the calls there may not be made any more.
        let mut optional: Vec<(u32, u32)> = Vec::new();
        for saved in checkpoints {
            let key = &saved.step;
            if key == CHECKPOINT || key.starts_with("deadline:") {
                continue;
            }
            let record = serde_json::from_slice::<Record<'_>>(&saved.value).unwrap_or_default();
            if let Some(last) = record.at.max(record.from).max(record.to) {
                known.next_place = known.next_place.max(last.saturating_add(1));
            }
            let places = Places::from_record(&record);
            let last = if record.open { Some(u32::MAX) } else { record.at.or(record.to) };
            optional.extend(places.first().zip(last).filter(|(first, last)| first < last));
            if record.left_out {
                known.left_out.insert(key.clone(), DroppedCall::from_record(&record));
            } else if record.open {
                known.open.insert(key.clone(), places.first());
            } else {
                known.places.insert(key.clone(), places);
            }
        }
        let is_required = |at: u32| !optional.iter().any(|(first, last)| *first < at && at < *last);
        let placed = known.places.iter().filter_map(|(key, places)| Some((places.at?, key.clone())));
        known.required = placed.filter(|(at, _)| is_required(*at)).collect_ordered();
        known
    }

    /// Stops requiring calls saved after this place.
    pub(super) fn require_nothing_after(&mut self, place: u32) {
        self.required.retain(|(at, _)| *at <= place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(step: &str, record: &Record<'_>) -> Checkpoint {
        Checkpoint { step: step.into(), value: serde_json::to_vec(record).unwrap().into() }
    }

    #[test]
    fn what_came_after_a_call_that_was_opened_again_is_not_required() {
        let at = |at| Record { at: Some(at), ..Record::default() };
        let opened = Record { open: true, ..at(1) };
        let known = SavedHistory::new(&[saved("a", &at(0)), saved("b", &opened), saved("c", &at(2))]);
        assert_eq!(known.required, BTreeSet::from([(0, "a".to_owned())]));
        assert_eq!((known.open.get("b"), known.next_place), (Some(&Some(1)), 3));
        let again = Record { from: Some(1), ..at(3) };
        let known = SavedHistory::new(&[saved("a", &at(0)), saved("b", &again), saved("c", &at(2))]);
        assert_eq!(known.required, BTreeSet::from([(0, "a".to_owned()), (3, "b".to_owned())]));
    }
    #[test]
    fn what_came_after_a_call_beside_another_that_was_opened_again_is_not_required() {
        let at = |at| Record { at: Some(at), ..Record::default() };
        let beside = |from| Record { from: Some(from), ..Record::default() };
        let failed = beside(1);
        let known = SavedHistory::new(&[saved("a", &at(0)), saved("b", &failed), saved("c", &at(3))]);
        assert_eq!(known.required, BTreeSet::from([(0, "a".to_owned()), (3, "c".to_owned())]));
        let opened = Places::from_record(&failed).opened();
        let known = SavedHistory::new(&[saved("a", &at(0)), saved("b", &opened), saved("c", &at(3))]);
        assert_eq!(known.required, BTreeSet::from([(0, "a".to_owned())]));
        let again = Record { to: Some(4), ..beside(1) };
        let known = SavedHistory::new(&[
            saved("a", &at(0)),
            saved("b", &again),
            saved("c", &at(3)),
            saved("d", &at(5)),
        ]);
        assert_eq!(known.required, BTreeSet::from([(0, "a".to_owned()), (5, "d".to_owned())]));
        assert_eq!(known.next_place, 6);
    }
}
