//! Which server a command talks to, and how: addresses, profiles, calls, events.

pub(crate) mod client;
pub(in crate::cli) mod connect;
pub(in crate::cli) mod profile;
pub(in crate::cli) mod reconnect;
