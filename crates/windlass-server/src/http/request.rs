//! What every request passes: limits, access, decoding.

pub(in crate::http) mod access;
pub(crate) mod auth;
pub(in crate::http) mod body_budget;
pub(crate) mod connection_slots;
pub(in crate::http) mod cors;
pub(in crate::http) mod drain_body;
#[cfg(test)]
mod fuzz;
pub(in crate::http) mod json;
pub(crate) mod key_guess_limit;
pub(in crate::http) mod middleware;
pub(in crate::http) mod objects;
pub(in crate::http) mod page;
pub(in crate::http) mod path;
pub(in crate::http) mod query;
pub(in crate::http) mod rate_limit;
pub(crate) mod response_budget;
pub(in crate::http) mod strict;
