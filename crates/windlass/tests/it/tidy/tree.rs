//! The files of the project, read once. It walks the working tree rather than asking git, so that the rules also hold
//! in an unpacked release, and leaves out build output and anything that is not text.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Every text file of the project, ordered by path.
pub(super) static TREE: LazyLock<Vec<SourceFile>> = LazyLock::new(|| {
    // Asked at run time first: checkouts that share a target directory share this binary, too.
    let manifest =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let root = Path::new(&manifest).join("../..");
    let mut files = Vec::new();
    collect(&root, "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
});

/// Directories that hold no source.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// A text file: its path from the root of the project, with `/` on every platform, and its contents.
pub(super) struct SourceFile {
    pub(super) path: String,
    pub(super) text: String,
}

impl SourceFile {
    /// A file that exists only in a test of a rule.
    pub(super) fn sample(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// The last component of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub(super) fn has_extension(&self, extensions: &[&str]) -> bool {
        self.name().rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    pub(super) fn is_rust(&self) -> bool {
        self.has_extension(&["rs"])
    }

    /// Whether people read it as a program: any language, also a script without an extension.
    pub(super) fn is_code(&self) -> bool {
        self.has_extension(&["rs", "sql", "sh", "py", "js", "ts", "css", "html"])
            || self.text.starts_with("#!/")
    }

    /// Whether it is compiled only for tests. The conformance suite and the testkit are tests in the form of libraries.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.name() == "tests.rs"
            || self.path.starts_with("crates/windlass-conformance/src/")
            || self.path.starts_with("crates/windlass-testkit/src/")
    }

    /// Whether it is part of what ships, rather than a test, a benchmark or an example.
    pub(super) fn is_shipped(&self) -> bool {
        !self.is_test() && !self.path.contains("/benches/") && !self.path.contains("/examples/")
    }

    /// The path inside `crates/*/src/`, for a module of any of the crates.
    pub(super) fn path_in_crate(&self) -> Option<&str> {
        let (_, inside) = self.path.strip_prefix("crates/")?.split_once('/')?;
        inside.strip_prefix("src/")
    }
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<SourceFile>) {
    let entries = fs::read_dir(directory).expect("a directory of the project can be listed");
    for entry in entries {
        let entry = entry.expect("an entry of the project can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        // Not followed when it is a link: what it points to is walked where it lives, or is not ours.
        let kind = entry.file_type().expect("an entry of the project has a type");
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() {
            // A file that vanishes meanwhile, such as an editor's, is skipped like a binary file.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                files.push(SourceFile { path, text });
            }
        }
    }
}

#[test]
fn a_path_says_what_a_file_is_for() {
    let of = |path| SourceFile::sample(path, "");
    assert!(of("crates/windlass/tests/it/main.rs").is_test());
    assert!(of("crates/windlass-core/src/job/retry/tests.rs").is_test());
    assert!(of("crates/windlass-core/src/job/tests/graph.rs").is_test());
    assert!(of("crates/windlass-conformance/src/claims/claim.rs").is_test());
    assert!(of("crates/windlass-testkit/src/cluster.rs").is_test());
    assert!(!of("crates/windlass/src/testing.rs").is_test());
    assert!(!of("crates/windlass/benches/claim.rs").is_shipped());
    assert!(of("crates/windlass/src/clock.rs").is_shipped());
    assert_eq!(of("crates/windlass-core/src/job/state.rs").path_in_crate(), Some("job/state.rs"));
    assert_eq!(of("crates/windlass/tests/it/main.rs").path_in_crate(), None);
    assert!(SourceFile::sample("check", "#!/usr/bin/env bash\n").is_code());
    assert!(!of("README.md").is_code());
}
