//! Which program the tests drive: the one that cargo built for them, or the one that `WINDLASS_BINARY` names. `./check` names
//! the release build there, so that what is tested is what is shipped.

use std::path::{Path, PathBuf};

/// The program's file.
pub(crate) fn binary() -> PathBuf {
    let Some(named) = std::env::var_os("WINDLASS_BINARY") else {
        return PathBuf::from(env!("CARGO_BIN_EXE_windlass"));
    };
    let named = PathBuf::from(named);
    // Tests run in folders of their own, where a relative path would mean something else.
    assert!(named.is_absolute() && named.is_file(), "WINDLASS_BINARY is no whole path: {}", named.display());
    assert_eq!(named.file_name(), Path::new("windlass").file_name(), "documents call it by this name");
    named
}
