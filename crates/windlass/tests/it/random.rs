//! Random walks: thousands of steps that a seed decides, done to every engine alike, and many callers at once on one
//! store. They look for cases without a test; what they find becomes a separate test.

mod actions;
mod claims;
mod coverage;
mod determinism;
mod engines;
mod findings;
pub(crate) mod invariants;
mod model;
mod operation;
mod race;
pub(crate) mod rng;
mod snapshot;
mod steps;
mod submission;
mod workers;

use std::collections::VecDeque;
use std::str::FromStr;

use coverage::Reach;
use engines::Pair;
use invariants::Laws;
use model::World;
use operation::{Answer, Operation};
use rng::Dice;

use crate::fixture::{On, store_folder};

/// Walks by default, and steps in each.
const SEEDS: u64 = 20;
/// The same on PostgreSQL, where every step is several round trips.
const SEEDS_ON_POSTGRES: u64 = 6;
/// Walks on which the store is moved.
const SEEDS_MOVED: u64 = 2;
const STEPS: usize = 400;
/// Walks over several nodes: on every other one submissions wait for no turn.
const SEEDS_OF_NODES: u64 = 2;
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 25;
/// Jobs whose side records are compared at such a look; at the end all are.
const SIDES_PER_LOOK: usize = 6;
/// Steps that are shown when a walk fails.
const SHOWN: usize = 15;
/// Live jobs from which on no more are submitted.
const LIVE_MAX: usize = 200;

/// Model: atomic-changes, one-state-machine. The engines hold no rule of their own, so no sequence of commands tells them apart.
#[test]
fn any_walk_looks_the_same_on_a_file_as_in_memory() {
    any_walk(On::Sqlite);
}

#[test]
fn any_walk_looks_the_same_on_postgres_as_in_memory() {
    any_walk(On::Postgres);
}

/// Model: atomic-changes, idempotency-key, audit-trail. What a store answers does not depend on where it is kept, or was.
#[test]
fn a_walk_continues_as_if_nothing_were_when_its_store_is_moved() {
    for seed in 1..=setting("WINDLASS_WALK_SEEDS").unwrap_or(SEEDS_MOVED) {
        walk_by(On::Sqlite, seed, STEPS, Walker::walk_and_move);
    }
}

/// Model: atomic-changes, one-state-machine, one-lease-at-a-time. Whichever of three nodes is asked, they answer as one store does, although
/// their connections break between the messages of a commit.
#[test]
fn any_walk_from_node_to_node_looks_the_same_as_in_memory() {
    let first = setting("WINDLASS_WALK_SEED").unwrap_or(1);
    for seed in first..first + setting("WINDLASS_WALK_SEEDS").unwrap_or(SEEDS_OF_NODES) {
        let steps = setting("WINDLASS_WALK_STEPS").unwrap_or(STEPS);
        walk_with(Pair::of_nodes(seed), On::Postgres, seed, steps, Walker::walk_from_node_to_node);
    }
}

fn any_walk(on: On) {
    let (steps, first) = (setting("WINDLASS_WALK_STEPS").unwrap_or(STEPS), setting("WINDLASS_WALK_SEED"));
    let count = setting("WINDLASS_WALK_SEEDS").unwrap_or(match on {
        _ if first.is_some() => 1,
        On::Postgres => SEEDS_ON_POSTGRES,
        On::Memory | On::Sqlite => SEEDS,
    });
    let first = first.unwrap_or(1);
    let seeds: Vec<u64> = (first..first + count).collect();
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let mut reach = Reach::default();
    std::thread::scope(|scope| {
        let own = seeds.chunks(seeds.len().div_ceil(lanes));
        let own = own.map(|own| scope.spawn(move || walks(on, own, steps)));
        for walker in own.collect::<Vec<_>>() {
            reach.merge(&walker.join().expect("all walks of this thread end well"));
        }
    });
    if count >= SEEDS {
        reach.assert_everywhere();
    }
}

fn walks(on: On, seeds: &[u64], steps: usize) -> Reach {
    let mut reach = Reach::default();
    for seed in seeds {
        reach.merge(&walk(on, *seed, steps));
    }
    reach
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Takes one walk; shows how it went if it goes wrong.
fn walk(on: On, seed: u64, steps: usize) -> Reach {
    walk_by(on, seed, steps, Walker::walk)
}

fn walk_by(
    on: On,
    seed: u64,
    steps: usize,
    way: impl AsyncFnOnce(&mut Walker, usize) -> Result<(), String>,
) -> Reach {
    walk_with(Pair::new(on, seed), on, seed, steps, way)
}

/// Takes one walk on a new store at this address, of PostgreSQL.
pub(crate) fn walk_at(address: &str, seed: u64, steps: usize) {
    let pair = Pair::at(address.to_owned(), store_folder(), seed);
    walk_with(pair, On::Postgres, seed, steps, Walker::walk);
}

fn walk_with(
    pair: Pair,
    on: On,
    seed: u64,
    steps: usize,
    way: impl AsyncFnOnce(&mut Walker, usize) -> Result<(), String>,
) -> Reach {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime starts");
    let mut walker = Walker::new(pair, seed);
    if let Err(finding) = runtime.block_on(way(&mut walker, steps)) {
        let last: Vec<String> = walker.last.iter().map(|(step, done)| format!("{step}: {done:?}")).collect();
        panic!(
            "seed {seed} on {on:?}, after step {}: {finding}\n\nthe last steps:\n{}\n\nto see it again:\n\
             WINDLASS_WALK_SEED={seed} WINDLASS_WALK_STEPS={steps} \
             cargo test -p windlass-tests --test it walk::any_walk",
            walker.taken,
            last.join("\n")
        );
    }
    walker.reach
}

struct Walker {
    pair: Pair,
    dice: Dice,
    world: World,
    laws: Laws,
    reach: Reach,
    /// The last steps, for debugging.
    last: VecDeque<(usize, Operation)>,
    taken: usize,
    /// Audit records that were compared.
    seen: u64,
    was_reopened: bool,
}

impl Walker {
    fn new(pair: Pair, seed: u64) -> Walker {
        let world = World::new(pair.now());
        Walker {
            pair,
            dice: Dice::new(seed),
            world,
            laws: Laws::default(),
            reach: Reach::default(),
            last: VecDeque::with_capacity(SHOWN),
            taken: 0,
            seen: 0,
            was_reopened: false,
        }
    }

    async fn walk(&mut self, steps: usize) -> Result<(), String> {
        for step in 1..=steps {
            let operation = steps::next(&mut self.dice, &self.world);
            self.take(operation).await?;
            if step == steps / 2 {
                self.check(true).await?;
                self.pair.reopen();
                self.was_reopened = true;
                self.check(true).await?;
            } else if step % LOOK_EVERY == 0 {
                self.check(false).await?;
            }
        }
        self.check(true).await?;
        self.pair.durable.close();
        Ok(())
    }

    /// A walk over the nodes of one database.
    async fn walk_from_node_to_node(&mut self, steps: usize) -> Result<(), String> {
        // Each node counts the current minute by itself.
        self.was_reopened = true;
        for step in 1..=steps {
            self.pair.turn_to_any_node(&mut self.dice);
            let operation = steps::next(&mut self.dice, &self.world);
            self.take(operation).await?;
            if step % LOOK_EVERY == 0 {
                self.check(false).await?;
            }
        }
        self.check(true).await?;
        self.pair.close();
        Ok(())
    }

    /// A walk to another database, and back to another file, with looks at everything on the way.
    async fn walk_and_move(&mut self, steps: usize) -> Result<(), String> {
        for step in 1..=steps {
            let operation = steps::next(&mut self.dice, &self.world);
            self.take(operation).await?;
            if step % (steps / 4) == 0 {
                self.check(true).await?;
                self.pair.move_on().await?;
                self.was_reopened = true;
                self.check(true).await?;
            } else if step % LOOK_EVERY == 0 {
                self.check(false).await?;
            }
        }
        self.pair.durable.close();
        Ok(())
    }

    async fn take(&mut self, operation: Operation) -> Result<Answer, String> {
        self.taken += 1;
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back((self.taken, operation.clone()));
        let now = self.pair.now();
        let answer = self.pair.step(&operation).await?;
        self.laws.submitted(now, &operation, &answer)?;
        self.laws.answered(&operation, &answer)?;
        if let (Operation::Claim(_, request), Answer::Claimed(_, Ok(claimed))) = (&operation, &answer) {
            claims::check(&self.pair.memory, request, claimed).await?;
        }
        self.world.now = self.pair.now();
        self.world.learn(&mut self.dice, &operation, &answer);
        self.reach.answered(&answer);
        Ok(answer)
    }

    /// Lets time act, since late maintenance is a finding too, and compares everything.
    async fn check(&mut self, is_thorough: bool) -> Result<(), String> {
        while let Answer::Ticked(Ok(ticked)) = self.take(Operation::Tick).await?
            && ticked.has_more
        {}
        let jobs = snapshot::compare(&self.pair, !self.was_reopened).await?;
        for record in snapshot::compare_records(&self.pair, self.seen).await? {
            self.seen = record.seq;
            self.reach.recorded(record.event);
        }
        self.laws.check(&jobs)?;
        self.reach.saw(&jobs);
        self.world.is_full = jobs.iter().filter(|found| !found.job.state.is_final()).count() > LIVE_MAX;
        self.world.jobs.retain(|id| jobs.iter().any(|found| found.job.id == *id) || self.dice.chance(2));
        let ended = jobs.iter().filter(|found| found.job.state.is_final());
        self.world.ended = ended.map(|found| found.job.id).collect();
        let ids: Vec<_> = jobs.iter().map(|found| found.job.id).collect();
        if is_thorough {
            for id in ids {
                snapshot::compare_sides(&self.pair, id).await?;
            }
        } else if !ids.is_empty() {
            for _ in 0..SIDES_PER_LOOK {
                snapshot::compare_sides(&self.pair, self.dice.pick(&ids)).await?;
            }
        }
        Ok(())
    }
}
