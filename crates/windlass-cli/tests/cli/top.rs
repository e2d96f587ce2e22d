//! `windlass top` in a real terminal, which tmux provides; and `windlass bench`.

mod bench;
mod screen;
