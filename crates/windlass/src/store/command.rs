//! The commands of the model, each written once over a [`WriteTx`](super::tx::write_tx::WriteTx). A command reads, calls
//! [`transition`](crate::job::transition), and leaves the writing to the transaction; it contains no SQL.

pub mod actions;
pub mod attempt_writes;
pub mod audit_chain;
pub mod bulk;
pub mod children;
pub mod claim;
pub mod clock;
pub(crate) mod effects;
pub mod finish;
pub mod generation;
pub mod heartbeat;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod inbox;
pub mod key;
pub mod maintenance;
pub mod pause;
pub mod precondition;
pub mod redrive;
pub mod retention;
pub(crate) mod schedule;
pub mod settings;
pub mod signal;
pub mod submit;
pub mod worker;
