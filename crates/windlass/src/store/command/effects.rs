//! What follows from a command, in the same commit: consequences for other jobs, continued in bounded commits; limits
//! that are used up or freed; tickets; callbacks; audit records.

pub(crate) mod advance;
pub(crate) mod audit;
pub(crate) mod callback;
pub(crate) mod cascade;
pub(crate) mod needed;
pub(crate) mod rate_limit;
pub(crate) mod ticket;
