//! The conformance suite of Windlass: what every engine must do, as tests that any crate can run on an engine of its own.
//! Each test is a sentence, names the rule of the job model it proves, and ends with a check of all invariants.
//!
//! ```ignore
//! // tests/conformance.rs of the crate with the engine:
//! use windlass::Store;
//! use windlass::store::Environment;
//!
//! fn open(env: Environment) -> Store {
//!     Store::with_engine(env, |env| Ok::<_, std::convert::Infallible>(MyEngine::new(env))).unwrap()
//! }
//!
//! windlass_conformance::suite!(my_engine: crate::open);
//! ```
//!
//! Every test is then a `#[test]` of its own, such as `claims::claim::my_engine::a_retried_job_keeps_its_place`. Each
//! opens a new store, which must be empty. The contract of engines is [`windlass::store::engine`]; how to write one is
//! explained in `docs/design/engines.md` of the repository.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

#[macro_use]
mod suite;

pub mod access;
pub mod actions;
pub mod alerts;
pub mod audit;
pub mod audit_trail;
pub mod claims;
pub mod events;
#[doc(hidden)]
pub mod fixture;
pub mod jobs;
pub mod pauses;
pub mod reads;
pub mod reports;
pub mod resume;
pub mod schedule;
pub mod settings;
pub mod smoke;

pub use suite::{EngineUnderTest, Test, TestStore, run};
