//! What every request passes: limits, access, decoding.

pub(in crate::http) mod access;
pub(crate) mod auth;
pub(in crate::http) mod body_budget;
pub(in crate::http) mod drain_body;
pub(crate) mod guesses;
pub(crate) mod held;
pub(in crate::http) mod json;
pub(in crate::http) mod middleware;
pub(in crate::http) mod objects;
pub(in crate::http) mod path;
pub(crate) mod places;
pub(in crate::http) mod query;
pub(in crate::http) mod rate_limit;
pub(in crate::http) mod strict;
