//! Who is notified after a commit: waiting claims, event feeds and change listeners.

pub mod events;
pub mod feed;
pub mod wakeup;
