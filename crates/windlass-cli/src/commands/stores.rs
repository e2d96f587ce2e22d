//! Commands that work on a store itself: backup, restore, migration, move, verification, clock.

pub(crate) mod backup;
pub(crate) mod clock;
pub(crate) mod migrate;
pub(crate) mod move_store;
pub(crate) mod restore;
pub(crate) mod verify;
