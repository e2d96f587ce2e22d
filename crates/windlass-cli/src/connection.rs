//! Which server a command talks to, and how: addresses, profiles, calls, events.

pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod profile;
pub(crate) mod reconnect;
