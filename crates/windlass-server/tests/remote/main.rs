//! The library against a server: its own worker tests once more, over HTTP, and what only a network can do to it.

mod fixture;
mod worker;
