//! Outgoing calls, seen from the receiver's side: where calls may go, what they contain, and what happens to jobs if
//! receivers are slow, broken or hostile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../operating/binary.rs"]
mod binary;
mod callback;
mod client;
mod hostile;
mod mock_receiver;
mod program;
mod push;
mod receiver;
