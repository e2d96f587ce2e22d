//! Outgoing calls, seen from the receiver's side: where calls may go, what they contain, and what happens to jobs if
//! receivers are slow, broken or hostile.

mod alert;
mod callback;
mod calling_store;
mod client;
mod durable_push;
mod hostile;
mod program;
mod push;
