//! When a group of children is decided, and how.

use proptest::prelude::{Just, any, prop, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

use super::*;

fn group(strategy: GroupStrategy, total: u32) -> ChildGroup {
    ChildGroup { name: "parts".into(), strategy, total, open: total, completed: 0, decided: None }
}

/// The decision after each finished child: `true` is a child that completed.
fn decisions(strategy: GroupStrategy, ends: &[bool]) -> Vec<Option<GroupDecision>> {
    let mut group = group(strategy, u32::try_from(ends.len()).unwrap());
    ends.iter().map(|is_completed| group.child_ended(*is_completed)).collect()
}

const WELL: Option<GroupDecision> = Some(GroupDecision::Well);
const BADLY: Option<GroupDecision> = Some(GroupDecision::Badly);

/// Model: child-groups. Fail fast is decided by the first bad end, or when all completed.
#[test]
fn fail_fast_ends_with_the_first_bad_child() {
    assert_eq!(decisions(GroupStrategy::FailFast, &[true, true, true]), [None, None, WELL]);
    assert_eq!(decisions(GroupStrategy::FailFast, &[true, false, true]), [None, BADLY, None]);
    assert_eq!(decisions(GroupStrategy::FailFast, &[false]), [BADLY]);
}

/// Model: child-groups. Collect all waits for all children.
#[test]
fn collect_all_ends_with_the_last_child() {
    assert_eq!(decisions(GroupStrategy::CollectAll, &[true, true]), [None, WELL]);
    assert_eq!(decisions(GroupStrategy::CollectAll, &[false, true]), [None, BADLY]);
    assert_eq!(decisions(GroupStrategy::CollectAll, &[false, false]), [None, BADLY]);
}

/// Model: child-groups. A threshold is decided when it is reached or out of reach.
#[test]
fn a_threshold_ends_when_it_is_reached_or_out_of_reach() {
    let two = GroupStrategy::Threshold(2);
    assert_eq!(decisions(two, &[true, false, true]), [None, None, WELL]);
    assert_eq!(decisions(two, &[true, true, false]), [None, WELL, None]);
    assert_eq!(decisions(two, &[false, false, true]), [None, BADLY, None]);
    assert_eq!(decisions(GroupStrategy::Threshold(4), &[true, true]), [BADLY, None]);
}

proptest! {
    /// Model: child-groups. The parent resumes exactly once, whatever the children do.
    #[test]
    fn a_group_is_decided_exactly_once(
        ends in prop::collection::vec(any::<bool>(), 1..20),
        strategy in prop_oneof![
            Just(GroupStrategy::FailFast),
            Just(GroupStrategy::CollectAll),
            (0..25_u32).prop_map(GroupStrategy::Threshold),
        ],
    ) {
        let decided = decisions(strategy, &ends).into_iter().flatten().count();
        prop_assert_eq!(decided, 1);
    }

    /// Model: child-groups. Every finished child is counted, also after the decision.
    #[test]
    fn a_group_counts_every_end(ends in prop::collection::vec(any::<bool>(), 1..20)) {
        let mut group = group(GroupStrategy::FailFast, u32::try_from(ends.len()).unwrap());
        for is_completed in &ends {
            group.child_ended(*is_completed);
        }
        let completed = ends.iter().filter(|is_completed| **is_completed).count();
        prop_assert_eq!((group.open, group.completed), (0, u32::try_from(completed).unwrap()));
        prop_assert_eq!(group.decided == WELL, completed == ends.len());
    }
}

/// Model: sleeps-and-signals. A wait ends by itself only where it has a limit.
#[test]
fn a_wait_knows_when_it_ends_by_itself() {
    let signal = |until| Wait::Signal { name: "go".into(), step: "go".into(), until };
    assert_eq!(Wait::Timer { until: at(5) }.until(), Some(at(5)));
    assert_eq!((signal(Some(at(5))).until(), signal(None).until()), (Some(at(5)), None));
    assert_eq!(Wait::Children { group: 1 }.until(), None);
}
