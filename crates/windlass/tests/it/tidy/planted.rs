//! The planted faults of `tests/planted/`: each still fits the code that it breaks, and says which tests find it. Whether
//! they do is what `scripts/planted` shows.

use super::tree::SourceFile;

const FOLDER: &str = "tests/planted/";

/// Faults that cannot be planted any more, because the code they change is no longer there.
pub(super) fn outdated_faults(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for patch in tree.iter().filter(|file| file.path.starts_with(FOLDER)) {
        let (head, changes) = patch.text.split_once("\n\n").unwrap_or((&patch.text, ""));
        for line in ["Fault: ", "Caught by: cargo test -p windlass"] {
            if !head.lines().any(|found| found.starts_with(line)) {
                violations.push(format!("{}: has no line `{line}…`", patch.path));
            }
        }
        let hunks = hunks(changes);
        if hunks.is_empty() {
            violations.push(format!("{}: changes nothing", patch.path));
        }
        for (path, before) in hunks {
            let file = tree.iter().find(|file| file.path == path);
            let places = file.map_or(0, |file| file.text.matches(&before).count());
            if places != 1 {
                violations.push(format!("{}: fits {path} in {places} places", patch.path));
            }
        }
    }
    violations
}

/// The files that a patch changes, each with one text that it must hold for the patch to fit.
fn hunks(changes: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut path = "";
    for line in changes.lines() {
        if let Some(changed) = line.strip_prefix("+++ b/") {
            path = changed;
        } else if line.starts_with("@@ ") {
            found.push((path.to_owned(), String::new()));
        } else if let (Some((_, before)), Some(kept)) = (found.last_mut(), line.strip_prefix([' ', '-']))
            && !line.starts_with("--- a/")
        {
            before.push_str(kept);
            before.push('\n');
        }
    }
    found
}

#[test]
fn a_fault_fits_only_the_code_it_was_made_for() {
    let patch = "Fault: x.\nCaught by: cargo test -p windlass-core --lib job::\n\n\
                 diff --git a/one.rs b/one.rs\n--- a/one.rs\n+++ b/one.rs\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n";
    let fault = || SourceFile::sample("tests/planted/x.patch", patch);
    let broken = |text| outdated_faults(&[SourceFile::sample("one.rs", text), fault()]).len();
    assert_eq!(broken("a\nb\nd\n"), 0, "it fits");
    assert_eq!(broken("0\na\nb\nd\ne\n"), 0, "it fits another place, too");
    assert_eq!(broken("a\nc\nd\n"), 1, "the line is another");
    assert_eq!(broken("a\nb\nd\na\nb\nd\n"), 1, "there are two places");
    assert_eq!(outdated_faults(&[fault()]).len(), 1, "the file is gone");
    assert_eq!(outdated_faults(&[SourceFile::sample("tests/planted/y.patch", "nothing")]).len(), 3);
}
