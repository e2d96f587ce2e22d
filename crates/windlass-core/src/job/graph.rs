//! Dependencies between jobs and the limits of their graph. Pure; no recursion, so no graph can exhaust the
//! stack.

mod needed;

use serde::{Deserialize, Serialize};

pub use needed::NeededBy;

use crate::Words;

/// The kind of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// The other job must complete.
    After,
    /// One of the `after_any` jobs must finish, in any state.
    AfterAny,
}

/// The jobs of a batch in dependency order, or the index of a job on a cycle. `needs[i]` are the indexes within the
/// batch that job `i` depends on.
pub fn find_cycle(needs: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
    let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (job, needed) in needs.iter().enumerate() {
        for &other in needed {
            dependents[other].push(job);
        }
    }
    let mut order: Vec<usize> = (0..needs.len()).filter(|job| open[*job] == 0).collect();
    let mut done = 0;
    while done < order.len() {
        for &dependent in &dependents[order[done]] {
            open[dependent] -= 1;
            if open[dependent] == 0 {
                order.push(dependent);
            }
        }
        done += 1;
    }
    let Some(mut stuck) = open.iter().position(|count| *count > 0) else { return Ok(order) };
    // This job may only depend on a cycle. Every stuck job depends on another stuck job, so following as many edges as
    // there are jobs ends on the cycle.
    for _ in 0..needs.len() {
        stuck = needs[stuck].iter().copied().find(|other| open[*other] > 0).unwrap_or(stuck);
    }
    Err(stuck)
}

/// Depth of a job whose dependencies have these depths: the number of jobs on the longest path.
pub fn depth_of(dependencies: impl IntoIterator<Item = u32>) -> u32 {
    dependencies.into_iter().max().unwrap_or(0) + 1
}
