//! The commands of the model, each written once over a [`WriteTx`](super::tx::write_tx::WriteTx). A command reads, calls
//! [`transition`](crate::job::transition), and leaves the writing to the transaction; it contains no SQL.

pub(crate) mod actions;
pub(crate) mod alert;
pub(crate) mod attempt_writes;
pub(crate) mod bulk;
pub(crate) mod children;
pub(crate) mod claim;
pub(crate) mod effects;
pub(crate) mod finish;
pub(crate) mod generation;
pub(crate) mod heartbeat;
pub(crate) mod key;
pub(crate) mod maintenance;
pub(crate) mod pause;
pub(crate) mod precondition;
pub(crate) mod redrive;
pub(crate) mod schedule;
pub(crate) mod schema_checks;
pub(crate) mod settings;
pub(crate) mod submit;
pub(crate) mod worker;
