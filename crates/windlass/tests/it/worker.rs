//! Workers, handlers and contexts, as a program that embeds the library uses them.

mod kinds;
mod run;
mod transaction;
mod virtual_time;
