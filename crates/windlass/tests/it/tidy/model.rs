//! Which rules of the job model some test names. A comment `Model: slug, slug` above a test is the promise that the test
//! checks these rules of `docs/model.md`; whether it does is for the reader.

use std::collections::BTreeSet;

use super::lexer::{scan, whole_word_positions};
use super::tree::SourceFile;

/// The document that states the rules: each heading of the third level is one.
const MODEL: &str = "docs/model.md";

/// What a comment begins its list of rules with.
const MARK: &str = "Model:";

/// Rules of the model that no test of any crate names.
pub(super) fn rules_without_a_test(tree: &[SourceFile]) -> Vec<String> {
    let rules = rules(tree);
    if rules.is_empty() {
        return vec![format!("{MODEL}: states no rules")];
    }
    let named: BTreeSet<String> =
        comments(tree).into_iter().filter(|found| found.is_test).flat_map(|found| found.rules).collect();
    let missing = rules.difference(&named);
    missing.map(|rule| format!("{MODEL}#{rule}: no test names it with `{MARK} {rule}`")).collect()
}

/// Comments, of tests or not, that name a rule which the model does not state.
pub(super) fn unknown_rules(tree: &[SourceFile]) -> Vec<String> {
    let rules = rules(tree);
    let mut violations = Vec::new();
    for found in comments(tree) {
        if found.rules.is_empty() {
            violations.push(format!("{}: `{MARK}` is followed by no rule", found.place));
        }
        let unknown = found.rules.iter().filter(|rule| !rules.contains(*rule));
        violations.extend(unknown.map(|rule| format!("{}: {MODEL} has no heading `{rule}`", found.place)));
    }
    violations
}

/// The anchors of the rules, as a forge makes them of headings.
fn rules(tree: &[SourceFile]) -> BTreeSet<String> {
    let document = tree.iter().find(|file| file.path == MODEL);
    let lines = document.into_iter().flat_map(|file| file.text.lines());
    lines.filter_map(|line| line.strip_prefix("### ")).map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// A comment that names rules.
struct Naming {
    place: String,
    is_test: bool,
    rules: Vec<String>,
}

/// Every comment with the mark. Not those of this suite, whose samples are about other things.
fn comments(tree: &[SourceFile]) -> Vec<Naming> {
    let mut found = Vec::new();
    for file in tree.iter().filter(|file| file.is_rust() && !file.path.contains("/it/tidy")) {
        let scan = scan(&file.text);
        // A source file may end with a module of tests.
        let tests =
            if file.is_test() { Some(0) } else { scan.code.lines().position(|line| line == "mod tests {") };
        for comment in &scan.comments {
            let is_test = tests.is_some_and(|first| comment.line > first);
            for at in whole_word_positions(&comment.text, MARK) {
                let rules = slugs(&comment.text[at + MARK.len()..]);
                found.push(Naming { place: format!("{}:{}", file.path, comment.line), is_test, rules });
            }
        }
    }
    found
}

/// The slugs at the beginning of `text`, separated by commas.
fn slugs(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let part = part.trim_start();
        let end = part.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        let slug = &part[..end.unwrap_or(part.len())];
        if slug.is_empty() {
            break;
        }
        found.push(slug.to_owned());
        // Anything behind a slug but a comma ends the list.
        if end.is_some_and(|end| !part[end..].trim().is_empty()) {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str =
        "# The model\n\n## States\n\n### Final states\n\nText.\n\n### Result, cost and progress\n";

    fn tree(path: &str, text: &str) -> [SourceFile; 2] {
        [SourceFile::sample(MODEL, DOCUMENT), SourceFile::sample(path, text)]
    }

    fn missing(path: &str, text: &str) -> usize {
        rules_without_a_test(&tree(path, text)).len()
    }

    fn unknown(text: &str) -> Vec<String> {
        unknown_rules(&tree("crates/a/tests/it/x.rs", text))
    }

    #[test]
    fn every_heading_of_the_third_level_is_a_rule() {
        let found = rules(&tree("x.rs", ""));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["final-states", "result-cost-and-progress"]);
        assert_eq!(
            rules_without_a_test(&tree("crates/a/tests/it/x.rs", ""))[0],
            "docs/model.md#final-states: no test names it with `Model: final-states`"
        );
    }

    #[test]
    fn a_rule_is_named_in_the_comment_of_a_test() {
        let both = "/// Model: final-states, result-cost-and-progress\n";
        assert_eq!(missing("crates/windlass/tests/it/claim.rs", both), 0);
        assert_eq!(missing("crates/windlass-server/tests/it/jobs.rs", both), 0);
        assert_eq!(
            missing("crates/windlass-core/src/job/transition/tests.rs", "// (Model: final-states).\n"),
            1
        );
        let module = "#[cfg(test)]\nmod tests {\n    /// It ends. Model: final-states\n}\n";
        assert_eq!(missing("crates/windlass-core/src/job/retry.rs", module), 1);
    }

    #[test]
    fn a_rule_named_outside_tests_does_not_count() {
        assert_eq!(missing("crates/a/tests/it/x.rs", "const A: &str = \"Model: final-states\";\n"), 2);
        assert_eq!(missing("crates/a/src/x.rs", "//! Model: final-states\nmod tests {\n}\n"), 2);
        assert_eq!(missing("crates/windlass/tests/it/tidy/model.rs", "// Model: final-states\n"), 2);
        assert_eq!(missing("crates/a/tests/it/x.rs", "// SubModel: final-states, final-states\n"), 2);
    }

    #[test]
    fn a_rule_that_the_model_does_not_state_is_found() {
        assert_eq!(unknown("// Model: final-states, result-cost-and-progress: both\n"), [""; 0]);
        assert_eq!(
            unknown("\n// Model: final-states, last-states\n"),
            ["crates/a/tests/it/x.rs:2: docs/model.md has no heading `last-states`"]
        );
        assert_eq!(
            unknown("// Model: The final states\n"),
            ["crates/a/tests/it/x.rs:1: `Model:` is followed by no rule"]
        );
        let source =
            [SourceFile::sample(MODEL, DOCUMENT), SourceFile::sample("crates/a/src/x.rs", "// Model: x\n")];
        assert_eq!(unknown_rules(&source).len(), 1);
    }

    #[test]
    fn a_list_of_rules_ends_with_the_first_other_text() {
        assert_eq!(slugs(" a-b, c2 and more, d"), ["a-b", "c2"]);
        assert_eq!(slugs(" a, b. Then c"), ["a", "b"]);
        assert_eq!(slugs(" a, b,"), ["a", "b"]);
        assert_eq!(slugs(" Nothing"), [""; 0]);
    }

    #[test]
    fn a_missing_model_is_a_violation() {
        assert_eq!(rules_without_a_test(&[]), ["docs/model.md: states no rules"]);
    }
}
