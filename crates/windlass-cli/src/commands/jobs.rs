//! Commands about jobs.

pub(crate) mod actions;
pub(crate) mod batch;
pub(crate) mod edit;
pub(crate) mod export;
pub(crate) mod filter;
pub(crate) mod id;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod show;
pub(crate) mod signal;
pub(crate) mod stream;
pub(crate) mod submit;
pub(crate) mod tree;
