//! The same seed gives the same history, to the last byte of its chain: without that no finding could be looked at twice.

use windlass::audit::{AuditLevel, Seal};
use windlass::settings::QueueSettings;
use windlass::store::{Settings, StoreOptions};

use super::model::World;
use super::operation::Operation;
use super::rng::Dice;
use super::steps;
use crate::fixture::{Fixture, On, queue};

const STEPS: usize = 150;

/// Model: audit-chain. The chain covers every record, so equal chains are equal histories.
#[tokio::test]
async fn the_same_seed_gives_the_same_chain_on_every_engine_every_time() {
    for seed in [501, 502] {
        let first = history(On::Memory, seed).await;
        assert!(first.through > 50, "seed {seed}: {first:?} is too short to show anything");
        for on in [On::Memory, On::Sqlite, On::Sqlite, On::Postgres] {
            assert_eq!(history(on, seed).await, first, "seed {seed} on {on:?}");
        }
    }
    assert_ne!(history(On::Memory, 501).await, history(On::Memory, 502).await);
}

/// Walks with one store alone and seals what happened.
async fn history(on: On, seed: u64) -> Seal {
    let t = Fixture::with(on, StoreOptions::default(), seed);
    for name in ["default", "mail", "slow"] {
        let settings = QueueSettings { audit: Some(AuditLevel::All), ..QueueSettings::default() };
        t.store.configure(&t.me, Settings::Queue(queue(name), settings)).await.expect("an admin may");
    }
    let (mut dice, mut world) = (Dice::new(seed), World::new(t.now()));
    for _ in 0..STEPS {
        let operation = steps::next(&mut dice, &world);
        if let Operation::Pass(time) = operation {
            t.advance(time);
        }
        let answer = operation.apply(&t.store).await;
        world.now = t.now();
        world.learn(&mut dice, &operation, &answer);
    }
    loop {
        let sealed = t.store.seal().await.expect("the store answers");
        if !sealed.has_more {
            t.store.close();
            return sealed.seal;
        }
    }
}
