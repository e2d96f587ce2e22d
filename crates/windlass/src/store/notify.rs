//! Who is notified after a commit: waiting claims, event feeds and change listeners.

pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod wakeup;
