//! What the project's text must hold and must not. It reads words and paths, never whether the prose is true.

use super::lexer::{line_of, whole_word_positions};
use super::tree::SourceFile;

/// Words for work that was put off. Written in two halves, so that this file does not break its own rule.
const UNFINISHED: [&str; 4] =
    [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("FIX", "ME"), concat!("X", "XX")];

/// Words for unfinished work, in any text of the project.
pub(super) fn unfinished_work(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree {
        for word in UNFINISHED {
            let found = whole_word_positions(&file.text, word);
            violations.extend(
                found
                    .into_iter()
                    .map(|at| format!("{}:{}: holds `{word}`", file.path, line_of(&file.text, at))),
            );
        }
    }
    violations
}

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Words of the architecture page at most: it is read in one sitting, and decisions have pages of their own.
const ARCHITECTURE_WORDS_MAX: usize = 2_000;

/// The architecture page, if it is too long to be read in one sitting.
pub(super) fn long_architecture(tree: &[SourceFile]) -> Vec<String> {
    let page = tree.iter().filter(|file| file.path == ARCHITECTURE);
    let words = page.map(|file| file.text.split_whitespace().count());
    words
        .filter(|&words| words > ARCHITECTURE_WORDS_MAX)
        .map(|words| format!("{ARCHITECTURE}: {words} words, limit is {ARCHITECTURE_WORDS_MAX}"))
        .collect()
}

/// Whether paths that it names in backticks must exist.
fn names_paths(file: &SourceFile) -> bool {
    [ARCHITECTURE, "CONTRIBUTING.md"].contains(&file.path.as_str()) || file.path.starts_with("docs/design/")
}

/// Lines of examples that rustdoc hides and a forge shows. Documents on a forge show whole programs instead.
pub(super) fn hidden_lines(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree.iter().filter(|file| file.has_extension(&["md"])) {
        let (mut fenced, mut is_rust) = (false, false);
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            if let Some(language) = line.strip_prefix("```") {
                fenced = !fenced;
                is_rust = fenced && language.starts_with("rust");
            } else if is_rust && (line == "#" || line.starts_with("# ")) {
                violations.push(format!("{}:{}: a hidden line shows on a forge", file.path, index + 1));
            }
        }
    }
    violations
}

/// Documents that cite a rule of the model by a number, which means nothing to a reader.
pub(super) fn numbered_rules(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree.iter().filter(|file| file.has_extension(&["md"]) && file.name() != "CHANGELOG.md") {
        for (index, line) in file.text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_ascii_alphanumeric());
            let found = words.filter(|word| {
                word.strip_prefix('M')
                    .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
            });
            violations.extend(found.map(|word| {
                format!("{}:{}: `{word}`: link to the rule in docs/model.md", file.path, index + 1)
            }));
        }
    }
    violations
}

/// Where a path in the text may begin: at the root, or where its section of the code map does.
const BASES: [&str; 8] = [
    "",
    "crates/windlass-core/src/",
    "crates/windlass/src/",
    "crates/windlass-server/src/",
    "crates/windlass-cli/src/",
    "crates/windlass/",
    "crates/windlass-server/",
    "crates/windlass-cli/",
];

const EXTENSIONS: [&str; 12] =
    ["rs", "sql", "toml", "md", "sh", "py", "js", "css", "html", "json", "yml", "lock"];

/// Paths in backticks that lead nowhere. Fenced blocks are left out: they show trees, commands and output.
pub(super) fn missing_paths(tree: &[SourceFile]) -> Vec<String> {
    if !tree.iter().any(|file| file.path == ARCHITECTURE) {
        return vec![format!("{ARCHITECTURE}: does not exist")];
    }
    let mut violations = Vec::new();
    for document in tree.iter().filter(|file| names_paths(file)) {
        for (line, span) in code_spans(&document.text) {
            for path in alternatives(span.strip_prefix("./").unwrap_or(span)) {
                if looks_like_a_path(span) && !exists(tree, &path) {
                    violations.push(format!("{}:{line}: `{path}` does not exist", document.path));
                }
            }
        }
    }
    violations
}

/// The text between single backticks outside fenced blocks, each with its line.
fn code_spans(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut spans = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            // Between backticks is every second piece; one after an unpaired backtick at the end is prose.
            let pieces: Vec<_> = line.split('`').collect();
            let closed = pieces.len() - 1;
            spans.extend(pieces[..closed].iter().skip(1).step_by(2).map(|span| (index + 1, *span)));
        }
    }
    spans
}

fn looks_like_a_path(span: &str) -> bool {
    if span.starts_with('/') || span.contains(|c: char| c.is_whitespace() || ":<>()$".contains(c)) {
        return false;
    }
    let rooted = ["crates/", "docs/", "scripts/", "./"].iter().any(|root| span.starts_with(root));
    let has_extension = span.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension));
    rooted || (span.contains('/') && (has_extension || span.ends_with('/')))
}

/// `a/{b,c}.rs` is two paths.
fn alternatives(span: &str) -> Vec<String> {
    let group = span.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    let Some((head, (choices, tail))) = group else { return vec![span.to_owned()] };
    choices.split(',').flat_map(|choice| alternatives(&format!("{head}{}{tail}", choice.trim()))).collect()
}

/// Whether the tree holds the path, as a file, as a folder, or, with a `*`, as anything that it stands for.
fn exists(tree: &[SourceFile], path: &str) -> bool {
    let (start, end) = path.split_once('*').unwrap_or((path, ""));
    BASES.iter().any(|base| {
        let start = format!("{base}{start}");
        tree.iter().filter_map(|file| file.path.strip_prefix(start.as_str())).any(|rest| {
            let is_whole = rest.is_empty() || rest.starts_with('/') || start.ends_with('/');
            if path.contains('*') { rest.ends_with(end) } else { is_whole }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(text: &str) -> Vec<String> {
        missing_paths(&[
            SourceFile::sample(ARCHITECTURE, text),
            SourceFile::sample("check", ""),
            SourceFile::sample("docs/concepts.md", ""),
            SourceFile::sample("crates/windlass-core/src/job/state.rs", ""),
            SourceFile::sample("crates/windlass/tests/it/main.rs", ""),
        ])
    }

    #[test]
    fn a_path_that_exists_may_be_named_from_any_base() {
        let text = "`crates/windlass-core/src/job/state.rs` `job/state.rs` `job/` `docs/concepts.md` `./check` `tests/it/`";
        assert_eq!(missing(text), [""; 0]);
        assert_eq!(missing("`job/{state}.rs`, `job/*.rs` and `crates/windlass-core/src/job/*`"), [""; 0]);
    }

    #[test]
    fn a_path_that_does_not_exist_is_named_with_its_line() {
        assert_eq!(missing("text\n`job/status.rs`"), ["ARCHITECTURE.md:2: `job/status.rs` does not exist"]);
        assert_eq!(missing("`docs/` and `docs/guide`"), ["ARCHITECTURE.md:1: `docs/guide` does not exist"]);
        assert_eq!(missing("`job/{state,status}.rs`"), ["ARCHITECTURE.md:1: `job/status.rs` does not exist"]);
        assert_eq!(missing("`jo/` `./chec` `gone/*.rs`").len(), 3);
    }

    #[test]
    fn what_only_resembles_a_path_is_left_alone() {
        let text = "`POST /jobs/` `/api/v1/` `text/plain` `http://x/y.md` `a::b/c.rs` `JobState::Ready`\n```\n`no/way.rs`\n```\nit's ` unpaired/x.rs";
        assert_eq!(missing(text), [""; 0]);
    }

    #[test]
    fn a_missing_document_is_a_violation() {
        assert_eq!(missing_paths(&[]).len(), 1);
    }

    #[test]
    fn paths_are_checked_on_every_page_for_contributors() {
        let of = |page: &str| {
            missing_paths(&[
                SourceFile::sample(ARCHITECTURE, ""),
                SourceFile::sample(page, "`job/status.rs`"),
            ])
        };
        assert_eq!(of("CONTRIBUTING.md"), ["CONTRIBUTING.md:1: `job/status.rs` does not exist"]);
        assert_eq!(of("docs/design/storage.md").len(), 1);
        assert_eq!(of("docs/cli.md"), [""; 0]);
    }

    #[test]
    fn an_architecture_page_that_takes_too_long_to_read_is_found() {
        let of =
            |words: usize| long_architecture(&[SourceFile::sample(ARCHITECTURE, &"word ".repeat(words))]);
        assert_eq!(of(2_000), [""; 0]);
        assert_eq!(of(2_001), ["ARCHITECTURE.md: 2001 words, limit is 2000"]);
    }

    #[test]
    fn a_hidden_line_of_an_example_is_found() {
        let of = |text: &str| hidden_lines(&[SourceFile::sample("docs/a.md", text)]);
        let hidden = "# Heading\n```rust,no_run\n# use a::b;\n#[derive(Debug)]\n#\n```\n";
        assert_eq!(
            of(hidden),
            ["docs/a.md:3: a hidden line shows on a forge", "docs/a.md:5: a hidden line shows on a forge"]
        );
        assert_eq!(of("```toml\n# a comment\n```\n# Heading\n```rust\nuse a;\n```\n"), [""; 0]);
    }

    #[test]
    fn a_rule_cited_by_number_is_found() {
        let of = |path: &str, text: &str| numbered_rules(&[SourceFile::sample(path, text)]);
        assert_eq!(
            of("docs/a.md", "x\nas said (M51)"),
            ["docs/a.md:2: `M51`: link to the rule in docs/model.md"]
        );
        assert_eq!(of("docs/a.md", "10M rows, MiB, M, M1x, 5 M"), [""; 0]);
        assert_eq!(of("CHANGELOG.md", "M5").len() + of("src/a.rs", "M5").len(), 0);
    }

    #[test]
    fn words_for_unfinished_work_are_found_as_whole_words() {
        let found = |text: &str| unfinished_work(&[SourceFile::sample("a.md", text)]).len();
        for word in UNFINISHED {
            assert_eq!(found(&format!("some {word} here")), 1, "{word}");
        }
        assert_eq!(found(&format!("mktemp dir.{}", "X".repeat(6))), 0);
        assert_eq!(found("todo = \"warn\""), 0);
    }
}
