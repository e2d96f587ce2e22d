//! Jobs from submission to their end: fields, keys, dependencies, children, steps.

pub(in crate::conformance) mod callback;
pub(in crate::conformance) mod cascade;
pub(in crate::conformance) mod children;
pub(in crate::conformance) mod debounce;
pub(in crate::conformance) mod finish;
pub(in crate::conformance) mod graph;
pub(in crate::conformance) mod key_limit;
pub(in crate::conformance) mod keys;
pub(in crate::conformance) mod metadata;
pub(in crate::conformance) mod names;
pub(in crate::conformance) mod payload;
pub(in crate::conformance) mod precondition;
pub(in crate::conformance) mod steps;
pub(in crate::conformance) mod submit;
pub(in crate::conformance) mod ticket;
