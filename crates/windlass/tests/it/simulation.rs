//! Deterministic simulation: nodes, clients, workers, maintenance and an operator in one thread, on virtual time. A seed
//! decides who calls, which message arrives when or is lost, who crashes, how time runs, and when the database restarts
//! or comes back from a backup. What they were told must fit together, and what is stored must fit what they were told.

mod actors;
mod history;
mod network;
mod world;

use std::str::FromStr;

use world::World;

/// Seeds by default, and steps of each.
const SEEDS: u64 = 40;
const STEPS: usize = 600;
/// Steps that are shown when a seed fails.
const SHOWN: usize = 40;

/// Model: atomic-changes, idempotency-key, counters-and-fences, final-states, concurrency-limits.
#[test]
fn whatever_is_lost_late_or_restarted_every_promise_is_kept() {
    let steps = setting("WINDLASS_SIMULATION_STEPS").unwrap_or(STEPS);
    let seeds = match setting("WINDLASS_SIMULATION_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=setting("WINDLASS_SIMULATION_SEEDS").unwrap_or(SEEDS),
    };
    let mut reached = history::Reach::default();
    for seed in seeds.clone() {
        let world = simulate(seed, steps);
        reached.add(&world.history.reach);
    }
    println!("seeds {seeds:?} of {steps} steps: {reached:?}");
    if seeds.count() as u64 >= SEEDS {
        reached.assert_everywhere();
    }
}

/// A seed that failed can be looked at again.
#[test]
fn a_seed_always_tells_the_same_story() {
    let [one, other] = [(); 2].map(|()| simulate(7, STEPS).story);
    assert!(!one.is_empty());
    assert_eq!(one, other);
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn simulate(seed: u64, steps: usize) -> World {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed).await;
        let ended = async {
            for _ in 0..steps {
                world.step().await?;
            }
            world.end().await
        }
        .await;
        if let Err(finding) = ended {
            let last = &world.story[world.story.len().saturating_sub(SHOWN)..];
            panic!(
                "seed {seed}: {finding}\n\nthe last of {} events:\n  {}\n\nto see it again:\n\
                 WINDLASS_SIMULATION_SEED={seed} WINDLASS_SIMULATION_STEPS={steps} \
                 cargo test -p windlass --test it simulation::",
                world.story.len(),
                last.join("\n  ")
            );
        }
        world
    })
}
