//! Commands that work on a store itself: backup, restore, migration, move, verification, clock.

pub(in crate::cli) mod backup;
pub(in crate::cli) mod clock;
pub(in crate::cli) mod migrate;
pub(in crate::cli) mod move_store;
pub(in crate::cli) mod restore;
pub(in crate::cli) mod verify;
