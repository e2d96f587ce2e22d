//! Calling out, seen from the receiver's side: where calls go and do not go, what they carry, and what becomes of jobs when
//! receivers are slow, broken or hostile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../it/binary.rs"]
mod binary;
mod callback;
mod client;
mod hostile;
mod mock_receiver;
mod program;
mod push;
mod receiver;
