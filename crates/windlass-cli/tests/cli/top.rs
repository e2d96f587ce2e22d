//! `windlass top` in a real terminal, which tmux provides; and `windlass bench`, also with several nodes.

mod bench;
mod nodes;
mod screen;
