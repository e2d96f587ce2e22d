//! Dependencies between jobs: what they mean, and the limits of their graph (M60, M61). Pure; no recursion, so no
//! graph can exhaust the stack.

use serde::{Deserialize, Serialize};

/// How a job waits for another (M60).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// It must complete.
    After,
    /// It, or one of its kind, must end, well or badly.
    AfterAny,
}

impl Need {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Need::After => "after",
            Need::AfterAny => "after_any",
        }
    }
}

/// The jobs of one batch in an order in which each comes after those it waits for, or the place of one that waits for
/// itself. `needs[i]` are the places within the batch that job `i` waits for.
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
    // It may only wait for a cycle. Whoever is stuck waits for one that is stuck, so as many steps as there are jobs
    // end within the cycle.
    for _ in 0..needs.len() {
        stuck = needs[stuck].iter().copied().find(|other| open[*other] > 0).unwrap_or(stuck);
    }
    Err(stuck)
}

/// Jobs on the longest path that ends at a job whose dependencies have these depths (M61).
pub fn depth_of(dependencies: impl IntoIterator<Item = u32>) -> u32 {
    dependencies.into_iter().max().unwrap_or(0) + 1
}
