//! Store.
pub mod config;
pub mod engine;
pub mod environment;
pub mod feed;
pub mod filter;
pub mod group;
pub mod memo;
pub mod rates;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod unit;
pub mod view;
pub mod wakeup;
