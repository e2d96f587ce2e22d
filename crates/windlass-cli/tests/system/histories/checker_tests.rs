//! Histories made by hand: good ones pass, and each kind of violation is found.

use windlass::job::Fence;

use super::checker::{check, missing};
use super::history::{Answer, Call, FinalJob, Lease, Micros, Op, Outcome, Record};
use super::{LIMITED, ORDERED};

const LEASE: Micros = 1_000;

fn op(call: Call, times: (Micros, Micros), answer: Answer) -> Op {
    Op { call, invoked: times.0, ended: times.1, answer }
}

fn submit(job: &str, queue: &str, times: (Micros, Micros)) -> Op {
    let call = Call::Submit { key: format!("key-{job}"), queue: queue.into() };
    op(call, times, Answer::Submitted { job: job.into() })
}

fn claim(job: &str, queue: &str, fence: u64, attempt: u64, times: (Micros, Micros)) -> Op {
    let lease = Lease { job: job.into(), fence, attempt, queue: queue.into() };
    op(Call::Claim { queue: queue.into() }, times, Answer::Claimed(vec![lease]))
}

fn complete(job: &str, fence: u64, times: (Micros, Micros)) -> Op {
    op(Call::Finish { job: job.into(), fence, is_completed: true }, times, Answer::Applied)
}

fn spawn(job: &str, fence: u64, children: &[&str], times: (Micros, Micros)) -> Op {
    let children = children.iter().map(|&child| child.into()).collect();
    op(Call::Spawn { job: job.into(), fence }, times, Answer::Spawned { children })
}

/// The state and the audit trail that belong to these calls.
fn outcome(ops: Vec<Op>) -> Outcome {
    let mut outcome = Outcome { lease: LEASE, limit: 1, tick_every: 100, ..Outcome::default() };
    let mut add = |event: &str, job: &str| {
        let number = outcome.records.len() as u64 + 1;
        outcome.records.push(Record { number, event: event.into(), job: Some(job.into()) });
    };
    for op in &ops {
        match (&op.call, &op.answer) {
            (Call::Submit { key, .. }, Answer::Submitted { job })
                if outcome.jobs.iter().all(|known| known.id != *job) =>
            {
                add("job.lifecycle.submitted", job);
                let state = "failed".into();
                let (id, key) = (job.clone(), Some(key.clone()));
                outcome.jobs.push(FinalJob { id, key, state, is_tick: false, run_at: 0 });
            }
            (Call::Finish { job, .. }, Answer::Applied) => {
                let known = outcome.jobs.iter_mut().find(|known| known.id == *job).unwrap();
                if known.state != "completed" {
                    known.state = "completed".into();
                    add("job.lifecycle.completed", job);
                }
            }
            (Call::Spawn { job, .. }, Answer::Spawned { .. }) => add("job.ops.woken", job),
            _ => {}
        }
    }
    outcome.ops = ops;
    outcome
}

fn good() -> Vec<Op> {
    vec![
        submit("a", ORDERED, (0, 10)),
        submit("b", ORDERED, (20, 30)),
        claim("a", ORDERED, 5, 1, (40, 50)),
        claim("b", ORDERED, 6, 1, (60, 70)),
        complete("b", 6, (80, 90)),
        // The first worker was lost; its lease ended at 1,040.
        claim("a", ORDERED, 7, 2, (1_100, 1_110)),
        complete("a", 7, (1_120, 1_130)),
    ]
}

#[track_caller]
fn finds(outcome: &Outcome, text: &str) {
    let found = check(outcome);
    assert!(found.iter().any(|line| line.contains(text)), "{text}: {found:?}");
}

#[test]
fn a_good_history_passes() {
    assert_eq!(check(&outcome(good())), [""; 0]);
}

#[test]
fn a_lost_job_and_one_that_never_ends_are_found() {
    let mut lost = outcome(good());
    lost.jobs.remove(0);
    finds(&lost, "lost: job a");
    let mut open = outcome(good());
    open.jobs[1].state = "running".into();
    finds(&open, "job b never ended: running");
    finds(&open, "the completion of b was applied");
}

#[test]
fn a_key_of_two_jobs_is_found() {
    let mut ops = good();
    let Call::Submit { key, .. } = &mut ops[1].call else { unreachable!() };
    *key = "key-a".into();
    finds(&outcome(ops), "the key key-a is several jobs");
}

#[test]
fn two_leases_at_a_time_are_found() {
    let mut ops = good();
    (ops[5].invoked, ops[5].ended) = (900, 910);
    finds(&outcome(ops.clone()), "job a has two leases");
    // Unless the first one was given back before.
    ops.push(op(
        Call::Finish { job: "a".into(), fence: 5, is_completed: false },
        (800, 950),
        Answer::Unknown,
    ));
    assert_eq!(check(&outcome(ops)), [""; 0]);
    let mut twice = good();
    twice.push(claim("b", ORDERED, 6, 1, (60, 75)));
    finds(&outcome(twice), "twice with fence 6");
}

#[test]
fn two_outcomes_and_a_claim_after_completion_are_found() {
    let mut ops = good();
    ops.push(complete("b", 6, (91, 95)));
    finds(&outcome(ops), "with fence 6 were applied");
    let mut again = good();
    again.push(claim("a", ORDERED, 9, 3, (3_000, 3_010)));
    finds(&outcome(again), "job a was given out after its completion");
}

#[test]
fn a_report_with_an_old_fence_is_found() {
    let mut ops = good();
    ops.push(op(
        Call::Finish { job: "a".into(), fence: 5, is_completed: false },
        (1_115, 1_118),
        Answer::Applied,
    ));
    finds(&outcome(ops), "the old fence 5 was applied");
}

/// A standby has taken over: leases of the generation before it are void.
#[test]
fn a_generation_that_is_in_force_after_the_next_one_is_found() {
    let next = |fence: u64| (2 << Fence::COUNTER_BITS) + fence;
    let mut ops = good();
    ops[5] = claim("a", ORDERED, next(7), 2, (200, 210));
    ops[6] = complete("a", next(7), (220, 230));
    // Its worker does not hold it any more.
    assert_eq!(check(&outcome(ops.clone())), [""; 0]);
    let fail = Call::Finish { job: "b".into(), fence: 6, is_completed: false };
    ops[4] = op(fail, (211, 215), Answer::Applied);
    finds(&outcome(ops.clone()), "generation 1 was in force after generation 2 had begun");
    ops[4] = claim("c", ORDERED, 8, 1, (211, 215));
    finds(&outcome(ops), "generation 1 was in force after generation 2 had begun");
}

#[test]
fn a_limit_that_is_exceeded_is_found() {
    let mut ops = vec![
        submit("a", LIMITED, (0, 10)),
        submit("b", LIMITED, (0, 10)),
        claim("a", LIMITED, 5, 1, (40, 50)),
        claim("b", LIMITED, 6, 1, (60, 70)),
        complete("b", 6, (80, 90)),
        complete("a", 5, (95, 96)),
    ];
    finds(&outcome(ops.clone()), "2 jobs of limited ran at 70");
    (ops[3].invoked, ops[3].ended) = (97, 98);
    (ops[4].invoked, ops[4].ended) = (99, 100);
    assert_eq!(check(&outcome(ops)), [""; 0]);
}

#[test]
fn a_lane_out_of_order_is_found() {
    let mut ops = good();
    (ops[2].invoked, ops[2].ended) = (71, 72);
    finds(&outcome(ops.clone()), "job b was claimed before a");
    // A claim without an answer may have got the other.
    ops.push(op(Call::Claim { queue: ORDERED.into() }, (35, 2_000), Answer::Unknown));
    assert_eq!(check(&outcome(ops)), [""; 0]);
}

#[test]
fn a_group_that_is_spawned_twice_is_found() {
    let ops = vec![
        submit("p", "parents", (0, 10)),
        submit("c", "plain", (0, 10)),
        claim("p", "parents", 5, 1, (40, 50)),
        spawn("p", 5, &["c"], (60, 70)),
    ];
    assert_eq!(check(&outcome(ops.clone())), [""; 0]);
    let mut twice = ops.clone();
    twice.push(submit("d", "plain", (0, 10)));
    twice.push(spawn("p", 5, &["d"], (80, 90)));
    finds(&outcome(twice.clone()), "spawned several times");
    finds(&outcome(twice), "parent p was resumed 2 times");
}

#[test]
fn a_missing_and_a_double_tick_are_found() {
    let tick = |run_at| FinalJob {
        id: format!("t{run_at}"),
        key: None,
        state: "completed".into(),
        is_tick: true,
        run_at,
    };
    let with = |times: &[i64]| {
        let jobs = times.iter().map(|at| tick(*at)).collect();
        Outcome { jobs, lease: LEASE, tick_every: 100, ..Outcome::default() }
    };
    assert_eq!(check(&with(&[300, 100, 200])), [""; 0]);
    finds(&with(&[100, 300]), "ticks at 100 and 300");
    finds(&with(&[100, 100, 200]), "ticks at 100 and 100");
}

#[test]
fn a_gap_in_the_audit_trail_is_found() {
    let mut gap = outcome(good());
    gap.records.remove(1);
    finds(&gap, "audit record 3 follows 1");
    finds(&gap, "0 audit records job.lifecycle.submitted");
}

#[test]
fn a_history_in_which_nothing_happened_does_not_pass() {
    let nothing = outcome(Vec::new());
    assert!(check(&nothing).is_empty());
    let found = missing(&nothing);
    assert_eq!(found.len(), 8, "{found:?}");
    assert!(found.iter().any(|text| text.contains("ticks")), "{found:?}");
}
