//! Commands about jobs.

pub(in crate::cli) mod actions;
pub(in crate::cli) mod batch;
pub(in crate::cli) mod filter;
pub(in crate::cli) mod id;
pub(in crate::cli) mod job_counts;
pub(in crate::cli) mod list;
pub(in crate::cli) mod logs;
pub(in crate::cli) mod show;
pub(in crate::cli) mod submit;
pub(in crate::cli) mod tree;
