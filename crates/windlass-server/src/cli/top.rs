//! `windlass top`: a terminal full of what is going on, with keys to intervene.

mod details;
mod draw;
mod keys;
mod look;
mod order;
mod rates;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod words;
