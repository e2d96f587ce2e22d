//! Deterministic simulation: nodes, clients, workers, maintenance and an operator in one thread, on virtual time. A seed
//! decides who calls, which message arrives when or is lost, who crashes, how time runs, and when the database restarts
//! or comes back from a backup. Their answers must fit together, and what is stored must fit their answers.

mod actors;
mod history;
mod loops;
mod network;
mod shrink;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use world::World;

/// Seeds by default, and steps of each.
const SEEDS: u64 = 2_000;
/// So many seeds meet everything that can happen.
const SEEDS_MEETING_ALL: u64 = 100;
const STEPS: usize = 600;
/// Events that are shown when a seed fails, after all steps that it does not need were left out.
const SHOWN: usize = 80;

/// Model: atomic-changes, idempotency-key, counters-and-fences, final-states, concurrency-limits.
#[test]
fn whatever_is_lost_late_or_restarted_every_promise_is_kept() {
    let steps = setting("WINDLASS_SIMULATION_STEPS").unwrap_or(STEPS);
    let first = setting("WINDLASS_SIMULATION_FIRST").unwrap_or(1);
    let seeds = match setting("WINDLASS_SIMULATION_SEED") {
        Some(seed) => seed..=seed,
        None => first..=(first - 1 + setting("WINDLASS_SIMULATION_SEEDS").unwrap_or(SEEDS)),
    };
    let (next, end) = (AtomicU64::new(*seeds.start()), *seeds.end());
    let reached = std::thread::scope(|scope| {
        let work = || {
            let mut reached = history::Reach::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > end {
                    return reached;
                }
                reached.add(&checked(seed, steps).history.reach);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut reached = history::Reach::default();
        for thread in threads {
            match thread.join() {
                Ok(found) => reached.add(&found),
                Err(finding) => std::panic::resume_unwind(finding),
            }
        }
        reached
    });
    println!("seeds {seeds:?} of {steps} steps: {reached:?}");
    if seeds.count() as u64 >= SEEDS_MEETING_ALL {
        reached.assert_everywhere();
    }
}

/// A seed that failed can be looked at again.
#[test]
fn a_seed_always_makes_the_same_story() {
    let [one, other] = [(); 2].map(|()| checked(7, STEPS).story);
    assert!(!one.is_empty());
    assert_eq!(one, other);
}

/// A seed that fails becomes a short story.
#[test]
fn a_failing_story_is_reported_without_unneeded_steps() {
    let ends_badly = |steps: &[usize]| {
        let (world, _) = run(11, steps);
        world.is_some_and(|world| {
            world.history.reach.has("clock set back") && world.history.reach.has("crash")
        })
    };
    assert!(ends_badly(&(0..STEPS).collect::<Vec<_>>()), "seed 11 has both");
    let kept = shrink::shrink((0..STEPS).collect(), ends_badly);
    assert_eq!(kept.len(), 2, "one step sets the clock back and one crashes: {kept:?}");
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs a seed, and panics with a short story if a promise was broken.
fn checked(seed: u64, steps: usize) -> World {
    let all: Vec<usize> = (0..steps).collect();
    let (world, finding) = run(seed, &all);
    let Some(finding) = finding else { return world.expect("a run without a finding has ended") };
    let kept = shrink::shrink(all, |some| run(seed, some).1.is_some());
    let (world, short) = run(seed, &kept);
    let story = world.map_or_else(Vec::new, |world| world.story);
    let (events, short) = (story.len(), short.unwrap_or_else(|| finding.clone()));
    let last = &story[events.saturating_sub(SHOWN)..];
    panic!(
        "seed {seed}: {finding}\n\nIt takes {} of {steps} steps, and then: {short}\n\nthe last {} of {events} events:\n  \
         {}\n\nto see it again:\nWINDLASS_SIMULATION_SEED={seed} WINDLASS_SIMULATION_STEPS={steps} \
         cargo test -p windlass-tests --test it simulation::",
        kept.len(),
        last.len(),
        last.join("\n  ")
    );
}

/// Runs these steps of a seed. A panic is a finding, too, and leaves no world behind.
fn run(seed: u64, steps: &[usize]) -> (Option<World>, Option<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        // Who is notified and when is decided here, and not by a budget that tokio gives a task.
        runtime.block_on(tokio::task::unconstrained(async {
            let mut world = World::new(seed).await;
            let ended = async {
                for step in steps {
                    world.step(*step).await?;
                }
                world.end().await
            }
            .await;
            if ended.is_err() {
                world.tell_attempts().await;
            }
            (world, ended.err())
        }))
    }));
    match ran {
        Ok((world, finding)) => (Some(world), finding),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (None, Some(format!("a panic: {}", text.unwrap_or_default())))
        }
    }
}
