//! The plan of pruning: which ranges are scanned, and when.

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000).plus(Duration::from_secs(seconds))
}

fn stretch(last: i64, jobs: usize, seconds: u64) -> PruneSpan {
    PruneSpan { last: Seq(last), jobs, next_at: at(seconds) }
}

fn part(after: Option<i64>, through: Option<i64>) -> SeqRange {
    SeqRange { after: after.map(Seq), through: through.map(Seq) }
}

const FULL: usize = limits::BULK_JOBS_PER_COMMIT;

#[test]
fn only_parts_with_something_due_and_the_newest_jobs_are_looked_at() {
    let mut plan = Plan::default();
    assert_eq!(plan.due(at(0)), [part(None, None)]);
    let found = vec![stretch(10, FULL, 100), stretch(20, FULL, 50), stretch(30, FULL, 200)];
    plan.update(part(None, None), found);
    assert_eq!(plan.due(at(49)), [part(Some(30), None)]);
    assert_eq!(plan.due(at(50)), [part(Some(10), Some(20)), part(Some(30), None)]);
    assert_eq!(plan.due(at(100))[0], part(None, Some(10)));
}

#[test]
fn what_is_found_replaces_what_was_known_of_a_part() {
    let mut plan = Plan::default();
    let found = vec![stretch(10, FULL, 100), stretch(20, FULL, 50), stretch(30, FULL, 200)];
    plan.update(part(None, None), found.clone());
    // Half of it was removed, and more than one page of others had ended in it.
    plan.update(part(Some(10), Some(20)), vec![stretch(15, FULL, 300), stretch(20, FULL - 1, 60)]);
    assert_eq!(plan.stretches.len(), 4);
    // All of it was removed: its neighbour covers the range, should a job end there later.
    plan.update(part(Some(10), Some(15)), Vec::new());
    plan.update(part(Some(10), Some(20)), Vec::new());
    assert_eq!(plan.stretches, [found[0], found[2]]);
    assert_eq!(plan.due(at(200)), [part(None, Some(10)), part(Some(10), Some(30)), part(Some(30), None)]);
}

#[test]
fn small_stretches_are_joined_and_the_earliest_time_counts() {
    let mut plan = Plan::default();
    for minute in 1..=10 {
        let after = (minute > 1).then_some(minute - 1);
        plan.update(part(after, None), vec![stretch(minute, 1, 1_000 - minute.unsigned_abs())]);
    }
    assert_eq!(plan.stretches, [stretch(10, 10, 990)]);
}

#[test]
fn other_settings_begin_a_new_plan() {
    let mut plan = Plan::default();
    plan.keep_under(7);
    plan.update(part(None, None), vec![stretch(10, FULL, 100)]);
    plan.keep_under(7);
    assert_eq!(plan.stretches.len(), 1);
    plan.keep_under(8);
    assert_eq!(plan.due(at(0)), [part(None, None)]);
}

#[test]
fn a_stretch_in_which_a_job_ended_is_looked_at_again() {
    let pruning = Pruning::default();
    let failed = JobState::Failed;
    assert!(!pruning.reaches(failed, Seq(1)));
    assert_eq!(pruning.begin(failed, 7, at(0)), [part(None, None)]);
    // While the scan runs, the order of the two is unknown.
    assert!(pruning.reaches(failed, Seq(99)));
    let found = vec![stretch(10, FULL, 100), stretch(20, FULL, 100)];
    pruning.plan(failed, |plan| plan.update(part(None, None), found));
    pruning.end(failed);
    assert!(pruning.reaches(failed, Seq(20)) && !pruning.reaches(failed, Seq(21)));
    assert!(!pruning.reaches(JobState::Completed, Seq(1)));
    pruning.ended(&[(failed, Seq(12)), (failed, Seq(3))]);
    let all = [part(None, Some(10)), part(Some(10), Some(20)), part(Some(20), None)];
    assert_eq!(pruning.begin(failed, 7, at(1)), all);
    assert_eq!(pruning.begin(failed, 7, at(2)), all[2..]);
}

#[test]
fn more_ends_than_are_remembered_begin_a_new_plan() {
    let mut plan = Plan::default();
    plan.update(part(None, None), vec![stretch(10, FULL, 100)]);
    (0..=limits::PRUNE_LATE_ENDS_MAX).for_each(|_| plan.ended(Seq(5)));
    assert_eq!(plan.due(at(0)), [part(None, None)]);
}
