//! Damage of the file itself, and not of a single record: what is acknowledged afterwards could be lost with it. A reader
//! hands an error to one caller, who may be only a list in a dashboard, so every statement also notes damage here.

use std::cell::RefCell;

use rusqlite::ffi;

use crate::error::StoreError;

/// SQLite's messages for damage of the file.
const MESSAGES: [&str; 4] =
    ["disk image is malformed", "malformed database schema", "is not a database", "was truncated"];

thread_local! {
    /// The first damage that a statement of this thread has met since it was last asked.
    static MET: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes an error of a statement if it is damage of the file.
pub(super) fn note(failure: ffi::Error, message: &str) {
    let is_damage = match failure.code {
        ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase => true,
        // A page that should be there is missing, or its checksum is wrong.
        ffi::ErrorCode::SystemIoFailure => {
            [ffi::SQLITE_IOERR_SHORT_READ, ffi::SQLITE_IOERR_DATA, ffi::SQLITE_IOERR_CORRUPTFS]
                .contains(&failure.extended_code)
        }
        _ => false,
    };
    if is_damage {
        MET.with_borrow_mut(|met| {
            if met.is_none() {
                *met = Some(message.to_owned());
            }
        });
    }
}

/// The damage that statements of this thread have met since the last call.
pub(super) fn take() -> Option<String> {
    MET.take()
}

/// Whether this is damage of the file, according to SQLite's message.
pub(super) fn is_of_file(what: &str) -> bool {
    MESSAGES.iter().any(|message| what.contains(message))
}

/// The error for everything that is asked of a damaged store.
pub(super) fn stopped(what: &str) -> StoreError {
    StoreError::Stopped(format!("the database file is damaged: {what}; restore a backup"))
}
