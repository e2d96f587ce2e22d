//! Which lines of the job model some test names. It looks at comments only: a line's number above a test is the
//! promise that the test keeps it; whether it does is for the reader.

use super::lexer::{scan, whole_word_positions};
use super::tree::SourceFile;

/// The numbered lines of the model that show through `Store`; the others belong to the server.
#[rustfmt::skip]
const LINES: [&str; 66] = [
    "M1", "M2", "M3", "M4", "M5", "M6", "M7",
    "M10", "M11", "M12", "M13", "M14", "M15", "M16", "M17", "M18",
    "M20", "M21", "M22", "M24",
    "M30", "M31", "M33", "M34", "M35",
    "M40", "M41", "M42", "M43", "M44", "M45", "M46",
    "M50", "M51", "M52", "M53", "M54", "M55", "M56", "M57", "M58",
    "M60", "M61", "M62", "M63", "M64",
    "M70", "M71", "M72", "M73",
    "M80", "M81",
    "M90", "M91", "M92", "M93", "M94", "M95", "M96",
    "M100", "M101", "M102", "M103", "M104",
    "M110", "M113",
];

/// Lines of the model that no test names.
pub(super) fn lines_without_a_test(tree: &[SourceFile]) -> Vec<String> {
    let comments = test_comments(tree);
    LINES
        .iter()
        .filter(|line| !comments.iter().any(|comment| !whole_word_positions(comment, line).is_empty()))
        .map(|line| format!("{line}: no comment of any test names it"))
        .collect()
}

/// The comments of test files, and those of the test module that a source file ends with. Not of this suite, whose
/// samples are about other things.
fn test_comments(tree: &[SourceFile]) -> Vec<String> {
    let mut comments = Vec::new();
    for file in tree.iter().filter(|file| file.is_rust() && !file.path.contains("/it/tidy")) {
        let scan = scan(&file.text);
        let from =
            if file.is_test() { Some(0) } else { scan.code.lines().position(|line| line == "mod tests {") };
        let Some(from) = from else { continue };
        comments.extend(
            scan.comments.into_iter().filter(|comment| comment.line > from).map(|comment| comment.text),
        );
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_m5(path: &str, text: &str) -> bool {
        let violations = lines_without_a_test(&[SourceFile::sample(path, text)]);
        !violations.iter().any(|violation| violation.starts_with("M5:"))
    }

    #[test]
    fn a_line_is_named_in_the_comment_of_a_test() {
        assert!(names_m5("crates/windlass/tests/it/claim.rs", "/// M5: the fence grows.\n"));
        assert!(names_m5("crates/windlass/src/job/transition/tests.rs", "// (M5, M6)\n"));
        assert!(names_m5("crates/windlass/src/job/retry.rs", "#[cfg(test)]\nmod tests {\n    // M5\n}\n"));
    }

    #[test]
    fn a_line_named_in_another_place_does_not_count() {
        assert!(!names_m5(
            "crates/windlass/tests/it/claim.rs",
            "const LINE: &str = \"M5\"; // M55 and XM5\n"
        ));
        assert!(!names_m5("crates/windlass/src/job/retry.rs", "//! M5\n#[cfg(test)]\nmod tests {\n}\n"));
        assert!(!names_m5("crates/windlass/tests/it/tidy/model.rs", "// M5\n"));
    }
}
