//! What every test of a store starts from: the suite's fixture on each engine of this repository, and what only they need:
//! servers, poolers, false clocks, workers that live through outages.

#[allow(
    unreachable_pub,
    reason = "the tests of the server share it as a crate, which would have to be built for these"
)]
#[path = "../../../windlass-testkit/src/cluster.rs"]
pub(crate) mod cluster;
#[allow(unreachable_pub, reason = "as above")]
#[path = "../../../windlass-testkit/src/faketime.rs"]
pub(crate) mod faketime;
pub(crate) mod observed;
pub(crate) mod pooler;
#[allow(unreachable_pub, reason = "as above")]
#[path = "../../../windlass-testkit/src/store_folder.rs"]
mod store_folder;
pub(crate) mod workers;

use tempfile::TempDir;
use windlass::Store;
use windlass::store::Environment;
pub(crate) use windlass_conformance::fixture::*;
use windlass_conformance::{EngineUnderTest, TestStore};

pub(crate) use self::store_folder::store_folder;

/// Which engine a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Memory,
    Sqlite,
    Postgres,
}

impl On {
    /// The address of a new store, and the files that go with it.
    pub(crate) fn address(self) -> (Option<TempDir>, String) {
        match self {
            On::Memory => (None, "memory:".to_owned()),
            On::Sqlite => {
                let files = store_folder();
                let address = format!("sqlite:{}", files.path().join("jobs.db").display());
                (Some(files), address)
            }
            On::Postgres => (None, cluster::new_schema()),
        }
    }

    /// The engine at an address.
    pub(crate) fn of(address: &str) -> On {
        match address.split_once(':').expect("an address begins with its engine").0 {
            "memory" => On::Memory,
            "sqlite" => On::Sqlite,
            _ => On::Postgres,
        }
    }
}

impl EngineUnderTest for On {
    fn open(&self, env: Environment) -> TestStore {
        let (files, address) = self.address();
        let store = Store::open_in(&address, env).expect("a new store opens");
        let keep = files.map(|files| Box::new(files) as Box<_>);
        let is_shared = *self != On::Memory;
        let address = if is_shared { address } else { String::new() };
        TestStore { store, address, has_bounded_searches: is_shared, keep }
    }
}

/// Three nodes on one PostgreSQL.
pub(crate) struct ThreeNodes;

impl EngineUnderTest for ThreeNodes {
    fn open(&self, env: Environment) -> TestStore {
        On::Postgres.open(env)
    }

    fn nodes(&self) -> u64 {
        3
    }
}

/// Runs each test of a module on every engine.
macro_rules! on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                let fixture = crate::fixture::Fixture::new(crate::fixture::On::Memory);
                super::$name(&fixture).await;
                fixture.verify().await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let fixture = crate::fixture::Fixture::new(crate::fixture::On::Sqlite);
                super::$name(&fixture).await;
                fixture.verify().await;
                fixture.store.close();
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let fixture = crate::fixture::Fixture::new(crate::fixture::On::Postgres);
                super::$name(&fixture).await;
                fixture.verify().await;
                fixture.store.close();
            })*
        }
    };
}

pub(crate) use on_every_engine;
