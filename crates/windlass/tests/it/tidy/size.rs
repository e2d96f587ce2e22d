//! How long a file and a function may be, how many entries a folder may have, and how large a trait of the engine
//! contract may be. It counts lines as an editor shows them, blank ones and comments included:
//! what a reader scrolls through.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{line_of, scan, whole_word_positions};
use super::tree::SourceFile;

const FILE_LINES_MAX: usize = 500;
const TEST_FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const CONTRACT_METHODS_MAX: usize = 7;
const FOLDER_ENTRIES_MAX: usize = 20;

/// The engine contract. Tasks are not part of what an engine implements: the store hands them to it.
const CONTRACT: &str = "crates/windlass/src/store/engine";
const TASKS: &str = "crates/windlass/src/store/engine/task.rs";

/// Programs that are longer than the limit of their kind.
pub(super) fn long_files(tree: &[SourceFile]) -> Vec<String> {
    tree.iter()
        .filter(|file| file.is_code())
        .filter_map(|file| {
            let limit = if file.is_test() { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
            let lines = file.text.lines().count();
            (lines > limit).then(|| format!("{}: {lines} lines, limit is {limit}", file.path))
        })
        .collect()
}

/// Folders of the crates with more entries than a reader takes in at once. A module and its folder are one entry.
pub(super) fn large_folders(tree: &[SourceFile]) -> Vec<String> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.iter().filter(|file| file.path.starts_with("crates/")) {
        let path = file.path.strip_suffix(".rs").unwrap_or(&file.path);
        for (at, _) in path.match_indices('/') {
            let entry = path[at + 1..].split('/').next().unwrap_or_default();
            folders.entry(&path[..at]).or_default().insert(entry);
        }
    }
    folders
        .iter()
        .filter(|(_, entries)| entries.len() > FOLDER_ENTRIES_MAX)
        .map(|(folder, entries)| {
            format!("{folder}: {} entries, limit is {FOLDER_ENTRIES_MAX}; group them by noun", entries.len())
        })
        .collect()
}

/// Rust functions that are longer than the limit, from the line with `fn` to the closing brace.
pub(super) fn long_functions(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree.iter().filter(|file| file.is_rust()) {
        for function in functions(&file.text).iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            violations.push(format!(
                "{}:{}: function {} has {} lines, limit is {FUNCTION_LINES_MAX}",
                file.path, function.line, function.name, function.lines
            ));
        }
    }
    violations
}

/// Traits of the engine contract with more methods than a chapter may have.
pub(super) fn long_chapters(tree: &[SourceFile]) -> Vec<String> {
    let is_contract = |file: &&SourceFile| {
        let rest = file.path.strip_prefix(CONTRACT);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/')) && file.path != TASKS
    };
    let mut violations = Vec::new();
    for file in tree.iter().filter(is_contract) {
        let code = scan(&file.text).code;
        for start in whole_word_positions(&code, "trait") {
            let rest = &code[start..];
            let body = &rest[..rest.find("\n}").unwrap_or(rest.len())];
            let methods = whole_word_positions(body, "fn").len();
            if methods > CONTRACT_METHODS_MAX {
                let line = line_of(&code, start);
                violations.push(format!(
                    "{}:{line}: a trait with {methods} methods, limit is {CONTRACT_METHODS_MAX}",
                    file.path
                ));
            }
        }
    }
    violations
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions with a body, nested ones too; a closure belongs to the function around it.
fn functions(text: &str) -> Vec<Function> {
    let code = scan(text).code;
    let mut found = Vec::new();
    for start in whole_word_positions(&code, "fn") {
        let rest = &code[start + "fn".len()..];
        let name: String = rest.trim_start().chars().take_while(|&c| c != '(' && c != '<').collect();
        // `fn(u32) -> u32` is a type.
        if name.is_empty() {
            continue;
        }
        if let Some(length) = body_end(rest) {
            let (line, last) = (line_of(&code, start), line_of(&code, start + length));
            found.push(Function { name: name.trim_end().to_owned(), line, lines: last - line + 1 });
        }
    }
    found
}

/// How far the body reaches that follows a signature; `None` for a declaration without one.
fn body_end(rest: &str) -> Option<usize> {
    let mut brackets = 0_usize;
    let mut braces = 0_usize;
    for (at, character) in rest.char_indices() {
        match character {
            '(' | '[' => brackets += 1,
            // A bracket that was opened before the signature ends what it stands in, such as a macro's arguments.
            ')' | ']' => brackets = brackets.checked_sub(1)?,
            ';' if braces == 0 && brackets == 0 => return None,
            // Braces within brackets of the signature are a constant, as in `[u8; { N + 1 }]`.
            '{' if brackets == 0 || braces > 0 => braces += 1,
            '}' if brackets == 0 || braces > 0 => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at + "fn".len());
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(text: &str) -> Vec<(String, usize, usize)> {
        functions(text).into_iter().map(|f| (f.name, f.line, f.lines)).collect()
    }

    #[test]
    fn a_function_is_measured_from_its_name_to_its_closing_brace() {
        let text = "/// Doc {\n#[inline]\npub async fn first<T>(\n    x: [u8; 4],\n) -> T {\n    \"}\";\n    '}'\n}\n\nfn second() {}\n";
        assert_eq!(measured(text), [("first".to_owned(), 3, 6), ("second".to_owned(), 10, 1)]);
    }

    #[test]
    fn a_nested_function_is_measured_apart_and_within_its_parent() {
        let text = "fn outer() {\n    fn inner() {\n        call(|| { 1 });\n    }\n}\n";
        assert_eq!(measured(text), [("outer".to_owned(), 1, 5), ("inner".to_owned(), 2, 3)]);
    }

    #[test]
    fn a_declaration_and_a_pointer_have_no_body() {
        let text =
            "trait T {\n    fn declared(&self, x: [u8; 2]);\n}\nstruct S {\n    call: fn(u32) -> u32,\n}\n";
        assert!(measured(text).is_empty());
        assert!(measured("m! { fn pattern(x) }\nstruct S {\n    a: u8,\n}\n").is_empty());
    }

    #[test]
    fn a_constant_in_a_signature_is_not_its_body() {
        assert_eq!(measured("fn f(x: [u8; { N + 1 }]) {\n}\n"), [("f".to_owned(), 1, 2)]);
    }

    #[test]
    fn a_function_one_line_too_long_is_named() {
        let file = |body: usize| {
            SourceFile::sample(
                "crates/a/src/x.rs",
                &format!("fn long() {{\n{}}}\n", "    step();\n".repeat(body)),
            )
        };
        assert!(long_functions(&[file(68)]).is_empty());
        assert_eq!(
            long_functions(&[file(69)]),
            ["crates/a/src/x.rs:1: function long has 71 lines, limit is 70"]
        );
    }

    #[test]
    fn a_chapter_with_too_many_methods_is_named() {
        let chapter = |path: &str, methods: usize| {
            let text = format!("pub trait Keys {{\n{}}}\n", "    fn one(&mut self);\n".repeat(methods));
            long_chapters(&[SourceFile::sample(path, &text)])
        };
        let path = "crates/windlass/src/store/engine/keys.rs";
        assert!(chapter(path, 7).is_empty());
        assert_eq!(chapter(path, 8), [format!("{path}:1: a trait with 8 methods, limit is 7")]);
        assert_eq!(chapter("crates/windlass/src/store/engine.rs", 8).len(), 1);
        for other in [TASKS, "crates/windlass/src/store/engines/keys.rs"] {
            assert!(chapter(other, 8).is_empty(), "{other}");
        }
    }

    #[test]
    fn a_folder_with_too_many_entries_is_named() {
        let folder = |modules: usize| {
            let paths =
                (0..modules).flat_map(|n| [format!("crates/a/m{n}.rs"), format!("crates/a/m{n}/x.rs")]);
            let tree: Vec<_> = paths.map(|path| SourceFile::sample(&path, "")).collect();
            large_folders(&tree)
        };
        assert!(folder(20).is_empty());
        assert_eq!(folder(21), ["crates/a: 21 entries, limit is 20; group them by noun"]);
    }

    #[test]
    fn a_test_file_may_be_longer_than_a_source_file() {
        let file = |path: &str, lines: usize| SourceFile::sample(path, &"//\n".repeat(lines));
        let source = |lines| long_files(&[file("crates/a/src/x.rs", lines)]);
        let test = |lines| long_files(&[file("crates/a/tests/it/x.rs", lines)]);
        assert!(source(500).is_empty() && test(800).is_empty());
        assert_eq!(source(501), ["crates/a/src/x.rs: 501 lines, limit is 500"]);
        assert_eq!(test(801), ["crates/a/tests/it/x.rs: 801 lines, limit is 800"]);
        assert!(long_files(&[file("docs/long.md", 2_000)]).is_empty());
    }
}
