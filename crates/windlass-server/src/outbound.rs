//! Calling out: callbacks when jobs end, and queues whose jobs are posted to a web address. Whoever is called is hostile
//! until proven otherwise: where calls go is guarded, and what comes back is bounded. It follows no redirects, uses no
//! proxy from the environment, and shows nobody what a receiver answered but for a job's own result.

pub mod callback;
pub mod client;
pub mod guard;
pub mod keyring;
pub mod push;
pub mod signature;
pub mod verdict;

pub use client::Client;
