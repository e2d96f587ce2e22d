//! Jobs from submission to their end: fields, keys, dependencies, children, steps.

pub mod callback;
pub mod cascade;
pub mod children;
pub mod debounce;
pub mod finish;
pub mod graph;
pub mod key_limit;
pub mod keys;
pub mod metadata;
pub mod names;
pub mod payload;
pub mod precondition;
pub mod schemas;
pub mod steps;
pub mod submit;
pub mod ticket;
