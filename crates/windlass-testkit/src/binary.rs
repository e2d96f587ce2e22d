//! Which program the tests start: the one that cargo built for them, with the compiler's checks, or the one that
//! `WINDLASS_BINARY` names. `./check release` names the release build there, so that what is shipped is tested, too.

use std::path::{Path, PathBuf};

/// The program's file.
pub fn binary() -> PathBuf {
    let Some(named) = std::env::var_os("WINDLASS_BINARY") else {
        return built();
    };
    let named = PathBuf::from(named);
    // Tests run in folders of their own, where a relative path would mean something else.
    assert!(
        named.is_absolute() && named.is_file(),
        "WINDLASS_BINARY is not an absolute path: {}",
        named.display()
    );
    assert_eq!(named.file_name(), Path::new("windlass").file_name(), "documents call it by this name");
    named
}

/// What cargo has built for the tests of `windlass-cli`. Test programs are in the folder `deps` beside it; only those of the
/// crate itself are given its path.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.ancestors().nth(2).expect("a test program is in the folder `deps`");
    let program = folder.join("windlass");
    assert!(program.is_file(), "{} does not exist; run: cargo build", program.display());
    program
}
