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

/// Where a path in the text may begin: at the root, or where its section of the code map does.
const BASES: [&str; 5] = [
    "",
    "crates/windlass/src/",
    "crates/windlass-server/src/",
    "crates/windlass/",
    "crates/windlass-server/",
];

const EXTENSIONS: [&str; 12] =
    ["rs", "sql", "toml", "md", "sh", "py", "js", "css", "html", "json", "yml", "lock"];

/// Paths in backticks that lead nowhere. Fenced blocks are left out: they show trees, commands and output.
pub(super) fn missing_architecture_paths(tree: &[SourceFile]) -> Vec<String> {
    let Some(document) = tree.iter().find(|file| file.path == ARCHITECTURE) else {
        return vec![format!("{ARCHITECTURE}: does not exist")];
    };
    let mut violations = Vec::new();
    for (line, span) in code_spans(&document.text) {
        for path in alternatives(span.strip_prefix("./").unwrap_or(span)) {
            if looks_like_a_path(span) && !exists(tree, &path) {
                violations.push(format!("{ARCHITECTURE}:{line}: `{path}` does not exist"));
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
        missing_architecture_paths(&[
            SourceFile::sample(ARCHITECTURE, text),
            SourceFile::sample("check", ""),
            SourceFile::sample("docs/concepts.md", ""),
            SourceFile::sample("crates/windlass/src/job/state.rs", ""),
            SourceFile::sample("crates/windlass/tests/it/main.rs", ""),
        ])
    }

    #[test]
    fn a_path_that_exists_may_be_named_from_any_base() {
        let text = "`crates/windlass/src/job/state.rs` `job/state.rs` `job/` `docs/concepts.md` `./check` `tests/it/`";
        assert_eq!(missing(text), [""; 0]);
        assert_eq!(missing("`job/{state}.rs`, `job/*.rs` and `crates/windlass/src/job/*`"), [""; 0]);
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
        assert_eq!(missing_architecture_paths(&[]).len(), 1);
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
