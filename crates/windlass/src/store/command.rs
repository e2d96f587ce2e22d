//! The verbs of the model, each written once over a [`Unit`](super::unit::Unit). A command reads, asks
//! [`transition`](crate::job::transition), and leaves the writing to the unit; it never speaks SQL.

pub mod act;
pub(crate) mod advance;
pub mod bulk;
pub(crate) mod callback;
pub(crate) mod cascade;
pub mod children;
pub mod claim;
pub mod clock;
pub mod finish;
pub mod generation;
pub mod heartbeat;
pub mod hold;
pub mod key;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod letter;
pub(crate) mod needed;
pub mod precondition;
pub(crate) mod record;
pub mod redrive;
pub mod retention;
pub(crate) mod schedule;
pub mod seal;
pub mod settings;
pub mod signal;
pub mod step;
pub mod submit;
pub(crate) mod throttle;
pub mod tick;
pub(crate) mod ticket;
pub mod worker;
