//! Exhaustive small worlds: two workers, an operator, timers and one crash do everything that they can do, in every
//! order, to a parent, its child and a dependent, with the real verbs on the memory engine. After each step the laws are
//! checked, and from each state that was reached everything must still end, or `explain` must name what it waits for.

mod action;
mod laws;
mod liveness;
mod view;
mod world;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use liveness::Ends;
use windlass::job::JobRecord;
use windlass::limits;
use world::{Budget, World};

/// How often what could continue forever happens by default. A step of `WINDLASS_WORLD_DEPTH` adds an action of the operator,
/// a timer and a release.
const BUDGET: Budget = Budget { crashes: 1, actions: 1, timers: 1, releases: 0 };
/// States after which a long search says how far it is.
const SHOWN_EVERY: usize = 10_000;

/// What a search saw.
#[derive(Debug, Default, PartialEq, Eq)]
struct Searched {
    states: usize,
    steps: usize,
    deepest: usize,
}

/// Model: atomic-changes, one-state-machine, explained-waiting.
#[test]
fn every_order_of_steps_in_a_small_world_keeps_the_laws_and_lets_every_job_end() {
    let seen = search(BUDGET, limits::CASCADE_JOBS_PER_COMMIT);
    // A search that gets nowhere passes forever.
    assert!(seen.states > 1_000 && seen.deepest > 8, "{seen:?}");
}

/// Model: atomic-changes. The same without a crash, if every consequence for another job is left to a later commit.
#[test]
fn every_order_of_steps_keeps_the_laws_while_consequences_are_left_to_maintenance() {
    let seen = search(Budget { crashes: 0, ..BUDGET }, 1);
    assert!(seen.states > 1_000 && seen.deepest > 8, "{seen:?}");
}

/// Goes through all states, nearest first, so that the first finding has the shortest story.
fn search(budget: Budget, cascade_jobs_per_commit: usize) -> Searched {
    let extra = std::env::var("WINDLASS_WORLD_DEPTH").ok().and_then(|depth| depth.parse().ok()).unwrap_or(0);
    let Budget { crashes, actions, timers, releases } = budget;
    let [actions, timers, releases] = [actions, timers, releases].map(|least| least + extra);
    let budget = Budget { crashes, actions, timers, releases };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let first = World::new(budget, cascade_jobs_per_commit).await;
        let (mut known, mut ends) = (HashSet::from([first.digest()]), Ends::default());
        let mut cores = HashSet::from([first.core()]);
        let (mut open, mut seen) = (VecDeque::from([first]), Searched { states: 1, ..Searched::default() });
        while let Some(world) = open.pop_front() {
            for action in action::possible(&world) {
                let mut next = world.fork();
                if let Err(finding) = next.step(action).await {
                    panic!("{}", story(&next, &finding));
                }
                seen.steps += 1;
                if !known.insert(next.digest()) {
                    continue;
                }
                seen.states += 1;
                // What may still happen changes nothing that is checked here.
                if cores.insert(next.core()) {
                    for held in [laws::hold(&next).await, ends.check(&next).await] {
                        if let Err(finding) = held {
                            panic!("{}", story(&next, &finding));
                        }
                    }
                }
                if seen.states.is_multiple_of(SHOWN_EVERY) {
                    println!("{seen:?}, {} to go", open.len());
                }
                seen.deepest = next.path.len();
                open.push_back(next);
            }
        }
        println!("cascades of {cascade_jobs_per_commit}: {seen:?}, {ends:?}");
        seen
    })
}

/// How a state was reached, and what is wrong with it.
fn story(world: &World, finding: &str) -> String {
    let steps: Vec<String> = world.path.iter().map(|action| format!("  {action:?}")).collect();
    let jobs = world.view.jobs.iter().map(|job| {
        let JobRecord { id, lane, state, attempt, failures, fence, lease, retry_at, details, .. } = job;
        let name = &lane.job_type;
        format!("  {name} {id}: {state}, {attempt} starts, {failures} failures, {fence:?}, {lease:?}, {retry_at:?}, {details:?}")
    });
    let (steps, jobs) = (steps.join("\n"), jobs.collect::<Vec<_>>().join("\n"));
    format!("{finding}\n\nafter these steps:\n{steps}\n\nthe jobs at {}:\n{jobs}", world.now())
}

/// How long one attempt keeps its job without a heartbeat: longer than a silent worker counts as alive, so that both ways
/// to lose a job are met.
const LEASE: Duration = Duration::from_secs(40);
/// How long a failed job waits.
const BACKOFF: Duration = Duration::from_secs(10);
