//! Transactions: one group commit for many requests, the write transaction that commands work on, and the read
//! transaction of queries.

pub(crate) mod cache;
pub mod group_commit;
pub(crate) mod read_tx;
pub(crate) mod request;
pub(crate) mod work;
pub(crate) mod write_tx;
