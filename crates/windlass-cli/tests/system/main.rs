//! The server as a system: run by an operator, several processes on one store, calls to receivers, and the library against
//! a server.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should say where")]

mod fixture;
mod histories;
mod operating;
mod remote;
mod webhooks;
