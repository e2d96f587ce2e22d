//! The commands of the model, each written once over a [`WriteTx`](super::tx::write_tx::WriteTx). A command reads, calls
//! [`transition`](crate::job::transition), and leaves the writing to the transaction; it contains no SQL.

pub mod actions;
pub mod alert;
pub mod attempt_writes;
pub mod bulk;
pub mod children;
pub mod claim;
pub(crate) mod effects;
pub mod finish;
pub mod generation;
pub mod heartbeat;
pub mod key;
pub mod maintenance;
pub mod pause;
pub mod precondition;
pub mod redrive;
pub(crate) mod schedule;
pub(crate) mod schema_checks;
pub mod settings;
pub mod submit;
pub mod worker;
