//! The rules of Windlass jobs as pure data and functions: the job record and its states, [`job::transition()`], which
//! decides every change of state, timers, retries, dependency graphs, schedules, alerts, the audit trail's hash chain,
//! API keys and tickets, names and limits. No I/O, no clocks, no runtime.
//!
//! Programs use the crate `windlass`, which exports what they need of it.

pub mod alert;
pub mod audit;
pub mod callback;
pub mod caller;
pub mod clock;
pub mod entropy;
pub mod error;
#[cfg(test)]
mod fuzz;
pub mod job;
pub mod key;
pub mod limits;
pub mod schedule;
#[cfg(feature = "schema")]
mod schema;
pub mod settings;
pub mod similar;
pub mod ticket;
pub mod webhook_url;

#[doc(hidden)]
pub use windlass_macros::{Words, skip_none};
