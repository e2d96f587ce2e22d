//! What the SQL engines share: the encoding of rows, the caches of a connection, and the queues of waiting work. No
//! SQL, and nothing that only one database needs.

pub(crate) mod checksum;
pub(crate) mod codec;
pub(crate) mod columns;
pub(crate) mod interner;
pub(crate) mod page;
mod round_robin;
pub(crate) mod task_queue;
pub(crate) mod thread;
