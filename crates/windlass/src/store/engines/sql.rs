//! What the engines that keep things on disk share: how a row looks whatever the database, what a connection remembers,
//! and how work waits for the thread that does it. No SQL, and nothing that only one database needs.

pub(crate) mod checksum;
pub(crate) mod codec;
pub(crate) mod columns;
pub(crate) mod interner;
pub(crate) mod page;
pub(crate) mod panic;
pub(crate) mod task_queue;
pub(crate) mod thread;
mod turns;
