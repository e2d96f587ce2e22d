//! Transactions: one group commit for many requests, the write transaction that commands work on, and the read
//! transaction of queries.

pub mod cache;
pub mod group_commit;
pub mod read_tx;
pub(crate) mod request;
pub mod write_tx;
