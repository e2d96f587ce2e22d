//! Cycles and depths of dependency graphs.

use std::collections::BTreeSet;

use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as _;

use super::*;

/// Model: dependency-limits. A batch without a cycle has an order in which each job comes after those it waits for.
#[test]
fn a_graph_without_a_cycle_has_an_order() {
    assert_eq!(find_cycle(&[]), Ok(vec![]));
    // A diamond, named from its end.
    assert_eq!(find_cycle(&[vec![1, 2], vec![3], vec![3], vec![]]), Ok(vec![3, 1, 2, 0]));
    // The same job named twice is still one.
    assert_eq!(find_cycle(&[vec![1, 1], vec![]]), Ok(vec![1, 0]));
}

/// Model: dependency-limits. A cycle is refused.
#[test]
fn a_job_that_waits_for_itself_is_found() {
    assert_eq!(find_cycle(&[vec![0]]), Err(0));
    assert!(matches!(find_cycle(&[vec![1], vec![2], vec![0]]), Err(0..=2)));
}

/// Model: dependency-limits. A job that only waits for a cycle is not reported as part of it.
#[test]
fn the_job_that_is_named_lies_on_the_cycle() {
    assert!(matches!(find_cycle(&[vec![1], vec![2], vec![1]]), Err(1 | 2)));
    assert_eq!(find_cycle(&[vec![1], vec![2], vec![3, 4], vec![], vec![4]]), Err(4));
}

/// Model: dependency-limits. No graph exhausts the stack.
#[test]
fn a_chain_of_ten_thousand_jobs_is_handled() {
    let mut chain: Vec<Vec<usize>> = (0..10_000).map(|job| vec![job + 1]).collect();
    chain.push(vec![]);
    assert_eq!(find_cycle(&chain), Ok((0..=10_000).rev().collect()));
    chain[10_000] = vec![0];
    assert!(find_cycle(&chain).is_err());
}

/// Model: dependency-limits. Depth counts jobs on the longest path.
#[test]
fn depth_counts_jobs_on_the_longest_path() {
    assert_eq!((depth_of([]), depth_of([1]), depth_of([3, 99, 7])), (1, 2, 100));
}

/// Whether `job` can be reached from itself.
fn is_on_a_cycle(needs: &[Vec<usize>], job: usize) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), needs[job].clone());
    while let Some(other) = open.pop() {
        if seen.insert(other) {
            open.extend(&needs[other]);
        }
    }
    seen.contains(&job)
}

proptest! {
    /// Model: dependency-limits. For any graph, either an order that respects every edge or a job that is on a cycle.
    #[test]
    fn any_graph_has_an_order_or_a_cycle(
        needs in (1..12_usize)
            .prop_flat_map(|jobs| prop::collection::vec(prop::collection::vec(0..jobs, 0..3), jobs)),
    ) {
        match find_cycle(&needs) {
            Err(job) => prop_assert!(is_on_a_cycle(&needs, job)),
            Ok(order) => {
                prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), needs.len());
                let place = |job: usize| order.iter().position(|other| *other == job);
                for (job, needed) in needs.iter().enumerate() {
                    prop_assert!(needed.iter().all(|other| place(*other) < place(job)));
                }
            }
        }
    }
}
