//! The server from outside: every route over a real connection, on a store of its own.

mod client;
mod door;
mod fixture;
mod jobs;
mod work;
