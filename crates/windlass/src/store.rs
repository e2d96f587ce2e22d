//! Store.
pub mod config;
pub mod engine;
pub mod environment;
pub mod feed;
pub mod filter;
pub mod group;
pub mod memo;
pub mod memory;
pub mod rates;
pub mod unit;
pub mod view;
pub mod wakeup;
